#include <runtime/fiber.h>

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// void cpu_switch_stack(void** save, void* load): saves what the ABI lets a callee keep, and continues on `load`.
// Unlike swapcontext it leaves the signal mask alone, which would cost two system calls.
#if defined(__x86_64__)
asm(R"(
.text
.hidden cpu_switch_stack
.globl cpu_switch_stack
.type cpu_switch_stack, @function
cpu_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size cpu_switch_stack, . - cpu_switch_stack
)");
constexpr int ENTRY_WORD = 6, FRAME_WORDS = 8;
#elif defined(__aarch64__)
asm(R"(
.text
.hidden cpu_switch_stack
.globl cpu_switch_stack
.type cpu_switch_stack, %function
cpu_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size cpu_switch_stack, . - cpu_switch_stack
)");
constexpr int ENTRY_WORD = 11, FRAME_WORDS = 20;
#else
#error "fibers: expected x86-64 or aarch64"
#endif

extern "C" void cpu_switch_stack(void** save, void* load);

namespace cpu {

Stacks::Stacks(size_t count) : bytes_((count + 1) * STACK_BYTES) {
  // One stack more than asked for, so that aligned ones fit inside.
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<std::byte*>(mapped);
  first_ = mapped_ + (STACK_BYTES - reinterpret_cast<uintptr_t>(mapped) % STACK_BYTES) % STACK_BYTES;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < count; ++i) mprotect(record(i) + page, page, PROT_NONE);
}

Stacks::~Stacks() { munmap(mapped_, bytes_); }

void prepare(Fiber& fiber, std::byte* record, void (*entry)()) {
#ifdef __SANITIZE_ADDRESS__
  // The thread before never returned from the last switch: marks around the locals of those frames are still there.
  constexpr size_t FRAMES_BYTES = 16 * 1024;
  __asan_unpoison_memory_region(record + STACK_BYTES - FRAMES_BYTES, FRAMES_BYTES);
#endif
  auto* words = reinterpret_cast<uintptr_t*>(record + STACK_BYTES) - FRAME_WORDS;
  for (int i = 0; i < FRAME_WORDS; ++i) words[i] = 0;
  words[ENTRY_WORD] = reinterpret_cast<uintptr_t>(entry);
  fiber.stack_pointer = words;
  fiber.bottom = record;
}

#ifdef __SANITIZE_ADDRESS__
namespace {
thread_local const void* os_stack_bottom;
thread_local size_t os_stack_bytes;

// `bottom` and `bytes` are the stack that was left; the one that is no fiber's is the OS thread's own.
void remember_os_stack(const void* bottom, size_t bytes) {
  if (bytes != STACK_BYTES) os_stack_bottom = bottom, os_stack_bytes = bytes;
}
}  // namespace

void fiber_entered() {
  const void* bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  remember_os_stack(bottom, bytes);
}

void switch_fiber(Fiber& from, Fiber& to) {
  void* fake_stack;
  if (to.bottom)
    __sanitizer_start_switch_fiber(&fake_stack, to.bottom, STACK_BYTES);
  else
    __sanitizer_start_switch_fiber(&fake_stack, os_stack_bottom, os_stack_bytes);
  cpu_switch_stack(&from.stack_pointer, to.stack_pointer);
  const void* bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
  remember_os_stack(bottom, bytes);
}
#else
void fiber_entered() {}

void switch_fiber(Fiber& from, Fiber& to) { cpu_switch_stack(&from.stack_pointer, to.stack_pointer); }
#endif

}  // namespace cpu
