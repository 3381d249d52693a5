// Who knows of what: vector clocks. An agent is a thread of the cluster, or an mbarrier, to which the writes of bulk
// copies belong, or a warp's tensor cores, to which the reads of its wgmma belong, or a warp's collectives: who knows
// of one knows that every lane had come so far. An agent's clock counts its releases; what happened at clock c or
// before is known to everyone whose knowledge of the agent is at least c. Only barriers spread knowledge, inside a warp
// too: shuffles and matrix instructions order no memory accesses, and what one lane learns at an mbarrier the others do
// not know before a barrier of the warp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cpu {

using Clock = uint32_t;

struct Knowledge {
  std::vector<Clock> events;  // by agent
  std::vector<Clock> fenced;  // the same, of accesses that their thread's proxy fence puts before asynchronous ones

  void forget(size_t agents) {
    events.assign(agents, 0);
    fenced.assign(agents, 0);
  }
  void learn(const Knowledge& other) {
    const auto join = [](std::vector<Clock>& mine, const std::vector<Clock>& theirs) {
      Clock* m = mine.data();
      const Clock* t = theirs.data();
      for (size_t i = 0; i < mine.size(); ++i) m[i] = std::max(m[i], t[i]);
    };
    join(events, other.events);
    join(fenced, other.fenced);
  }
};

}  // namespace cpu
