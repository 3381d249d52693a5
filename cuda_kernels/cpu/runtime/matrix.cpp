#include <runtime/matrix.h>

#include <algorithm>
#include <cstring>

#include <runtime/diagnosis.h>
#include <runtime/memory.h>
#include <runtime/numbers.h>
#include <runtime/options.h>

// The inner loops, compiled again for processors with 8-wide fused multiply-add; chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

namespace cpu {
namespace {

VECTORIZED void convert(float* __restrict values, const uint16_t* __restrict elements, int count, bool is_fp16) {
  if (is_fp16)
    for (int i = 0; i < count; ++i) values[i] = from_fp16(elements[i]);
  else
    for (int i = 0; i < count; ++i) values[i] = from_bf16(elements[i]);
}

}  // namespace

VECTORIZED void multiply_add(float* __restrict c, const float* __restrict a, const float* __restrict b, int m, int n,
                             int k) {
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

// The same for the extents of mma, which the compiler then unrolls.
VECTORIZED void multiply_add_16_8_16(float* __restrict c, const float* __restrict a, const float* __restrict b) {
  for (int i = 0; i < 16; ++i)
    for (int l = 0; l < 16; ++l)
      for (int j = 0; j < 8; ++j) c[i * 8 + j] += a[i * 16 + l] * b[l * 8 + j];
}

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
    float a_values[16 * 16], b_values[16 * 8];
    convert(a_values, &a_matrix[0][0], 16 * 16, format == Format::fp16);
    convert(b_values, &b_matrix[0][0], 16 * 8, format == Format::fp16);
    multiply_add_16_8_16(&c_matrix[0][0], a_values, b_values);
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < 2; ++i) std::memcpy(&lanes[lane]->c[i * 2], &c_matrix[lane / 4 + i * 8][lane % 4 * 2], 8);
  });
}

void stmatrix(const uint32_t* r, int matrices, bool transposed, uint32_t address, const char* mnemonic, Where where) {
  struct Row {
    const uint32_t* r;
    uint32_t address;
    uint16_t elements[8];
  };
  Row mine{r, address, {}};
  if (Warp* warp = gather(mnemonic, where, &mine)) {
    const auto lane = [&](int i) { return static_cast<Row*>(warp->gathering.operands[i]); };
    WarpAccess access{.mask = ALL_LANES >> (LANES - matrices * 8)};
    for (int i = 0; i < matrices * 8; ++i) {
      access.shared[i] = lane(i)->address;
      for (int j = 0; j < 8; ++j) {
        const int row = transposed ? j : i % 8, column = transposed ? i % 8 : j;
        lane(i)->elements[j] = static_cast<uint16_t>(lane(row * 4 + column / 2)->r[i / 8] >> column % 2 * 16);
      }
    }
    if (options().counters)
      warp->block->cluster->counters.count(mnemonic, where, Path::registers_to_shared, 16, access, *warp);
    complete(*warp);
  }
  if (current().lane < matrices * 8) shared_write(address, mine.elements, 16, mnemonic, where);
}

namespace {

// Moves a fragment of 16x16 elements. Which lane moves what is not documented, so only its bytes count.
void move_fragment(Path path, uint32_t element_bytes, uint32_t address, int stride, const char* mnemonic, Where where) {
  const uint32_t row_bytes = stride * element_bytes;
  if (address % 16 || row_bytes % 16)
    fail("misaligned_access", current(), mnemonic, where,
         text("rows of %u bytes at shared address 0x%x: both must be multiples of 16", row_bytes, address));
  if (Warp* warp = gather(mnemonic, where, nullptr)) {
    if (options().counters)
      warp->block->cluster->counters.count(mnemonic, where, path, 16 * 16 * element_bytes, {.mask = 1}, *warp);
    complete(*warp);
  }
}

}  // namespace

void wmma_load(uint16_t* elements, bool column_major, uint32_t address, int stride, const char* mnemonic, Where where) {
  move_fragment(Path::shared_to_registers, 2, address, stride, mnemonic, where);
  const int row = current().lane / 2, column = current().lane % 2 * 8;
  for (int i = 0; i < 8; ++i) {
    const int at = column_major ? (column + i) * stride + row : row * stride + column + i;
    elements[i] = load<uint16_t>(shared_read(address + at * 2, 2, mnemonic, where));
  }
}

void wmma_load_f32(float* elements, uint32_t address, int stride, const char* mnemonic, Where where) {
  move_fragment(Path::shared_to_registers, 4, address, stride, mnemonic, where);
  const int row = current().lane / 2, column = current().lane % 2 * 8;
  for (int i = 0; i < 8; ++i)
    elements[i] = load<float>(shared_read(address + (row * stride + column + i) * 4, 4, mnemonic, where));
}

void wmma_store_f32(const float* elements, uint32_t address, int stride, const char* mnemonic, Where where) {
  move_fragment(Path::registers_to_shared, 4, address, stride, mnemonic, where);
  const int row = current().lane / 2, column = current().lane % 2 * 8;
  for (int i = 0; i < 8; ++i) shared_write(address + (row * stride + column + i) * 4, &elements[i], 4, mnemonic, where);
}

void wmma_multiply(float* c, const uint16_t* a, const uint16_t* b, Format format, const char* mnemonic, Where where) {
  struct Fragments {
    float* c;
    const uint16_t *a, *b;
  };
  warp_collective(mnemonic, where, Fragments{c, a, b}, [&](Fragments* const(&lanes)[LANES], Warp& warp) {
    count_warp(warp, mnemonic, where);
    float a_values[LANES][8], b_values[LANES][8], c_values[LANES][8];
    for (int i = 0; i < LANES; ++i) {
      convert(a_values[i], lanes[i]->a, 8, format == Format::fp16);
      convert(b_values[i], lanes[i]->b, 8, format == Format::fp16);
      std::copy_n(lanes[i]->c, 8, c_values[i]);
    }
    multiply_add(c_values[0], a_values[0], b_values[0], 16, 16, 16);
    for (int i = 0; i < LANES; ++i) std::copy_n(c_values[i], 8, lanes[i]->c);
  });
}

}  // namespace cpu
