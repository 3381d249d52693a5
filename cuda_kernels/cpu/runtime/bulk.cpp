#include <runtime/bulk.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <runtime/async.h>
#include <runtime/diagnosis.h>
#include <runtime/global.h>
#include <runtime/memory.h>
#include <runtime/options.h>

namespace cpu {
namespace {

constexpr uint32_t SWIZZLED = 16;  // bytes that a swizzle moves together

// Calls f(address, global, bytes) for every 16 bytes of shared memory, the first `bytes` of which lie inside the
// tensor, at `global`. A box starts at a multiple of 16 bytes, so a tensor starts with a whole chunk.
template <class F>
void for_each_chunk(const BulkPlan& plan, F f) {
  if (!plan.is_tensor) {
    for (uint32_t done = 0; done < plan.bytes; done += SWIZZLED) f(plan.address + done, plan.global + done, SWIZZLED);
    return;
  }
  const TensorMap& map = plan.map;
  const uint32_t row_bytes = map.box[0] * map.element_bytes;
  uint32_t index[MAX_RANK] = {};
  for (uint32_t done = 0; done < plan.bytes; done += row_bytes) {
    bool inside = true;
    const std::byte* row = map.base;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t at = static_cast<int64_t>(plan.at[d]) + index[d];
      inside = inside && at >= 0 && at < static_cast<int64_t>(map.sizes[d]);
      row += at * static_cast<int64_t>(map.strides[d]);
    }
    for (uint32_t byte = 0; byte < row_bytes; byte += SWIZZLED) {
      const int64_t first = static_cast<int64_t>(plan.at[0]) * map.element_bytes + byte;
      const int64_t end = static_cast<int64_t>(map.sizes[0]) * map.element_bytes;
      const int64_t bytes = inside && first >= 0 ? std::clamp<int64_t>(end - first, 0, SWIZZLED) : 0;
      f(swizzled(plan.address + done + byte, map.swizzle), row + first, static_cast<uint32_t>(bytes));
    }
    for (int d = 1; d < map.rank && ++index[d] == map.box[d]; ++d) index[d] = 0;
  }
}

void check_alignment(Thread& self, const BulkPlan& plan, const char* mnemonic, Where where) {
  const uint32_t alignment = plan.is_tensor ? 128 : SWIZZLED;
  if (plan.address % alignment)
    fail("misaligned_access", self, mnemonic, where,
         text("shared address 0x%x is not a multiple of %u", plan.address, alignment));
  if (plan.is_tensor && plan.at[0] * static_cast<int64_t>(plan.map.element_bytes) % SWIZZLED)
    fail("misaligned_access", self, mnemonic, where,
         text("the box begins at element %d, of %u bytes, in the innermost dimension: expected a multiple of 16 bytes "
              "(an H200 ends the kernel with an illegal instruction)",
              plan.at[0], plan.map.element_bytes));
  if (!plan.bytes) fail("bad_operand", self, mnemonic, where, "a copy of 0 bytes: expected a multiple of 16");
  if (plan.bytes % SWIZZLED || reinterpret_cast<uintptr_t>(plan.global) % SWIZZLED)
    fail("misaligned_access", self, mnemonic, where,
         text("%u bytes at global address %p: both must be multiples of 16", plan.bytes,
              static_cast<const void*>(plan.global)));
}

// A load's box may start before the tensor; a store's may not (CUDA programming guide).
void check_start(Thread& self, const BulkPlan& plan, const char* mnemonic, Where where) {
  for (int d = 0; d < plan.map.rank; ++d)
    if (plan.at[d] < 0)
      fail("negative_coordinate", self, mnemonic, where,
           text("the box begins at %d in dimension %d: a store may reach beyond the tensor's end, but not begin "
                "before its start",
                plan.at[d], d));
}

void count_bulk(const Thread& self, Path path, const BulkPlan& plan, const char* mnemonic, Where where) {
  if (options().counters)
    self.cluster->counters.count_lane(self, mnemonic, where, path, plan.bytes, plan.address, nullptr);
}

void read(Thread& self, BulkStore& store) {
  if (!store.read.empty()) return;
  store.read.reserve(store.plan.bytes);
  for_each_chunk(store.plan, [&](uint32_t address, const std::byte*, uint32_t) {
    const uint32_t offset = address - SHARED_BASE;
    if (options().checks) self.block->shadow.load_async(self, store.issue, offset, SWIZZLED, false);
    const std::byte* chunk = self.block->shared.get() + offset;
    store.read.insert(store.read.end(), chunk, chunk + SWIZZLED);
  });
}

void write(Thread& self, BulkStore& store) {
  read(self, store);
  const std::byte* chunk = store.read.data();
  for_each_chunk(store.plan, [&](uint32_t, const std::byte* global, uint32_t bytes) {
    const std::byte* source = chunk;
    chunk += SWIZZLED;
    if (!bytes) return;
    self.cluster->reach(global, true);
    if (options().checks && !check_global(self, global, bytes, true, store.issue.mnemonic, store.issue.where)) return;
    if (!store.adds) {
      std::memcpy(const_cast<std::byte*>(global), source, bytes);
      return;
    }
    auto* sums = reinterpret_cast<float*>(const_cast<std::byte*>(global));
    for (uint32_t i = 0; i < bytes / sizeof(float); ++i)
      std::atomic_ref(sums[i]).fetch_add(load<float>(source + i * sizeof(float)), std::memory_order_relaxed);
  });
  global_changed(self);
}

// Writes to global memory what a wait for reading has already taken from shared memory.
void write_what_was_read(Thread& self, Groups<BulkStore>& stores) {
  const auto was_read = [](const BulkStore& store) { return !store.read.empty(); };
  while (!stores.committed.empty() && std::ranges::all_of(stores.committed.front(), was_read))
    stores.retire(stores.committed.size() - 1, [&](BulkStore& store) { write(self, store); });
}

}  // namespace

void check_policy(uint64_t policy, const char* mnemonic, Where where) {
  if (policy != EVICT_LAST && policy != EVICT_FIRST)
    fail("bad_operand", current(), mnemonic, where,
         text("0x%llx is no cache policy: expected what createpolicy returned",
              static_cast<unsigned long long>(policy)));
}

BulkPlan plan_tensor(const TensorMap& map, const int* at, int rank, uint32_t address, const char* mnemonic,
                     Where where) {
  if (rank != map.rank)
    fail("bad_operand", current(), mnemonic, where, text("%d coordinates for a tensor map of rank %d", rank, map.rank));
  BulkPlan plan{map, {}, nullptr, address, map.box_bytes(), true};
  std::copy(at, at + map.rank, plan.at);
  return plan;
}

BulkPlan plan_plain(const void* global, uint32_t address, uint32_t bytes) {
  return {{}, {}, static_cast<const std::byte*>(global), address, bytes, false};
}

namespace {

// `there`: the bits of a cluster address that select a block.
void load_to(uint32_t there, const BulkPlan& plan, uint32_t mbarrier_address, const char* mnemonic, Where where) {
  Thread& self = current();
  Mbarrier& mbarrier = find_mbarrier(self, mbarrier_address | there, mnemonic, where);
  if (!mbarrier.is_fenced)
    report("missing_proxy_fence", self, mnemonic, where,
           "bytes complete on the mbarrier made at " + place("", mbarrier.made_at) +
               " with no fence_mbarrier_init or fence_proxy_async after its initialization");
  const Place at = locate_range(plan.address | there, plan.bytes, mnemonic, where);
  take_off(plan.address | there, plan.bytes, Proxy::async, mnemonic, where);
  BulkLoad load{plan, at.block, &mbarrier, mbarrier.phase, &self, mnemonic, where};
  load.plan.address = at.offset + SHARED_BASE;
  self.cluster->async->loads.push_back(load);
}

}  // namespace

void bulk_load(const BulkPlan& plan, uint32_t mbarrier, const char* mnemonic, Where where) {
  Thread& self = current();
  count_bulk(self, Path::global_to_shared, plan, mnemonic, where);
  check_alignment(self, plan, mnemonic, where);
  load_to(IN_CLUSTER, plan, mbarrier, mnemonic, where);
}

void bulk_load_multicast(const BulkPlan& plan, uint32_t mbarrier, uint32_t blocks, const char* mnemonic, Where where) {
  Thread& self = current();
  const int there = static_cast<int>(self.cluster->blocks.size());
  if (!blocks || blocks >> there)
    fail("bad_operand", self, mnemonic, where,
         text("blocks 0x%x of a cluster of %d: expected some of these", blocks, there));
  count_bulk(self, Path::global_to_shared, plan, mnemonic, where);
  check_alignment(self, plan, mnemonic, where);
  for (int rank = 0; rank < there; ++rank)
    if (blocks >> rank & 1) load_to(cluster_address(0, rank) | IN_CLUSTER, plan, mbarrier, mnemonic, where);
}

void land(Cluster& cluster, BulkLoad& load) {
  Mbarrier& mbarrier = *load.mbarrier;
  Thread& self = *load.issuer;
  for_each_chunk(load.plan, [&](uint32_t address, const std::byte* global, uint32_t bytes) {
    std::byte* destination = load.block->shared.get() + (address - SHARED_BASE);
    std::memset(destination, 0, SWIZZLED);
    if (!bytes) return;
    cluster.reach(global, false);
    if (options().checks && !check_global(self, global, bytes, false, load.mnemonic, load.where)) return;
    std::memcpy(destination, global, bytes);
  });
  if (options().checks)
    load.block->shadow.land(load.plan.address - SHARED_BASE, load.plan.bytes, static_cast<uint16_t>(mbarrier.agent),
                            cluster.clocks[mbarrier.agent], Proxy::async);
  if (mbarrier.phase != load.phase)
    report("mbarrier_wrong_bytes", self, load.mnemonic, load.where,
           text("the phase that this load was issued in completed without its %u bytes: fewer were expected",
                load.plan.bytes));
  complete_bytes(cluster, mbarrier, load.plan.bytes);
}

void bulk_store(const BulkPlan& plan, const char* mnemonic, Where where, bool adds) {
  Thread& self = current();
  count_bulk(self, Path::shared_to_global, plan, mnemonic, where);
  check_alignment(self, plan, mnemonic, where);
  if (plan.is_tensor) check_start(self, plan, mnemonic, where);
  locate_range(plan.address, plan.bytes, mnemonic, where);
  self.cluster->async->stores[self.agent].open.push_back(
      {plan,
       {std::make_shared<const Knowledge>(knowledge(self)), self.agent, self.cluster->clocks[self.agent], mnemonic,
        where},
       adds,
       {}});
}

void bulk_commit_group(const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  self.cluster->async->stores[self.agent].commit();
}

void bulk_wait_group(int pending, bool only_read, const char* mnemonic, Where where) {
  Thread& self = current();
  auto& stores = self.cluster->async->stores[self.agent];
  const InFlight before = stores.in_flight();
  write_what_was_read(self, stores);
  if (only_read)
    for (size_t group = 0; group + pending < stores.committed.size(); ++group)
      for (BulkStore& store : stores.committed[group]) read(self, store);
  else
    stores.retire(pending, [&](BulkStore& store) { write(self, store); });
  count_wait(mnemonic, where, before, stores.in_flight(), Whose::lane);
}

void bulk_after_return(Thread& self) {
  auto& stores = self.cluster->async->stores[self.agent];
  write_what_was_read(self, stores);
  if (const BulkStore* store = stores.oldest())
    report("copy_in_flight", self, store->issue.mnemonic, store->issue.where,
           text("the thread returned while its store may still read %u bytes at shared address 0x%x: no commit or no "
                "wait has covered it",
                store->plan.bytes, store->plan.address));
}

}  // namespace cpu
