// Barriers in shared memory that count arrivals and bytes.
#pragma once

#include <runtime/execution.h>

namespace cpu {

// A wait that a completed phase let pass. The next phase may not complete before this wait: a wait that comes after
// both finds its parity flipped back, and waits for one more phase.
struct PassedWait {
  const Thread* thread;
  Clock at, of_collectives;  // clocks of the thread and of its warp's collectives when it passed
  const char* mnemonic;
  Where where;
};

struct Mbarrier {
  Block* block;
  uint32_t offset;
  uint32_t count;      // arrivals of each phase
  uint32_t pending;    // arrivals that the current phase still waits for
  int64_t bytes = 0;   // that it still waits for
  uint64_t phase = 0;  // phases completed
  int agent;           // whom the bytes of bulk copies belong to
  int maker;           // agent that initialized it, and when
  Clock made;
  Where made_at;
  Clock completed_before = 0;  // when the last phase but one was complete, by the clock of `agent`
  bool is_fenced = false;      // may bulk copies complete on it?
  Knowledge brought, told;     // by arrivals of the current phase; to those who wait for a completed one
  std::vector<Thread*> waiting;
  std::vector<PassedWait> passed;  // since the last phase completed
};

enum class Order { release, relaxed };

void mbarrier_init(uint32_t address, uint32_t count, const char* mnemonic, Where where);
void mbarrier_inval(uint32_t address, const char* mnemonic, Where where);
void mbarrier_arrive(uint32_t address, int64_t expected_bytes, bool arrives, const char* mnemonic, Where where,
                     Order order = Order::release);
bool mbarrier_test_wait(uint32_t address, uint32_t parity, const char* mnemonic, Where where);
bool mbarrier_try_wait(uint32_t address, uint32_t parity, const char* mnemonic, Where where);

// The initialized barrier at this address; fails when there is none that `self` may use.
Mbarrier& find_mbarrier(Thread& self, uint32_t address, const char* mnemonic, Where where);
// `bytes` of a copy have arrived.
void complete_bytes(Cluster& cluster, Mbarrier& mbarrier, int64_t bytes);

void fence_proxy_async(const char* mnemonic, Where where);
void fence_mbarrier_init(const char* mnemonic, Where where);

}  // namespace cpu
