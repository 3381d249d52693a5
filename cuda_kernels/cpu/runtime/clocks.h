// Who knows what: vector clocks. An agent is a thread of the cluster; or an mbarrier, which owns the writes of bulk
// copies; or a warp's tensor cores, which own the reads of its wgmma; or a warp's collectives: to know of one is to
// know that every lane has got that far. An agent's clock counts its releases; what happened at clock c or before is
// known to everyone whose knowledge of the agent is at least c. Only barriers spread knowledge, even inside a warp:
// shuffles and matrix instructions order no memory accesses, and what one lane learns at an mbarrier the other lanes do
// not know before a barrier of the warp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cpu {

using Clock = uint32_t;

struct Knowledge {
  std::vector<Clock> events;  // by agent
  std::vector<Clock> fenced;  // the same, for accesses that their thread's proxy fence orders before asynchronous ones

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
