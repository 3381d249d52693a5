// Matrix multiply-accumulate of a warpgroup. Each warp has its 16 of the 64 rows; its part is computed when it waits.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include <runtime/execution.h>
#include <runtime/matrix.h>

namespace cpu {

// Registers of accumulators that instructions in flight use: their real values are here, in the registers is poison.
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
  bool a_in_registers, transpose_b, accumulate;
  std::array<std::array<uint32_t, 4>, LANES> a_registers;
  uint64_t a, b;                           // descriptors
  std::shared_ptr<const Knowledge> known;  // at issue
  Clock clock;
  Where where;
};

struct WgmmaState {
  uint64_t fences = 0;
  std::vector<Wgmma> open;
  std::deque<std::vector<Wgmma>> committed;
  std::vector<std::shared_ptr<Accumulator>> accumulators;
  std::vector<std::pair<float*, uint64_t>> released;  // lane 0's registers, and the fences at that time
  uint64_t executed = 0;
};

// `a` of shared operands is a descriptor; `a_registers` is null then.
void wgmma(float* d, uint64_t a, const uint32_t* a_registers, uint64_t b, bool accumulate, int n, Format format,
           bool transpose_b, const char* mnemonic, Where where);
void wgmma_fence(const char* mnemonic, Where where);
void wgmma_commit_group(const char* mnemonic, Where where);
void wgmma_wait_group(int pending, const char* mnemonic, Where where);
void wgmma_after_return(Thread& self, WgmmaState& state);

constexpr uint32_t ACCUMULATOR_POISON = 0x7fc5acc5;  // a NaN that arithmetic passes on
// Says so when x stems from an accumulator that was read too early.
void check_accumulated(float x, const char* mnemonic, Where where);

}  // namespace cpu
