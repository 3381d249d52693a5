// What is wrong with a kernel, by name, with the kernel's line, the thread and the address.
#pragma once

#include <string>

#include <runtime/execution.h>

namespace cpu {

// Records the diagnosis; the same name at the same line counts once. The kernel goes on.
void report(const char* name, const Thread& thread, const char* mnemonic, Where where, const std::string& what);
// A diagnosis of the launch as a whole.
void report(const char* name, const std::string& what);
// The same, and then leaves the cluster.
[[noreturn]] void fail(const char* name, Thread& thread, const char* mnemonic, Where where, const std::string& what);

// "xor_swizzle.cu:92 bar_sync"
std::string place(const char* mnemonic, Where where);
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

[[noreturn]] void diverged(Thread& self, const char* mnemonic, Where where);
void diverged_by_return(Thread& self);
void deadlocked(Cluster& cluster);
// "warps 0, 1: all lanes at x.cu:3 bar_sync (...); warp 2: ..."
std::string who_waits(const Cluster& cluster);

bool diagnosed();
void forget_diagnoses();
// One per line, oldest first; empty when there is none.
const char* diagnoses();

}  // namespace cpu
