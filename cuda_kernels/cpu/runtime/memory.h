// Accesses to shared and global memory, checked.
#pragma once

#include <atomic>
#include <cstring>

#include <runtime/execution.h>

namespace cpu {

// Shared memory starts here, as on a GPU of compute capability 9.0, whose first KiB is reserved for the system: an
// address without its base is out of range.
constexpr uint32_t SHARED_BASE = 0x400;

// Only instructions of .shared::cluster, which set this bit, take addresses that mapa gave.
constexpr uint32_t IN_CLUSTER = 1u << 31;
// The same place in the cluster's shared memory, as mapa gives it.
inline uint32_t cluster_address(uint32_t address, int rank) { return address | static_cast<uint32_t>(rank + 1) << 24; }

struct Place {
  Block* block;
  uint32_t offset;  // in its shared memory
  std::byte* bytes;
};

// All of these fail unless the bytes are inside shared memory (a watched tensor) and aligned to their size.
Place locate(uint32_t address, uint32_t bytes, const char* mnemonic, Where where);
Place locate_range(uint32_t address, uint32_t bytes, const char* mnemonic, Where where);  // without the alignment
// Ordinary loads and stores of one lane.
const std::byte* shared_load(uint32_t address, uint32_t bytes, const char* mnemonic, Where where);
void shared_store(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where);
void global_load(const void* pointer, uint32_t bytes, const char* mnemonic, Where where);  // before it is read
void global_store(void* pointer, const void* value, uint32_t bytes, const char* mnemonic, Where where);
// Adds each of `count` values, as one access that must be aligned to its size.
void global_add(float* sums, const float* values, uint32_t count, const char* mnemonic, Where where);
// A lane's part of an instruction that counts itself, such as ldmatrix.
const std::byte* shared_read(uint32_t address, uint32_t bytes, const char* mnemonic, Where where);
void shared_write(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where);
// The destination of a copy of `proxy`: it holds poison, and nobody may touch it until the copy lands.
std::byte* take_off(uint32_t address, uint32_t bytes, Proxy proxy, const char* mnemonic, Where where);
// The same for a lane's copy that reads `source_bytes` of global memory.
void copy_to_shared(uint32_t address, const void* source, uint32_t bytes, uint32_t source_bytes, const char* mnemonic,
                    Where where);

template <class T>
T load(const void* bytes) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes, sizeof value);
  return value;
}

template <class T>
void store(void* bytes, const T& value) {
  std::memcpy(bytes, static_cast<const void*>(&value), sizeof value);
}

void begin_atomic(uint32_t* counter, const char* mnemonic, Where where);
void end_atomic(uint32_t* counter, bool changed, uint32_t before, const char* mnemonic, Where where);
// Replaces a counter in global memory by next(counter), and returns what it was.
template <class Next>
uint32_t global_atomic(uint32_t* counter, Next next, const char* mnemonic, Where where) {
  begin_atomic(counter, mnemonic, where);
  const std::atomic_ref shared(*counter);
  uint32_t before = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(before, next(before), std::memory_order_acq_rel)) {
  }
  end_atomic(counter, next(before) != before, before, mnemonic, where);
  return before;
}

}  // namespace cpu
