// Shared by the kernels of hopper/roofs: arguments, operands in shared memory, a warpgroup that saturates the tensor
// cores, and the clock. One block runs on each multiprocessor. Its first ROOF_PRODUCT_GROUPS warpgroups multiply; the
// next ROOF_VECTOR_GROUPS compute on registers for as long as the first warpgroup multiplies.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include <ptx/barrier.cuh>
#include <ptx/clock.cuh>
#include <ptx/device.cuh>
#include <ptx/fence.cuh>
#include <ptx/kernel.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/math.cuh>
#include <ptx/max3.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/vote.cuh>
#include <ptx/wgmma.cuh>

#define EXPORT extern "C" __attribute__((visibility("default")))

// What a warp did: its steps, and when the first began and the last ended, by the multiprocessor's clock and in
// nanoseconds. Warps of a block do not end together, so a rate of the block needs the first start and the last end.
struct RoofSample {
  uint64_t steps, start_clock, end_clock, start_nanosecond, end_nanosecond;
};

// Filled through ctypes by harness/build/roofs.py: same fields in the same order.
struct RoofArgs {
  RoofSample* samples;  // (blocks, warps)
  float* results;       // (blocks, threads): computed values, stored so that no compiler drops the work
  int32_t steps;        // per warpgroup that multiplies; per other warpgroup if none does
  float seed;           // 0.5 to 1; not known at compile time
};

constexpr int PRODUCT_GROUPS = ROOF_PRODUCT_GROUPS;
constexpr int VECTOR_GROUPS = ROOF_VECTOR_GROUPS;
constexpr int WARP = 32, WARPGROUP = 128;
constexpr int WARPGROUPS = PRODUCT_GROUPS + VECTOR_GROUPS;
constexpr int THREADS = WARPGROUPS * WARPGROUP;
static_assert(WARPGROUPS > 0);

// A unit is 64 query rows by 128 keys. Matrices are laid out as TMA writes them: slabs of 64 columns, 128-byte swizzle.
constexpr int ROWS = 64, KEYS = 128, MMA_K = 16;
constexpr int ROW_BYTES = 128;

struct RoofMemory {
  static constexpr int q = 0;                                // 256 rows of 128: 64 for each of four warpgroups
  static constexpr int k = q + 256 * 2 * ROW_BYTES;          // KEYS rows of 128
  static constexpr int v = k + KEYS * 2 * ROW_BYTES;         // the same
  static constexpr int finished = v + KEYS * 2 * ROW_BYTES;  // mbarrier: the first warpgroup has finished its products
  static constexpr int bytes = finished + 8;
};
static_assert(2 * RoofMemory::bytes > 228 * 1024, "one block on a multiprocessor");

DEVICE uint64_t k_major(uint32_t smem) { return wgmma_descriptor(smem, 16, 8 * ROW_BYTES, Swizzle::bytes_128); }
template <int MATRIX_ROWS>
constexpr uint64_t k_major_columns(int columns) {
  return (columns / 64 * (MATRIX_ROWS * ROW_BYTES) + columns % 64 * 2) / 16;
}
DEVICE uint64_t mn_major(uint32_t smem) {
  return wgmma_descriptor(smem, KEYS * ROW_BYTES, 8 * ROW_BYTES, Swizzle::bytes_128);
}
constexpr uint64_t mn_major_rows(int rows) { return rows * ROW_BYTES / 16; }

// Two bf16 values with magnitudes from 0.5 to 1 and any sign.
DEVICE uint32_t operand_bits(uint32_t number) { return 0x3f003f00u | (number * 2654435761u & 0x807f807fu); }

// A block's shared memory, and the progress of one of its warps.
struct Roof {
  const RoofArgs& args;
  uint32_t smem = shared_base();
  int warpgroup = shfl_idx(tid_x() / WARPGROUP, 0);
  int step = 0;
  uint64_t clock = 0, nanosecond = 0;
  bool is_finished = false;  // were the products finished when this step began?

  DEVICE explicit Roof(const RoofArgs& args) : args(args) {
    for (int i = tid_x(); i < RoofMemory::finished / 4; i += THREADS) st_shared(smem + i * 4, operand_bits(i));
    if (tid_x() == 0) mbarrier_init(smem + RoofMemory::finished, 1);
    fence_proxy_async_shared();
    bar_sync();
  }

  DEVICE bool multiplies() const { return PRODUCT_GROUPS && warpgroup < PRODUCT_GROUPS; }
  DEVICE void start() { clock = sm_clock64(), nanosecond = globaltimer(); }
  // At the start of a step of products; all four warps get the same answer.
  DEVICE bool takes_product() { return step++ < args.steps; }
  // Polls the barrier at the start of a vector step; goes_on() uses the answer at the step's end, so nothing waits.
  // `parity`: always 0.
  DEVICE void begin_vector(uint32_t parity = 0) {
    ++step;
    if (PRODUCT_GROUPS) is_finished = mbarrier_test_wait_parity(smem + RoofMemory::finished, parity);
  }
  DEVICE bool goes_on() const { return PRODUCT_GROUPS ? !vote_any(is_finished) : step < args.steps; }
  DEVICE void finish(int steps, float result) {
    const uint64_t end_clock = sm_clock64(), end_nanosecond = globaltimer();
    if (PRODUCT_GROUPS && tid_x() == 0) mbarrier_arrive(smem + RoofMemory::finished);
    st_global(args.results + ctaid_x() * THREADS + tid_x(), result);
    if (tid_x() % WARP) return;
    RoofSample& sample = args.samples[(ctaid_x() * THREADS + tid_x()) / WARP];
    st_global(&sample.steps, static_cast<uint64_t>(steps));
    st_global(&sample.start_clock, clock), st_global(&sample.end_clock, end_clock);
    st_global(&sample.start_nanosecond, nanosecond), st_global(&sample.end_nanosecond, end_nanosecond);
  }
};

template <int COUNT>
DEVICE float sum(const float (&registers)[COUNT]) {
  float total = 0;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) total += registers[i];
  return total;
}

// 2**x for x <= 0 without MUFU: x = n + f with f in [-0.5, 0.5], a cubic in f, and n added to the exponent. The cubic
// minimizes the largest relative error, 7.5e-5, which rounding to bf16 hides. Six FMA-pipe instructions, two ALU ones.
DEVICE float polynomial_ex2(float x) {
  constexpr float ROUNDER = 0x1.8p23f;  // adding it puts the nearest integer into the low bits
  x = max_f32(x, -126.f);
  const float shifted = x + ROUNDER;
  const float f = x - (shifted - ROUNDER);
  const float power = ((0.05517167f * f + 0.24261113f) * f + 0.69326099f) * f + 0.99992807f;
  return float_of(bits_of(power) + (bits_of(shifted) << 23));
}

// The exponentials of a softmax: by MUFU, but ROOF_POLYNOMIAL of every eight on the FMA pipe. With ROOF_EXPONENTIALS 0
// it returns its argument, which leaves everything but the exponentials.
#ifdef ROOF_EXPONENTIALS
DEVICE float exponential(float x, int number) {
  if (!ROOF_EXPONENTIALS) return x;
  return number % 8 < ROOF_POLYNOMIAL ? polynomial_ex2(x) : ex2_approx_ftz(x);
}

// Reduces over the four lanes that share a row of an accumulator.
DEVICE float quad_reduce_max(float x) {
  x = max_f32(x, shfl_bfly(x, 1));
  return max_f32(x, shfl_bfly(x, 2));
}

// The softmax state of a warpgroup, two rows per lane.
struct Softmax {
  float row_max[2] = {}, row_sum[2] = {};  // maxima start at 0: without exponentials, -inf would give NaN

  // Leaves the exponentials in S and the factor for O in `rescale`.
  DEVICE void step(float (&s_regs)[KEYS / 2], float (&rescale)[2], float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max_f32(s_regs[half * 2], s_regs[half * 2 + 1]);
#pragma unroll
      for (int n = half * 2 + 4; n < KEYS / 2; n += 4) new_max = max_f32(new_max, max_f32(s_regs[n], s_regs[n + 1]));
      new_max = max_f32(row_max[half], quad_reduce_max(new_max) * scale_log2);
      rescale[half] = exponential(row_max[half] - new_max, 7);
      row_max[half] = new_max;
      row_sum[half] *= rescale[half];
#pragma unroll
      for (int n = half * 2; n < KEYS / 2; n += 4) {
        for (int i = n; i < n + 2; ++i) {
          s_regs[i] = exponential(s_regs[i] * scale_log2 - new_max, i / 4 * 2 + i % 2);
          row_sum[half] += s_regs[i];
        }
      }
    }
  }
};

DEVICE void convert(uint32_t (&p_regs)[KEYS / MMA_K][4], const float (&s_regs)[KEYS / 2]) {
#pragma unroll
  for (int n = 0; n < KEYS / MMA_K; ++n)
    for (int i = 0; i < 4; ++i)
      p_regs[n][i] = cvt_pack<__nv_bfloat16>(s_regs[n * 8 + i * 2], s_regs[n * 8 + i * 2 + 1]);
}
#endif

// The compiler cannot move any use of these registers across this point.
template <int COUNT>
DEVICE void register_fence(uint32_t (&fragments)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) register_fence(fragments[i]);
}

// Products of 64 rows by COLUMNS columns, 64 deep: eight groups of four per step, alternating between two accumulators,
// so that one group is always in flight. Operands come from shared memory.
constexpr int SATURATING_PRODUCTS = 32;  // harness/catalog/roofs.py counts them
template <int COLUMNS>
DEVICE void saturate(Roof& roof) {
  float even[COLUMNS / 2] = {}, odd[COLUMNS / 2] = {};
  const uint64_t q = k_major(roof.smem + RoofMemory::q), k = k_major(roof.smem + RoofMemory::k);
  auto multiply = [&](float (&accumulator)[COLUMNS / 2]) {
    register_fence(accumulator);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < 64; d += MMA_K)
      wgmma_mma_async_ss<__nv_bfloat16, COLUMNS>(accumulator, q + k_major_columns<ROWS>(d),
                                                 k + k_major_columns<KEYS>(d), 1);
    wgmma_commit_group();
    wgmma_wait_group<1>();  // wait for the group on the other accumulator
  };
  roof.start();
#pragma unroll 1
  while (roof.takes_product()) {
#pragma unroll
    for (int i = 0; i < SATURATING_PRODUCTS / 8; ++i) multiply(even), multiply(odd);
  }
  wgmma_wait_group<0>();
  register_fence(even), register_fence(odd);
  roof.finish(roof.args.steps, sum(even) + sum(odd));
}

template <auto kernel>
Error launch_roof(const RoofArgs* args, void* stream) {
  int multiprocessors;
  if (const Error error = multiprocessor_count(multiprocessors)) return error;
  return launch_kernel<kernel>(Grid{multiprocessors, 1, 1}, THREADS, RoofMemory::bytes, stream, *args);
}
