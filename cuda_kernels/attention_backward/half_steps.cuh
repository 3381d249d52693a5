// A step's work on half of its queries: the HALF queries from FIRST on. All registers are those of a warpgroup's keys.
#pragma once

#include <attention_backward/attention_backward.cuh>
#include <attention_backward/warpgroup_tiles.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>

constexpr int HALF = BLOCK_M / 2;

// P = exp2(S - LSE), in place and in 16 bits. `lse`: address of the LSE of this lane's first two queries.
template <int FIRST>
DEVICE void exponentials(float (&s)[BLOCK_M / 2], uint32_t (&p)[BLOCK_M / MMA_K][4], uint32_t lse, float scale_log2) {
#pragma unroll
  for (int n = FIRST / 2; n < (FIRST + HALF) / 2; n += 4) {
    const auto pair = ld_shared<float2>(lse + n * 8);
    for (int i = 0; i < 4; ++i) s[n + i] = ex2_approx_ftz(s[n + i] * scale_log2 - (i % 2 ? pair.y : pair.x));
  }
#pragma unroll
  for (int n = FIRST / 2; n < (FIRST + HALF) / 2; n += 8)
    for (int i = 0; i < 4; ++i) p[n / 8][i] = cvt_pack<Element>(s[n + i * 2], s[n + i * 2 + 1]);
}

// dS = P (dP - D), in 16 bits. `dots`: address of the D of this lane's first two queries.
template <int FIRST>
DEVICE void multiply_scores(uint32_t (&ds)[BLOCK_M / MMA_K][4], const float (&p)[BLOCK_M / 2], float (&dp)[BLOCK_M / 2],
                            uint32_t dots) {
#pragma unroll
  for (int n = FIRST / 2; n < (FIRST + HALF) / 2; n += 4) {
    const auto pair = ld_shared<float2>(dots + n * 8);
    for (int i = 0; i < 4; ++i) dp[n + i] = p[n + i] * (dp[n + i] - (i % 2 ? pair.y : pair.x));
  }
#pragma unroll
  for (int n = FIRST / 2; n < (FIRST + HALF) / 2; n += 8)
    for (int i = 0; i < 4; ++i) ds[n / 8][i] = cvt_pack<Element>(dp[n + i * 2], dp[n + i * 2 + 1]);
}

// Issues dV += P^T dO, or dK += dS^T Q, of this half as a group of its own. `rows`: the operand dO or Q.
template <int FIRST>
DEVICE void issue_half(float (&sums)[HEAD_DIM / 2], uint32_t (&scores)[BLOCK_M / MMA_K][4], uint64_t rows) {
#pragma unroll
  for (int m = FIRST; m < FIRST + HALF; m += MMA_K) register_fence(scores[m / MMA_K]);
  wgmma_fence();
#pragma unroll
  for (int m = FIRST; m < FIRST + HALF; m += MMA_K)
    wgmma_mma_async_rs<Element, HEAD_DIM, true>(sums, scores[m / MMA_K], rows + mn_major_rows(m), 1);
  wgmma_commit_group();
}
