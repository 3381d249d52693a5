// Exchange of values inside a warp.
#pragma once

#include <runtime/execution.h>

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

}  // namespace cpu
