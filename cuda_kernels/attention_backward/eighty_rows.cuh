// What a step of eighty_rows computes of the queries from BEGIN to END, multiples of 16. All registers are those of a
// warpgroup's keys.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/warpgroup_tiles.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

// P = exp2(S - LSE), in place. `lse`: address of the LSE of this lane's first two queries.
template <int BEGIN, int END>
DEVICE void exponentials(float (&s)[BLOCK_M / 2], uint32_t lse, float scale_log2) {
#pragma unroll
  for (int n = BEGIN / 2; n < END / 2; n += 4) {
    const auto pair = ld_shared<float2>(lse + n * 8);
    for (int i = 0; i < 4; ++i) s[n + i] = ex2_approx_ftz(s[n + i] * scale_log2 - (i % 2 ? pair.y : pair.x));
  }
}

// P or dS in 16 bits.
template <int BEGIN, int END>
DEVICE void round_scores(uint32_t (&rounded)[BLOCK_M / MMA_K][4], const float (&scores)[BLOCK_M / 2]) {
#pragma unroll
  for (int n = BEGIN / 2; n < END / 2; n += 8)
    for (int i = 0; i < 4; ++i) rounded[n / 8][i] = cvt_pack<Element>(scores[n + i * 2], scores[n + i * 2 + 1]);
}

// dS = P (dP - D), in 16 bits. `dots`: address of the D of this lane's first two queries.
template <int BEGIN, int END>
DEVICE void multiply_scores(uint32_t (&ds)[BLOCK_M / MMA_K][4], const float (&p)[BLOCK_M / 2], float (&dp)[BLOCK_M / 2],
                            uint32_t dots) {
#pragma unroll
  for (int n = BEGIN / 2; n < END / 2; n += 4) {
    const auto pair = ld_shared<float2>(dots + n * 8);
    for (int i = 0; i < 4; ++i) dp[n + i] = p[n + i] * (dp[n + i] - (i % 2 ? pair.y : pair.x));
  }
  round_scores<BEGIN, END>(ds, dp);
}

// The compiler moves no use of these queries' P or dS in 16 bits across this point.
template <int BEGIN, int END>
DEVICE void fence_scores(uint32_t (&scores)[BLOCK_M / MMA_K][4]) {
#pragma unroll
  for (int m = BEGIN; m < END; m += MMA_K) register_fence(scores[m / MMA_K]);
}

// Issues dV += P^T dO, or dK += dS^T Q, as a group of its own. `rows`: the operand dO or Q.
template <int BEGIN, int END>
DEVICE void issue(float (&sums)[HEAD_DIM / 2], uint32_t (&scores)[BLOCK_M / MMA_K][4], uint64_t rows) {
  fence_scores<BEGIN, END>(scores);
  wgmma_fence();
#pragma unroll
  for (int m = BEGIN; m < END; m += MMA_K)
    wgmma_mma_async_rs<Element, HEAD_DIM, true>(sums, scores[m / MMA_K], rows + mn_major_rows(m), 1);
  wgmma_commit_group();
}

// Rounds P, issues dV += P^T dO, and computes dS under it.
template <int BEGIN, int END>
DEVICE void issue_dv(float (&dv)[HEAD_DIM / 2], uint32_t (&p_rounded)[BLOCK_M / MMA_K][4],
                     uint32_t (&ds)[BLOCK_M / MMA_K][4], const float (&p)[BLOCK_M / 2], float (&dp)[BLOCK_M / 2],
                     uint64_t rows, uint32_t dots) {
  round_scores<BEGIN, END>(p_rounded, p);
  issue<BEGIN, END>(dv, p_rounded, rows);
  multiply_scores<BEGIN, END>(ds, p, dp, dots);
}
