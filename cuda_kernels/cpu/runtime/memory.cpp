#include <runtime/memory.h>

#include <runtime/diagnosis.h>

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

}  // namespace

const std::byte* shared_load(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  return locate(address, bytes, mnemonic, where);
}

std::byte* shared_store(uint32_t address, uint32_t bytes, const char* mnemonic, Where where) {
  return locate(address, bytes, mnemonic, where);
}

void global_load(const void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  if (reinterpret_cast<uintptr_t>(pointer) % bytes)
    fail("misaligned_access", current(), mnemonic, where,
         text("global address %p is not a multiple of the access' %u bytes", pointer, bytes));
}

void global_store(void* pointer, uint32_t bytes, const char* mnemonic, Where where) {
  global_load(pointer, bytes, mnemonic, where);
}

}  // namespace cpu
