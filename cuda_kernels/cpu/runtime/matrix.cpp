#include <runtime/matrix.h>

#include <cstring>

#include <runtime/memory.h>
#include <runtime/numbers.h>
#include <runtime/options.h>

// The inner loops once more for processors with 8-wide fused multiply-add; chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

namespace cpu {
namespace {

// c[16][8] += a[16][16] * b[16][8], all row-major.
VECTORIZED void multiply(float* __restrict c, const uint16_t* __restrict a, const uint16_t* __restrict b,
                         bool is_fp16) {
  float a_values[16 * 16], b_values[16 * 8];
  if (is_fp16) {
    for (int i = 0; i < 16 * 16; ++i) a_values[i] = from_fp16(a[i]);
    for (int i = 0; i < 16 * 8; ++i) b_values[i] = from_fp16(b[i]);
  } else {
    for (int i = 0; i < 16 * 16; ++i) a_values[i] = from_bf16(a[i]);
    for (int i = 0; i < 16 * 8; ++i) b_values[i] = from_bf16(b[i]);
  }
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 8; ++n) c[m * 8 + n] += a_values[m * 16 + k] * b_values[k * 8 + n];
}

}  // namespace

void ldmatrix(uint32_t* r, int matrices, bool transposed, uint32_t address, const char* mnemonic, Where where) {
  // Each lane checks its own row, so that a diagnosis names the lane; only the addresses of the matrices loaded count.
  const std::byte* row = nullptr;
  if (current().lane < matrices * 8) row = shared_read(address, 16, mnemonic, where);
  struct Row {
    uint32_t* r;
    const std::byte* bytes;
    uint32_t address;
  };
  warp_collective(mnemonic, where, Row{r, row, address}, [&](Row* const(&lanes)[LANES], Warp& warp) {
    if (options().counters) {
      WarpAccess access{.mask = ALL_LANES >> (LANES - matrices * 8)};
      for (int lane = 0; lane < matrices * 8; ++lane) access.shared[lane] = lanes[lane]->address;
      warp.block->cluster->counters.count(mnemonic, where, Path::shared_to_registers, 16, access, warp);
    }
    for (int matrix = 0; matrix < matrices; ++matrix) {
      uint16_t elements[8][8];
      for (int i = 0; i < 8; ++i) std::memcpy(elements[i], lanes[matrix * 8 + i]->bytes, 16);
      for (int lane = 0; lane < LANES; ++lane) {
        const int i = lane / 4, j = lane % 4 * 2;
        const uint16_t low = transposed ? elements[j][i] : elements[i][j];
        const uint16_t high = transposed ? elements[j + 1][i] : elements[i][j + 1];
        lanes[lane]->r[matrix] = low | static_cast<uint32_t>(high) << 16;
      }
    }
  });
}

void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b, Format format, const char* mnemonic, Where where) {
  struct Fragments {
    float* c;
    const uint32_t *a, *b;
  };
  warp_collective(mnemonic, where, Fragments{c, a, b}, [&](Fragments* const(&lanes)[LANES], Warp& warp) {
    count_warp(warp, mnemonic, where);
    uint16_t a_matrix[16][16], b_matrix[16][8];
    float c_matrix[16][8];
    for (int lane = 0; lane < LANES; ++lane) {
      const auto& [c_lane, a_lane, b_lane] = *lanes[lane];
      const int group = lane / 4, quad = lane % 4 * 2;
      for (int i = 0; i < 4; ++i) std::memcpy(&a_matrix[group + i % 2 * 8][quad + i / 2 * 8], &a_lane[i], 4);
      for (int i = 0; i < 2; ++i)
        for (int half = 0; half < 2; ++half)
          b_matrix[quad + i * 8 + half][group] = static_cast<uint16_t>(b_lane[i] >> half * 16);
      for (int i = 0; i < 2; ++i) std::memcpy(&c_matrix[group + i * 8][quad], &c_lane[i * 2], 8);
    }
    multiply(&c_matrix[0][0], &a_matrix[0][0], &b_matrix[0][0], format == Format::fp16);
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < 2; ++i) std::memcpy(&lanes[lane]->c[i * 2], &c_matrix[lane / 4 + i * 8][lane % 4 * 2], 8);
  });
}

}  // namespace cpu
