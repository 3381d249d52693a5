// Exchange of values inside a warp.
#pragma once

#include <runtime/execution.h>
#include <runtime/options.h>

namespace cpu {

// The value that lane `source` brings.
template <class T>
T shuffle(T value, int source, const char* mnemonic, Where where) {
  struct Exchange {
    T value, received;
    int source;
  };
  Exchange mine{value, {}, source};
  if (Warp* warp = gather(mnemonic, where, &mine)) {
    count_warp(*warp, mnemonic, where);
    const auto lane = [&](int i) { return static_cast<Exchange*>(warp->gathering.operands[i]); };
    for (int i = 0; i < LANES; ++i) lane(i)->received = lane(lane(i)->source % LANES)->value;
    complete(*warp);
  }
  return mine.received;
}

// Bit i is lane i's predicate.
inline uint32_t ballot(bool predicate, const char* mnemonic, Where where) {
  struct Vote {
    bool predicate;
    uint32_t result;
  };
  Vote mine{predicate, 0};
  if (Warp* warp = gather(mnemonic, where, &mine)) {
    count_warp(*warp, mnemonic, where);
    uint32_t result = 0;
    const auto lane = [&](int i) { return static_cast<Vote*>(warp->gathering.operands[i]); };
    for (int i = 0; i < LANES; ++i) result |= static_cast<uint32_t>(lane(i)->predicate) << i;
    for (int i = 0; i < LANES; ++i) lane(i)->result = result;
    complete(*warp);
  }
  return mine.result;
}

// True in one lane, the seed's choice.
inline bool elect(const char* mnemonic, Where where) {
  ballot(true, mnemonic, where);
  return current().lane == static_cast<int>(options().seed % LANES);
}

}  // namespace cpu
