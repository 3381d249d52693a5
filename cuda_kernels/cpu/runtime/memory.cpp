#include <runtime/memory.h>

#include <runtime/diagnosis.h>
#include <runtime/global.h>
#include <runtime/options.h>

namespace cpu {
namespace {

std::byte* locate(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  Thread& self = current();
  if (address % bytes)
    fail("misaligned_access", self, mnemonic, where,
         text("shared address 0x%x is not a multiple of the access' %u bytes", address, bytes));
  const uint32_t offset = address - SHARED_BASE;
  if (offset >= self.block->shared_bytes || self.block->shared_bytes - offset < bytes)
    fail("shared_out_of_range", self, mnemonic, where,
         text("%u bytes at shared address 0x%x, outside the block's 0x%x to 0x%x", bytes, address, SHARED_BASE,
              SHARED_BASE + self.block->shared_bytes));
  return self.block->shared.get() + offset;
}

void touch_global(const void* pointer, uint32_t bytes, bool is_store, const char* mnemonic, Where where) {
  Thread& self = current();
  if (reinterpret_cast<uintptr_t>(pointer) % bytes)
    fail("misaligned_access", self, mnemonic, where,
         text("global address %p is not a multiple of the access' %u bytes", pointer, bytes));
  if (options().checks) check_global(self, pointer, bytes, is_store, mnemonic, where);
}

void count(Path path, uint32_t bytes, uint32_t shared, const void* global, const char* mnemonic, Where where) {
  const Thread& self = current();
  if (options().counters) self.cluster->counters.count_lane(self, mnemonic, where, path, bytes, shared, global);
}

}  // namespace

const std::byte* shared_read(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) current().block->shadow.load(current(), address - SHARED_BASE, bytes, mnemonic, where);
  return found;
}

const std::byte* shared_load(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  count(Path::shared_to_registers, bytes, address, nullptr, mnemonic, where);
  return shared_read(address, bytes, mnemonic, where);
}

void shared_write(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) {
    const bool same_value = std::memcmp(found, value, bytes) == 0;
    current().block->shadow.store(current(), address - SHARED_BASE, bytes, same_value, mnemonic, where);
  }
  std::memcpy(found, value, bytes);
}

void shared_store(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  count(Path::registers_to_shared, bytes, address, nullptr, mnemonic, where);
  shared_write(address, value, bytes, mnemonic, where);
}

void copy_to_shared(uint32_t address, const void* source, uint32_t bytes, const char* mnemonic, Where where) {
  count(Path::global_to_shared, bytes, address, source, mnemonic, where);
  touch_global(source, bytes, false, mnemonic, where);
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) current().block->shadow.take_off(current(), address - SHARED_BASE, bytes, mnemonic, where);
  std::memset(found, 0xff, bytes);
}

void global_load(const void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, false, mnemonic, where);
  count(Path::global_to_registers, bytes, 0, pointer, mnemonic, where);
}

void global_store(void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, true, mnemonic, where);
  count(Path::registers_to_global, bytes, 0, pointer, mnemonic, where);
}

}  // namespace cpu
