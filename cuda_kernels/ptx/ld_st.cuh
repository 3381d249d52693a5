// Ordinary accesses to shared and global memory. Plain C++, so that the compiler schedules and merges them.
// PTX ISA 9.7.9: ld, st.
#pragma once

#include <cstdint>

#include <ptx/kernel.cuh>

// T: float, uint16_t, uint32_t, uint2, uint4 ...; the address must be a multiple of sizeof(T).
template <class T>
DEVICE T ld_shared(uint32_t address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
}

template <class T>
DEVICE void st_shared(uint32_t address, const T& value) {
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
}

// T is the pointer's own type or a wider one (uint4 for 16 bytes).
template <class T>
DEVICE T ld_global(const void* pointer) {
  return *static_cast<const T*>(pointer);
}

template <class T>
DEVICE void st_global(void* pointer, const T& value) {
  *static_cast<T*>(pointer) = value;
}
