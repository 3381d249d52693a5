// Matrix multiply-accumulate of a warpgroup. Each warp has its 16 of the 64 rows; its part is computed when it waits.
// Until then it counts as a reader of all of A and B in shared memory: PTX does not say which warp reads what.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

#include <vector_types.h>

#include <runtime/execution.h>
#include <runtime/matrix.h>

namespace cpu {

// Accumulator registers of instructions in flight: their real values are here, the registers hold poison.
struct Accumulator {
  std::array<float*, LANES> registers;
  int count;                  // of registers, per lane
  std::vector<float> values;  // by lane, by register
  int in_flight = 0;          // instructions
  Where where;                // of the newest
};

struct Wgmma {
  std::shared_ptr<Accumulator> accumulator;
  Format format;
  int n;
  bool a_in_registers, transpose_a, transpose_b, accumulate;
  std::array<const uint32_t*, LANES> a_places;
  std::array<std::array<uint32_t, 4>, LANES> a_registers;  // what they held at issue
  uint64_t a, b;                                           // descriptors
  Issue issue;
};

// What a thread's stack held at its last fence: registers that differ were written since.
struct Registers {
  const std::byte* begin = nullptr;
  std::vector<std::byte> bytes;

  void save(const void* frame) {
#ifndef __SANITIZE_ADDRESS__  // it forbids reading between variables
    begin = static_cast<const std::byte*>(frame);
    bytes.assign(begin, stack_end(begin));
#endif
  }
  bool differ(const void* registers, size_t count) const {
    const auto* first = static_cast<const std::byte*>(registers);
    if (first < begin || first + count > begin + bytes.size()) return false;
    return std::memcmp(first, bytes.data() + (first - begin), count) != 0;
  }
};

struct WgmmaState {
  uint64_t fences = 0;
  std::array<Registers, LANES> fenced;
  std::vector<Wgmma> open;
  std::deque<std::vector<Wgmma>> committed;
  std::vector<std::shared_ptr<Accumulator>> accumulators;
  std::vector<std::pair<float*, uint64_t>> released;  // lane 0's registers, and the fences at that time
};

// `a` of shared operands is a descriptor; `a_registers` is null then.
void wgmma(float* d, uint64_t a, const uint32_t* a_registers, uint64_t b, bool accumulate, int n, Format format,
           bool transpose_a, bool transpose_b, const char* mnemonic, Where where);
void wgmma_fence(const char* mnemonic, Where where);
void wgmma_commit_group(const char* mnemonic, Where where);
void wgmma_wait_group(int pending, const char* mnemonic, Where where);
void wgmma_after_return(Thread& self, const WgmmaState& state);

// A signalling NaN: arithmetic passes it on with the quiet bit set, so that x * 1 differs from x too.
constexpr uint32_t ACCUMULATOR_POISON = 0x7f85acc5, QUIET_BIT = 0x00400000;
inline bool is_poison(float x) { return std::bit_cast<uint32_t>(x) == ACCUMULATOR_POISON; }
void report_accumulated(const char* mnemonic, Where where);
// Reports a float of `value` that comes from an accumulator that was read too early.
template <class T>
void check_accumulated(const T& value, const char* mnemonic, Where where) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, float2> || std::is_same_v<T, float4>) {
    uint32_t bits[sizeof(T) / 4];
    std::memcpy(bits, &value, sizeof value);
    for (const uint32_t word : bits)
      if ((word | QUIET_BIT) == (ACCUMULATOR_POISON | QUIET_BIT)) return report_accumulated(mnemonic, where);
  }
}

}  // namespace cpu
