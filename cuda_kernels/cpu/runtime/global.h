// The tensors that a launch may touch: accesses outside them, outputs left unwritten or written twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <runtime/where.h>

namespace cpu {

struct Thread;

enum class Access { read, write_once, scratch };

void watch_tensor(std::string name, const void* base, int element_bytes, std::vector<int64_t> sizes,
                  std::vector<int64_t> strides, Access access);
// The launch is over: reports outputs that none of its grids wrote.
void forget_tensors();
// Says in words where a pointer lies.
std::string nearest_tensor(const std::byte* pointer);

// Reports an access outside the watched tensors (when any is watched) or a write to an input, and returns false: the
// bytes must not be touched.
bool check_global(Thread& self, const void* pointer, uint32_t bytes, bool is_store, const char* mnemonic, Where where);

// Before each grid of a launch: it may write again what an earlier one wrote.
void begin_outputs();

}  // namespace cpu
