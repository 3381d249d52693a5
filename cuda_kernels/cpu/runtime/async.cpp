#include <runtime/async.h>

#include <cstring>

#include <runtime/memory.h>

namespace cpu {

void cp_async(uint32_t shared, const void* global, uint32_t bytes, const char* mnemonic, Where where) {
  global_load(global, bytes, mnemonic, where);
  std::byte* destination = shared_store(shared, bytes, mnemonic, where);
  std::memset(destination, 0xff, bytes);
  current().copies->open.push_back({destination, global, bytes});
}

void cp_async_commit_group() {
  Copies& copies = *current().copies;
  copies.committed.push_back(std::move(copies.open));
  copies.open.clear();
}

void cp_async_wait_group(int pending) {
  Copies& copies = *current().copies;
  while (copies.committed.size() > static_cast<size_t>(pending)) {
    for (const Copy& copy : copies.committed.front()) std::memcpy(copy.destination, copy.source, copy.bytes);
    copies.committed.pop_front();
  }
}

}  // namespace cpu
