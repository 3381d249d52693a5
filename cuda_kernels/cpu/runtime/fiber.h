// Fibers: several stacks in one OS thread, and the switch between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpu {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t STACK_BYTES = 512 * 1024;  // the sanitizer's frames are large
#else
constexpr size_t STACK_BYTES = 64 * 1024;
#endif

// Stacks of STACK_BYTES, aligned to their size. The lowest page of each holds the record of the thread that runs on it,
// so that a thread finds itself by masking its stack pointer; an inaccessible page keeps the stack from growing into
// it.
class Stacks {
 public:
  explicit Stacks(size_t count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  std::byte* record(size_t i) const { return first_ + i * STACK_BYTES; }
  bool hold(const void* address) const { return address >= mapped_ && address < mapped_ + bytes_; }

 private:
  std::byte* first_;
  std::byte* mapped_;
  size_t bytes_;
};

struct Fiber {
  void* stack_pointer = nullptr;
  void* bottom = nullptr;  // for the sanitizer, which must be told of every switch; null: the OS thread's own stack
};

// The fiber starts in `entry`, which never returns, at the first switch to it.
void prepare(Fiber& fiber, std::byte* record, void (*entry)());
void switch_fiber(Fiber& from, Fiber& to);
// Called first on a fresh fiber.
void fiber_entered();

inline void* stack_record() {
  size_t stack_pointer;
#if defined(__x86_64__)
  asm("mov %%rsp, %0" : "=r"(stack_pointer));
#elif defined(__aarch64__)
  asm("mov %0, sp" : "=r"(stack_pointer));
#else
#error "The CPU runtime switches stacks on x86-64 and AArch64 only; add this processor to fiber.cpp"
#endif
  return reinterpret_cast<void*>(stack_pointer & ~(STACK_BYTES - 1));
}

inline const std::byte* stack_end(const void* address_on_it) {
  return reinterpret_cast<const std::byte*>((reinterpret_cast<uintptr_t>(address_on_it) | (STACK_BYTES - 1)) + 1);
}

}  // namespace cpu
