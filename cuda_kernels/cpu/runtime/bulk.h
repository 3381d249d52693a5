// Bulk copies: what the tensor memory accelerator does.
#pragma once

#include <vector>

#include <runtime/execution.h>
#include <runtime/tensor_map.h>

namespace cpu {

struct Mbarrier;

// The two ends of a copy; a plain copy has no map.
struct BulkPlan {
  TensorMap map;
  int at[MAX_RANK];
  const std::byte* global;  // of a plain copy
  uint32_t address, bytes;  // in shared memory of its block
  bool is_tensor;
};

struct BulkLoad {
  BulkPlan plan;
  Block* block;  // whose shared memory it fills
  Mbarrier* mbarrier;
  uint64_t phase;  // of the mbarrier at issue
  Thread* issuer;
  const char* mnemonic;
  Where where;
};

struct BulkStore {
  BulkPlan plan;
  Issue issue;
  bool adds;                    // to the floats in global memory, in place of overwriting
  std::vector<std::byte> read;  // from shared memory, not yet written; empty until then
};

// What createpolicy returns here: as opaque as on a GPU, and no number that a kernel would produce by accident.
constexpr uint64_t EVICT_LAST = 0x6c61737400000001, EVICT_FIRST = 0x6669727300000001;
void check_policy(uint64_t policy, const char* mnemonic, Where where);

BulkPlan plan_tensor(const TensorMap& map, const int* at, int rank, uint32_t address, const char* mnemonic,
                     Where where);
BulkPlan plan_plain(const void* global, uint32_t address, uint32_t bytes);
void bulk_load(const BulkPlan& plan, uint32_t mbarrier, const char* mnemonic, Where where);
// To every block of the cluster whose bit is set.
void bulk_load_multicast(const BulkPlan& plan, uint32_t mbarrier, uint32_t blocks, const char* mnemonic, Where where);
void bulk_store(const BulkPlan& plan, const char* mnemonic, Where where, bool adds = false);
void bulk_commit_group(const char* mnemonic, Where where);
// All but the newest `pending` groups are written. With `only_read` they have only left shared memory, and are written
// at the thread's next wait or at its end.
void bulk_wait_group(int pending, bool only_read, const char* mnemonic, Where where);
// No store of this thread may still be reading shared memory.
void bulk_after_return(Thread& self);

void land(Cluster& cluster, BulkLoad& load);

}  // namespace cpu
