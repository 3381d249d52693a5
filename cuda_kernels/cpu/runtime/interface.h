// What a kernel library exports besides `launch` and `shared_memory_bytes`; called through ctypes.
#pragma once

#include <cstdint>

#define CPU_EXPORT extern "C" __attribute__((visibility("default")))

// How the kernels of this library run from now on; see Options.
CPU_EXPORT void configure(uint64_t seed, int checks, int counters, int os_threads, int patience_ms);
// What the last launch did wrong, one diagnosis per line; empty when nothing.
CPU_EXPORT const char* diagnosis();
// A tensor of `rank` dimensions, sizes and strides in elements. `access`: 0 if a launch reads it, 1 if it writes each
// element exactly once, 2 if anything is allowed.
CPU_EXPORT void watch(const char* name, const void* base, int element_bytes, const int64_t* sizes,
                      const int64_t* strides, int rank, int access);
CPU_EXPORT void forget();
// JSON; see counters.h.
CPU_EXPORT const char* counters();
