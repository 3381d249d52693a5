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

}  // namespace

const std::byte* shared_load(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) current().block->shadow.load(current(), address - SHARED_BASE, bytes, mnemonic, where);
  return found;
}

void shared_store(uint32_t address, const void* value, uint32_t bytes, const char* mnemonic, Where where) {
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) {
    const bool same_value = std::memcmp(found, value, bytes) == 0;
    current().block->shadow.store(current(), address - SHARED_BASE, bytes, same_value, mnemonic, where);
  }
  std::memcpy(found, value, bytes);
}

std::byte* shared_take_off(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  std::byte* found = locate(address, bytes, mnemonic, where);
  if (options().checks) current().block->shadow.take_off(current(), address - SHARED_BASE, bytes, mnemonic, where);
  return found;
}

void global_load(const void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, false, mnemonic, where);
}

void global_store(void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  touch_global(pointer, bytes, true, mnemonic, where);
}

}  // namespace cpu
