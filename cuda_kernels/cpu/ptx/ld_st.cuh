// CPU twin of cuda_kernels/ptx/ld_st.cuh.
#pragma once

#include <ptx/kernel.cuh>
#include <runtime/wgmma.h>

// A loop of loads that polls for another warp's store comes to an end, and is reported as a race.
template <class T>
DEVICE T ld_shared(uint32_t address, Where where = Where::current()) {
  return cpu::load<T>(cpu::shared_load(address, sizeof(T), "ld_shared", where));
}

template <class T>
DEVICE void st_shared(uint32_t address, const T& value, Where where = Where::current()) {
  cpu::check_accumulated(value, "st_shared", where);
  cpu::shared_store(address, &value, sizeof(T), "st_shared", where);
}

// Here a loop of loads sees a flag that another warp sets; on a GPU only atomics promise that.
template <class T>
DEVICE T ld_global(const void* pointer, Where where = Where::current()) {
  cpu::global_load(pointer, sizeof(T), "ld_global", where);
  return cpu::load<T>(pointer);
}

template <class T>
DEVICE void st_global(void* pointer, const T& value, Where where = Where::current()) {
  cpu::check_accumulated(value, "st_global", where);
  cpu::global_store(pointer, &value, sizeof(T), "st_global", where);
}
