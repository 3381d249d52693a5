// Threads, warps, blocks and clusters of a running kernel. A cluster runs in one OS thread, its CUDA threads as fibers
// of it; a kernel without clusters has clusters of one block.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <runtime/clocks.h>
#include <runtime/counters.h>
#include <runtime/endless.h>
#include <runtime/fiber.h>
#include <runtime/shadow.h>
#include <runtime/where.h>

namespace cpu {

constexpr int LANES = 32;
constexpr int WARPS_OF_GROUP = 4;
constexpr uint32_t ALL_LANES = 0xffffffffu;
constexpr int MBARRIERS = 64;  // a block's, at most: a limit of this runtime
constexpr int BARRIERS = 16;   // barriers of a block, PTX ISA 9.7.13.1

struct Warp;
struct Block;
struct Cluster;
struct Async;
class Progress;

struct Dim {
  int x = 1, y = 1, z = 1;
};

// What a thread waits for, to be reported if no thread can continue.
struct Waiting {
  const char* mnemonic = nullptr;  // null: it does not wait
  Where where;
  uint32_t object = 0;  // number of a barrier, shared address of an mbarrier, or one of those below
  int64_t detail = 0;   // expected threads, parity, address, or registers
};
constexpr uint32_t NO_BARRIER = ~0u, GLOBAL_MEMORY = ~1u, SHARED_MEMORY = ~2u;

// What an instruction found in memory when a thread last executed it.
struct Finding {
  Site site = 0;
  uint32_t times = 0;  // in a row
  const void* pointer = nullptr;
  std::array<std::byte, 16> value = {};
};

// The record at the foot of a fiber's stack.
struct Thread {
  Fiber fiber;
  Cluster* cluster;
  Block* block;
  Warp* warp;
  int tid, lane;
  int agent;         // number in the cluster, for clocks.h
  int cluster_warp;  // number of its warp in the cluster
  Waiting waiting;
  uint32_t answer;                  // that it last got from memory
  std::array<Finding, 8> findings;  // the newest: a loop may poll several places
  uint32_t oldest_finding;
  uint32_t shared_loads;  // since it last waited for others
  bool has_returned;
};

// A collective instruction that lanes of a warp are arriving at.
struct Gathering {
  const char* mnemonic = nullptr;
  Where where;
  uint32_t arrived = 0;
  void* operands[LANES] = {};
};

struct Warp {
  Block* block;
  int index;  // in its block
  Thread* threads[LANES];
  uint32_t runnable = 0, returned = 0;
  Gathering gathering;
  Knowledge known;           // to all its lanes
  Knowledge learned[LANES];  // by a lane alone, at an mbarrier, since the warp's last barrier
  uint32_t learners = 0;     // lanes that did
  bool has_waited = false;   // a lane has waited at an mbarrier since the warp's last collective
  int first_lane = 0;        // where the search for the next lane begins
  uint32_t priority = 0;
  uint64_t cluster_phase = 0;  // of the cluster's barrier, at its last arrival there
  int registers = 0;           // per thread
  uint64_t steps = 0;          // instructions of its warpgroup that it executed

  bool collective_is_pending() const { return gathering.arrived != 0; }
};

// An instruction that all warps of a warpgroup must execute alike.
struct Step {
  const char* mnemonic;
  Where where;
  std::array<uint64_t, 3> operands;
  int first_warp;
  int warps = 0;  // that executed it
};

struct Warpgroup {
  uint64_t complete = 0;   // instructions that all four warps executed
  std::deque<Step> steps;  // the others, oldest first
};

struct Barrier {
  int arrived = 0;
  int expected = 0;  // 0: all threads that have not returned
  Knowledge brought;
  std::vector<Warp*> waiting;
  std::vector<std::pair<int, Clock>> arrivals,
      last;  // agent and clock of each warp's first lane: now, in the last phase
};

struct Block {
  Cluster* cluster;
  int rank;  // in its cluster
  Dim ctaid;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  int running = 0;  // threads that have not returned
  std::unique_ptr<std::byte[], void (*)(void*)> shared{nullptr, nullptr};
  uint32_t shared_bytes = 0;
  Shadow shadow;
  Barrier barriers[BARRIERS];
  int free_registers = 0;  // of the pool that setmaxnreg moves
  std::vector<Thread*> waiting_for_registers;
};

// All threads of all blocks of a cluster.
struct ClusterBarrier {
  int arrived = 0;
  uint64_t phase = 0;
  Knowledge brought, told;
  std::vector<Thread*> waiting;
};

struct Launch {
  Dim grid, cluster;
  int threads;
  uint32_t shared_bytes;
  void (*kernel)(const void* params);
  const void* params;
};

struct Cluster {
  Cluster();
  ~Cluster();
  // Runs the blocks of cluster `number` to their end, or to the first fatal diagnosis.
  void run(const Launch& launch, int number, Progress& progress);

  const Launch* launch = nullptr;
  Progress* progress = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<Stacks> stacks;
  std::vector<Clock> clocks;  // by agent: threads, mbarriers, tensor cores of warps, collectives of warps
  Counters counters;
  ClusterBarrier barrier;
  std::unique_ptr<Async> async;
  Fiber scheduler;
  bool abandoned = false;
  Reached reached;
  volatile int ticks = 0;            // of processor time since it reached something new
  volatile bool is_endless = false;  // too many ticks
  const Thread* stopped = nullptr;   // by the timer, in a loop without an instruction of ptx/
  const void* stopped_at = nullptr;
  uint64_t random_state = 1;
  bool preempting = false;  // does the seed ask for switches of warps where none is needed?

  uint32_t random();
  int agent_of_tensor_cores(int cluster_warp) const;
  int agent_of_collectives(int cluster_warp) const;
  void reach(const void* global, bool is_store) {
    if (reached.note(global, is_store)) ticks = 0;
  }

 private:
  void set_up(int number);
  Warp* pick();
};

inline Thread& current() { return *static_cast<Thread*>(stack_record()); }

// Blocks this fiber until somebody wakes its thread.
void suspend(Thread& self);
void wake(Thread& thread);
void wake(Warp& warp);
// Lets others run first.
void yield(Thread& self);
// The same now and then, where the seed says so.
void maybe_yield(Thread& self);
// Leaves the cluster for good: its fibers are never resumed.
[[noreturn]] void abandon(Thread& self);

[[noreturn]] void report_endless(Thread& self, const char* mnemonic, Where where);
// Every instruction that a loop may consist of calls this.
inline void goes_on(Thread& self, const char* mnemonic, Where where) {
  if (self.cluster->is_endless) report_endless(self, mnemonic, where);
}

// Arrives at an instruction of the whole warp. The last lane to arrive gets the warp back and executes the
// instruction for all, then calls `complete`; the others come back with null, after the execution.
Warp* gather(const char* mnemonic, Where where, void* operands);
void complete(Warp& warp);

template <class Operands, class Execute>
void warp_collective(const char* mnemonic, Where where, Operands operands, Execute execute) {
  if (Warp* warp = gather(mnemonic, where, &operands)) {
    execute(reinterpret_cast<Operands* const(&)[LANES]>(warp->gathering.operands), *warp);
    complete(*warp);
  }
}

// Count an instruction that moves no data: of the whole warp, of this thread.
void count_warp(const Warp& warp, const char* mnemonic, Where where);
void count_thread(const char* mnemonic, Where where);
// A wait of this thread: what was in flight when it began, and is when it returns.
void count_wait(const char* mnemonic, Where where, InFlight before, InFlight left, Whose whose);

// What this thread knows.
inline const Knowledge* learned_alone(const Thread& self) {
  return self.warp->learners >> self.lane & 1 ? &self.warp->learned[self.lane] : nullptr;
}
inline Clock known_event(const Thread& self, int agent) {
  const Knowledge* alone = learned_alone(self);
  return std::max(self.warp->known.events[agent], alone ? alone->events[agent] : 0);
}
inline Clock known_fence(const Thread& self, int agent) {
  const Knowledge* alone = learned_alone(self);
  return std::max(self.warp->known.fenced[agent], alone ? alone->fenced[agent] : 0);
}
Knowledge knowledge(const Thread& self);
// This thread learns it; the other lanes of its warp do so at the warp's next barrier.
void learn(Thread& self, const Knowledge& told);
// Adds to `told` what this thread did and knows.
void release(Thread& self, Knowledge& told);
// What a relaxed arrival tells: nothing of the accesses of its own warp. The products that the warp has waited for
// belong to its tensor cores.
void tell_what_others_did(const Thread& self, Knowledge& told);
// All lanes know what any of them did and knows.
void order_warp(Warp& warp);

}  // namespace cpu
