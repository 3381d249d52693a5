#include <runtime/async.h>

#include <cstring>

#include <runtime/memory.h>
#include <runtime/options.h>

namespace cpu {

void cp_async(uint32_t shared, const void* global, uint32_t bytes, const char* mnemonic, Where where) {
  copy_to_shared(shared, global, bytes, mnemonic, where);
  current().copies->open.push_back({shared - SHARED_BASE, global, bytes});
}

void cp_async_commit_group(const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Copies& copies = *current().copies;
  copies.committed.push_back(std::move(copies.open));
  copies.open.clear();
}

void cp_async_wait_group(int pending, const char* mnemonic, Where where) {
  count_thread(mnemonic, where);
  Thread& self = current();
  Block& block = *self.block;
  Copies& copies = *self.copies;
  while (copies.committed.size() > static_cast<size_t>(pending)) {
    for (const Copy& copy : copies.committed.front()) {
      std::memcpy(block.shared.get() + copy.offset, copy.source, copy.bytes);
      if (options().checks)
        block.shadow.land(copy.offset, copy.bytes, static_cast<uint16_t>(self.agent), self.cluster->clocks[self.agent],
                          Proxy::generic);
    }
    copies.committed.pop_front();
  }
}

}  // namespace cpu
