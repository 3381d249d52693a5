#include <runtime/memory.h>

#include <runtime/async.h>
#include <runtime/diagnosis.h>
#include <runtime/global.h>
#include <runtime/options.h>

namespace cpu {

constexpr uint32_t PATIENCE = 1 << 16;  // loads from shared memory without a wait: more may be a polling loop

Place locate_range(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  Thread& self = current();
  goes_on(self, mnemonic, where);
  const uint32_t rank = (address & ~IN_CLUSTER) >> 24, offset = (address & 0xffffff) - SHARED_BASE;
  if (rank && !(address & IN_CLUSTER))
    fail("bad_operand", self, mnemonic, where,
         text("an address that mapa gave (block rank %u): this instruction takes those of its own block only",
              rank - 1));
  if (rank > self.cluster->blocks.size())
    fail("shared_out_of_range", self, mnemonic, where, text("block rank %u, beyond the cluster", rank - 1));
  Block* block = rank ? self.cluster->blocks[rank - 1].get() : self.block;
  if (offset >= block->shared_bytes || block->shared_bytes - offset < bytes)
    fail("shared_out_of_range", self, mnemonic, where,
         text("%u bytes at shared address 0x%x, outside the block's 0x%x to 0x%x", bytes, address & 0xffffff,
              SHARED_BASE, SHARED_BASE + block->shared_bytes));
  if (!block->running)
    fail("cluster_block_returned", self, mnemonic, where,
         text("shared memory of block rank %d, which has returned", block->rank));
  if (block != self.block && !self.cluster->barrier.phase)
    report("cluster_block_not_started", self, mnemonic, where,
           text("shared memory of block rank %d, which may not run yet: no barrier of the cluster came before",
                block->rank));
  return {block, offset, block->shared.get() + offset};
}

Place locate(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  if (address % bytes)
    fail("misaligned_access", current(), mnemonic, where,
         text("shared address 0x%x is not a multiple of the access' %u bytes", address, bytes));
  return locate_range(address, bytes, mnemonic, where);
}

namespace {

void touch_global(const void* pointer, uint32_t bytes, uint32_t alignment, bool is_store, const char* mnemonic,
                  Where where) {
  Thread& self = current();
  goes_on(self, mnemonic, where);
  self.cluster->reach(pointer, is_store);
  if (reinterpret_cast<uintptr_t>(pointer) % alignment)
    fail("misaligned_access", self, mnemonic, where,
         text("global address %p is not a multiple of the access' %u bytes", pointer, alignment));
  if (options().checks && !check_global(self, pointer, bytes, is_store, mnemonic, where)) abandon(self);
}

void count(Path path, uint32_t bytes, uint32_t shared, const void* global, const char* mnemonic, Where where) {
  const Thread& self = current();
  if (options().counters)
    self.cluster->counters.count_lane(self, mnemonic, where, path, bytes, shared & ~IN_CLUSTER, global);
}

}  // namespace

const std::byte* shared_read(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  const Place at = locate(address, bytes, mnemonic, where);
  if (options().checks) at.block->shadow.load(current(), at.offset, bytes, mnemonic, where);
  return at.bytes;
}

const std::byte* shared_load(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  count(Path::shared_to_registers, bytes, address, nullptr, mnemonic, where);
  const std::byte* found = shared_read(address, bytes, mnemonic, where);
  Thread& self = current();
  if (++self.shared_loads > PATIENCE) {
    load_polled(self, found, bytes, {mnemonic, where, SHARED_MEMORY, address & 0xffffff});
    self.shared_loads = PATIENCE;
  }
  return found;
}

void shared_write(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  const Place at = locate(address, bytes, mnemonic, where);
  if (options().checks) {
    const bool same_value = std::memcmp(at.bytes, value, bytes) == 0;
    at.block->shadow.store(current(), at.offset, bytes, same_value, mnemonic, where);
  }
  std::memcpy(at.bytes, value, bytes);
}

void shared_store(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  count(Path::registers_to_shared, bytes, address, nullptr, mnemonic, where);
  shared_write(address, value, bytes, mnemonic, where);
}

std::byte* take_off(uint32_t address, uint32_t bytes, Proxy proxy, const char* mnemonic, Where where) {
  const Place at = locate_range(address, bytes, mnemonic, where);
  if (options().checks) at.block->shadow.take_off(current(), at.offset, bytes, proxy, mnemonic, where);
  std::memset(at.bytes, 0xff, bytes);
  return at.bytes;
}

void copy_to_shared(uint32_t address, const void* source, uint32_t bytes, uint32_t source_bytes, const char* mnemonic,
                    Where where) {
  count(Path::global_to_shared, bytes, address, source, mnemonic, where);
  if (source_bytes) touch_global(source, source_bytes, bytes, false, mnemonic, where);
  locate(address, bytes, mnemonic, where);
  take_off(address, bytes, Proxy::generic, mnemonic, where);
}

namespace {

Waiting global_memory(const void* pointer, const char* mnemonic, Where where) {
  return {mnemonic, where, GLOBAL_MEMORY, static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer))};
}

}  // namespace

void global_load(const void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, bytes, false, mnemonic, where);
  count(Path::global_to_registers, bytes, 0, pointer, mnemonic, where);
  load_polled(current(), pointer, bytes, global_memory(pointer, mnemonic, where));
}

void begin_atomic(uint32_t* counter, const char* mnemonic, Where where) {
  touch_global(counter, sizeof *counter, sizeof *counter, true, mnemonic, where);
  count_thread(mnemonic, where);
}

void end_atomic(uint32_t* counter, bool changed, uint32_t before, const char* mnemonic, Where where) {
  Thread& self = current();
  if (!changed) return atomic_polled(self, counter, before, global_memory(counter, mnemonic, where));
  global_changed(self);
  maybe_yield(self);
}

void global_store(void* pointer, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, bytes, true, mnemonic, where);
  count(Path::registers_to_global, bytes, 0, pointer, mnemonic, where);
  std::memcpy(pointer, value, bytes);
  global_changed(current());
}

void global_add(float* sums, const float* values, uint32_t count, const char* mnemonic, Where where) {
  const auto bytes = static_cast<uint32_t>(count * sizeof *sums);
  touch_global(sums, bytes, bytes, true, mnemonic, where);
  cpu::count(Path::registers_to_global, bytes, 0, sums, mnemonic, where);
  for (uint32_t i = 0; i < count; ++i) std::atomic_ref(sums[i]).fetch_add(values[i], std::memory_order_relaxed);
  global_changed(current());
}

}  // namespace cpu
