#include <runtime/interface.h>

#include <runtime/counters.h>
#include <runtime/diagnosis.h>
#include <runtime/global.h>
#include <runtime/options.h>

void configure(uint64_t seed, int checks, int counters, int os_threads, int patience_ms) {
  cpu::options() = {seed, checks != 0, counters != 0, os_threads, patience_ms};
  cpu::all_counters().clear();
}

const char* diagnosis() { return cpu::diagnoses(); }

void watch(const char* name, const void* base, int element_bytes, const int64_t* sizes, const int64_t* strides,
           int rank, int access) {
  cpu::watch_tensor(name, base, element_bytes, {sizes, sizes + rank}, {strides, strides + rank},
                    static_cast<cpu::Access>(access));
}

void forget() { cpu::forget_tensors(); }

const char* counters() {
  static std::string text;
  text = cpu::all_counters().json();
  return text.c_str();
}
