// d (64 x N, fp32) = a * b: one warpgroup, both operands by TMA. a is (64 x DEPTH), or (DEPTH x 64) when A_TRANSPOSED;
// b is (N x DEPTH), or (DEPTH x N) when B_TRANSPOSED.
#include <arguments.cuh>
#include <ptx/barrier.cuh>
#include <ptx/fence.cuh>
#include <ptx/ld_st.cuh>
#include <ptx/ldmatrix.cuh>
#include <ptx/math.cuh>
#include <ptx/mbarrier.cuh>
#include <ptx/shfl.cuh>
#include <ptx/tma.cuh>
#include <ptx/wgmma_transposed.cuh>

namespace {

constexpr int M = 64, N = COLUMNS, K = DEPTH, THREADS = 128;
constexpr int BYTES = sizeof(ELEMENT_TYPE), K_STEP = 32 / BYTES;     // elements of k of one instruction
constexpr int SLAB = 16 * (1 << static_cast<int>(SWIZZLE)) / BYTES;  // elements of a row of a swizzle's pattern
constexpr int SLAB_BYTES = SLAB * BYTES;

struct Params {
  TensorMap a, b;
  float* d;
};

// Slabs of SLAB columns, one after the other, each with all rows.
DEVICE void load(uint32_t smem, const TensorMap& map, int rows, int columns, uint32_t full) {
  for (int c = 0; c < columns; c += SLAB)
    cp_async_bulk_tensor_load(smem + c / SLAB * rows * SLAB_BYTES, map, {c, 0}, full);
}

KERNEL(THREADS, 1) wgmma_product(const GRID_CONSTANT Params params) {
  const uint32_t full = shared_base();
  const uint32_t a_smem = shared_base() + 1024 + (BUG == MISALIGNED_TILE ? 128 : 0), b_smem = a_smem + M * K * BYTES,
                 spare = b_smem + N * K * BYTES;
  const int warp = tid_x() / 32, lane = tid_x() % 32;
  if (tid_x() == 0) {
    mbarrier_init(full, 1);
    if (BUG != MISSING_INIT_FENCE) fence_mbarrier_init();
  }
  bar_sync();
  if (tid_x() == 0) {
    mbarrier_arrive_expect_tx(full, (M + N) * K * BYTES);
    A_TRANSPOSED ? load(a_smem, params.a, K, M, full) : load(a_smem, params.a, M, K, full);
    B_TRANSPOSED ? load(b_smem, params.b, K, N, full) : load(b_smem, params.b, N, K, full);
  }
  if (BUG != MISSING_WAIT)
    while (!mbarrier_try_wait_parity(full, BUG == WRONG_PHASE)) {
    }

  if (BUG == FENCED_WRITE) {  // by a lane that has fenced more often than the others
    for (int i = 0; i < 4 && lane == 0; ++i) fence_proxy_async_shared();
    if (lane == 0) st_shared(a_smem + warp * 16 * K * BYTES, ld_shared<uint4>(a_smem + warp * 16 * K * BYTES));
    fence_proxy_async_shared();
    bar_sync();
  }
  if (BUG == HIDDEN_READ && ld_shared<uint32_t>(b_smem + tid_x() * 4) == 0x12345678u) return;  // wgmma reads it too

  float d_regs[N / 2];
  for (int i = 0; i < N / 2; ++i) d_regs[i] = 0.f;
  uint32_t a_regs[K / K_STEP][4];
  if (A_IN_REGISTERS) {
    const int row = warp * 16 + lane % 16;
    for (int step = 0; step < K / K_STEP; ++step) {
      const int column = step * 32 + lane / 16 * 16;  // bytes
      const uint32_t plain = a_smem + column / SLAB_BYTES * M * SLAB_BYTES + row * SLAB_BYTES + column % SLAB_BYTES;
      ldmatrix_x4(a_regs[step], plain ^ (plain >> 7 & ((1 << static_cast<int>(SWIZZLE)) - 1)) << 4);
    }
  }
  if (BUG != MISSING_FENCE) wgmma_fence();
  if (BUG == LATE_WRITE) d_regs[N / 2 - 1] = 1.f;
  if (BUG == LATE_FRAGMENT) a_regs[1][3] ^= 0x80008000u;
  for (int step = 0; step < K / K_STEP; ++step) {
    const int byte = step * 32;
    const auto k_major = [&](uint32_t smem, int rows) {
      if (SWIZZLE == Swizzle::none)  // slabs are 16 bytes of k wide
        return wgmma_descriptor(smem + step * 2 * rows * 16, rows * 16, 128, SWIZZLE);
      return wgmma_descriptor(smem + byte / SLAB_BYTES * rows * SLAB_BYTES + byte % SLAB_BYTES, 16,
                              8 * SLAB_BYTES * (BUG == WRONG_STRIDE ? 2 : 1), SWIZZLE);
    };
    const auto mn_major = [&](uint32_t smem) {
      if (SWIZZLE == Swizzle::none) return wgmma_descriptor(smem + step * K_STEP * 16, 128, K * 16, SWIZZLE);
      const uint32_t leading = K * SLAB_BYTES, stride = 8 * SLAB_BYTES;
      if (BUG == EXCHANGED_STRIDES)
        return wgmma_descriptor(smem + step * K_STEP * SLAB_BYTES, stride, leading, SWIZZLE);
      return wgmma_descriptor(smem + step * (BUG == WRONG_STRIDE ? 32 : K_STEP * SLAB_BYTES), leading, stride, SWIZZLE);
    };
    const uint64_t a = (A_TRANSPOSED ? mn_major(a_smem) : k_major(a_smem, M)) + (BUG == OTHER_DESCRIPTOR && warp == 2);
    const uint64_t b = B_TRANSPOSED ? mn_major(b_smem) : k_major(b_smem, N);
    if constexpr (A_TRANSPOSED)
      wgmma_mma_async_ss_transposed<ELEMENT_TYPE, N, A_TRANSPOSED, B_TRANSPOSED>(d_regs, a, b, step > 0);
    else if (A_IN_REGISTERS)
      wgmma_mma_async_rs<ELEMENT_TYPE, N, B_TRANSPOSED>(d_regs, a_regs[step], b, 1);
    else
      wgmma_mma_async_ss<ELEMENT_TYPE, N, B_TRANSPOSED>(d_regs, a, b, step > 0 || (BUG == OTHER_SCALE && warp == 1));
  }
  if (BUG == EARLY_WRITE) d_regs[3] = 0.f;
  if (BUG == EARLY_SCALE) d_regs[3] *= 2.f;
  if (BUG == EARLY_FRAGMENT) a_regs[1][3] ^= 0x80008000u;
  if (BUG != MISSING_COMMIT) wgmma_commit_group();
  if (BUG == EARLY_READ) st_global(params.d, ex2_approx_ftz(d_regs[0] * 2.f));
  if (BUG == EARLY_MAX) st_global(params.d, max_f32(-1.f, d_regs[0]));
  if (BUG == EARLY_SHUFFLE) st_global(params.d, shfl_bfly(d_regs[0], 1) > 0.f ? 1.f : 0.f);
  if (BUG == EARLY_STORE) st_global(params.d, d_regs[0]);
  if (BUG == EARLY_STAGING) st_shared(spare + tid_x() * 8, make_float2(0.f, d_regs[1]));
  if (BUG == EARLY_RELEASE && tid_x() == 0) {
    mbarrier_arrive_expect_tx(full, N * K * BYTES);
    load(b_smem, params.b, N, K, full);
  }
  if (BUG == UNORDERED_LANES) st_shared(spare + tid_x() * 8, tid_x());
  wgmma_wait_group<0>();
  while (BUG == EARLY_RELEASE && !mbarrier_try_wait_parity(full, 1)) {
  }
  if (BUG == ORDERED_OVERWRITE) bar_sync();
  if (BUG == EARLY_OVERWRITE || BUG == ORDERED_OVERWRITE)  // the 16 rows of A that this warp's accumulators stem from
    st_shared(a_smem + warp * 16 * SLAB_BYTES + lane * 16, make_uint4(0, 0, 0, 0));
  if (BUG == UNORDERED_LANES) d_regs[0] += ld_shared<int>(spare + (tid_x() ^ 1) * 8);
  if (BUG == HIDDEN_READ) {
    bar_sync();
    if (tid_x() == 0) cp_async_bulk_tensor_load(b_smem, params.b, {0, 0}, full);
  }
  register_fence(d_regs);
  const int group = lane / 4, quad = lane % 4;
  for (int i = 0; i < N / 2; ++i)
    st_global(params.d + (warp * 16 + group + i / 2 % 2 * 8) * N + i / 4 * 8 + quad * 2 + i % 2, d_regs[i]);
}

}  // namespace

EXPORT int shared_memory_bytes() { return 1024 + 128 + (M + N) * K * BYTES + THREADS * 8; }

EXPORT int launch(const Arguments* arguments, void* stream) {
  Params params;
  params.d = static_cast<float*>(arguments->tensors[2]);
  const auto encode = [](TensorMap& map, void* base, uint64_t rows, uint64_t columns) {
    return tensor_map_encode_tiled<ELEMENT_TYPE, 2>(map, base, {columns, rows}, {columns * BYTES},
                                                    {SLAB, static_cast<uint32_t>(rows)}, SWIZZLE);
  };
  if (const Error error = encode(params.a, arguments->tensors[0], A_TRANSPOSED ? K : M, A_TRANSPOSED ? M : K))
    return error;
  if (const Error error = encode(params.b, arguments->tensors[1], B_TRANSPOSED ? K : N, B_TRANSPOSED ? N : K))
    return error;
  return launch_kernel<wgmma_product>({1, 1, 1}, THREADS, shared_memory_bytes(), stream, params);
}
