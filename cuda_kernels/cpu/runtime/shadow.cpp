#include <runtime/shadow.h>

#include <algorithm>
#include <type_traits>

#include <runtime/diagnosis.h>
#include <runtime/memory.h>

namespace cpu {
namespace {

std::string agent_name(const Cluster& cluster, int agent) {
  const int threads = cluster.launch->threads;
  const int all = threads * static_cast<int>(cluster.blocks.size());
  if (const int warp = agent - cluster.agent_of_tensor_cores(0); warp >= 0)
    return text("wgmma of warp %d of the cluster", warp);
  if (agent >= all) return "a bulk copy";
  const std::string block = cluster.blocks.size() > 1 ? text(" of block rank %d", agent / threads) : "";
  return text("warp %d%s, lane %d", agent % threads / LANES, block.c_str(), agent % LANES);
}

std::string at(Site site) {
  const Where where = unpack(site);
  return place("", where);
}

bool knows(const Thread& self, int agent, Clock clock) {
  return agent == self.agent || known_event(self, agent) >= clock;
}

}  // namespace

void Shadow::reset(uint32_t bytes, int warps) {
  const size_t cells = cell(bytes + cell_bytes() - 1);
  writes_.assign(cells, {});
  write_sites_.resize(cells);
  reads_.resize(warps);
  async_reads_.resize(warps);
}

void Shadow::refine() {
  const auto twice = [](auto& cells) {
    std::remove_reference_t<decltype(cells)> refined(2 * cells.size());
    for (size_t i = 0; i < refined.size(); ++i) refined[i] = cells[i / 2];
    cells = std::move(refined);
  };
  cell_shift_ = 0;
  twice(writes_);
  twice(write_sites_);
  for (auto* all : {&reads_, &async_reads_})
    for (Reads& of_warp : *all) {
      twice(of_warp.reads);
      twice(of_warp.lanes);
    }
}

std::string Shadow::bytes_at(uint32_t cell) const {
  return text("shared address 0x%x", SHARED_BASE + cell * cell_bytes());
}

void Shadow::load(Thread& self, uint32_t offset, uint32_t bytes, const char* mnemonic, Where where) {
  if (bytes < cell_bytes()) refine();
  const uint32_t first = cell(offset), last = cell(offset + bytes - 1);
  Write accepted;
  for (uint32_t cell = first; cell <= last; ++cell) {
    const Write& write = writes_[cell];
    if (write == accepted && write.happened) continue;
    if (!write.happened) {
      report("shared_read_before_written", self, mnemonic, where, bytes_at(cell) + " is read, but nobody wrote it");
    } else if (write.proxy == Proxy::in_flight) {
      report("copy_in_flight", self, mnemonic, where,
             bytes_at(cell) + " is read while the copy of " + agent_name(*self.cluster, write.agent) + " at " +
                 at(write_sites_[cell]) + " is in flight: no wait has covered it");
    } else if (!knows(self, write.agent, write.clock)) {
      report("race", self, mnemonic, where,
             bytes_at(cell) + " is read, and written by " + agent_name(*self.cluster, write.agent) + " at " +
                 at(write_sites_[cell]) + ", with no barrier between");
    }
    accepted = write;
  }
  record(reads_[self.cluster_warp], first, last, self.cluster->clocks[self.agent], self.lane, where);
}

void Shadow::record(Reads& of_warp, uint32_t first, uint32_t last, Clock clock, int lane, Where where) {
  if (of_warp.reads.empty()) {
    of_warp.reads.resize(writes_.size());
    of_warp.lanes.resize(writes_.size());
  }
  const Read read{clock, pack(where)};
  Read* reads = of_warp.reads.data();
  uint8_t* lanes = of_warp.lanes.data();
  for (uint32_t cell = first; cell <= last; ++cell) reads[cell] = read;
  for (uint32_t cell = first; cell <= last; ++cell) lanes[cell] = static_cast<uint8_t>(lane);
}

void Shadow::check_writable(Thread& self, uint32_t offset, uint32_t bytes, Proxy proxy, bool same_value,
                            const char* mnemonic, Where where) {
  const uint32_t first = cell(offset), last = cell(offset + bytes - 1);
  Write accepted;
  for (uint32_t cell = first; cell <= last; ++cell) {
    const Write& write = writes_[cell];
    if (!write.happened || write == accepted) continue;
    if (write.proxy == Proxy::in_flight) {
      report("copy_in_flight", self, mnemonic, where,
             bytes_at(cell) + " is written while the copy of " + agent_name(*self.cluster, write.agent) + " at " +
                 at(write_sites_[cell]) + " is in flight: no wait has covered it");
    } else if (same_value && write.agent / LANES == self.agent / LANES && write_sites_[cell] == pack(where)) {
      // the same instruction of the warp
    } else if (!knows(self, write.agent, write.clock)) {
      report("race", self, mnemonic, where,
             bytes_at(cell) + " is written, and also by " + agent_name(*self.cluster, write.agent) + " at " +
                 at(write_sites_[cell]) + ", with no barrier between");
    } else if (proxy == Proxy::async && write.proxy == Proxy::generic && known_fence(self, write.agent) < write.clock) {
      report("missing_proxy_fence", self, mnemonic, where,
             bytes_at(cell) + " is overwritten by a bulk copy, but the ordinary store of " +
                 agent_name(*self.cluster, write.agent) + " at " + at(write_sites_[cell]) +
                 " was not followed by fence.proxy.async in its thread");
    }
    accepted = write;
  }
  const auto check = [&](const std::vector<Reads>& all, bool is_async) {
    for (int warp = 0; warp < static_cast<int>(all.size()); ++warp) {
      if (all[warp].reads.empty()) continue;
      const Read* reads = all[warp].reads.data();
      const uint8_t* lanes = all[warp].lanes.data();
      for (uint32_t cell = first; cell <= last; ++cell) {
        // Most neighbours were read by one instruction.
        if (cell > first && lanes[cell] == lanes[cell - 1] && reads[cell].clock == reads[cell - 1].clock) continue;
        const int agent =
            lanes[cell] == TENSOR_CORES ? self.cluster->agent_of_tensor_cores(warp) : warp * LANES + lanes[cell];
        const auto reader = [&] { return agent_name(*self.cluster, agent) + " at " + at(reads[cell].site); };
        if (!knows(self, agent, reads[cell].clock)) {
          report("race", self, mnemonic, where,
                 bytes_at(cell) + " is written, and read by " + reader() + ", with no barrier between");
          break;
        }
        if (proxy == Proxy::async && !is_async && known_fence(self, agent) < reads[cell].clock) {
          report("missing_proxy_fence", self, mnemonic, where,
                 bytes_at(cell) + " is overwritten by a bulk copy, but the read of " + reader() +
                     " was not followed by fence.proxy.async in its thread");
          break;
        }
      }
    }
  };
  check(reads_, false);
  check(async_reads_, true);
}

void Shadow::store(Thread& self, uint32_t offset, uint32_t bytes, bool same_value, const char* mnemonic, Where where) {
  if (bytes < cell_bytes()) refine();
  check_writable(self, offset, bytes, Proxy::generic, same_value, mnemonic, where);
  land(offset, bytes, static_cast<uint16_t>(self.agent), self.cluster->clocks[self.agent], Proxy::generic);
  const Site site = pack(where);
  std::fill(&write_sites_[cell(offset)], &write_sites_[cell(offset + bytes - 1)] + 1, site);
}

void Shadow::take_off(Thread& self, uint32_t offset, uint32_t bytes, Proxy proxy, const char* mnemonic, Where where) {
  check_writable(self, offset, bytes, proxy, false, mnemonic, where);
  land(offset, bytes, static_cast<uint16_t>(self.agent), self.cluster->clocks[self.agent], Proxy::in_flight);
  const Site site = pack(where);
  std::fill(&write_sites_[cell(offset)], &write_sites_[cell(offset + bytes - 1)] + 1, site);
}

void Shadow::land(uint32_t offset, uint32_t bytes, uint16_t agent, Clock clock, Proxy proxy) {
  const Write write{clock, agent, proxy, true};
  std::fill(&writes_[cell(offset)], &writes_[cell(offset + bytes - 1)] + 1, write);
}

void Shadow::load_async(Thread& self, const Issue& issue, uint32_t offset, uint32_t bytes, bool by_tensor_cores) {
  const auto& [known, issuer, clock, mnemonic, where] = issue;
  const uint32_t first = cell(offset), last = cell(offset + bytes - 1);
  Write accepted;
  for (uint32_t cell = first; cell <= last; ++cell) {
    const Write& write = writes_[cell];
    if (write == accepted && write.happened) continue;
    const auto writer = [&] { return agent_name(*self.cluster, write.agent) + " at " + at(write_sites_[cell]); };
    const bool own = write.agent == issuer;
    if (!write.happened) {
      report("shared_read_before_written", self, mnemonic, where, bytes_at(cell) + " is read, but nobody wrote it");
    } else if (write.proxy == Proxy::in_flight) {
      report("copy_in_flight", self, mnemonic, where,
             bytes_at(cell) + " is read while the copy of " + writer() + " is in flight: no wait has covered it");
    } else if (own ? write.clock > clock : known->events[write.agent] < write.clock) {
      report("race", self, mnemonic, where,
             bytes_at(cell) + " is read asynchronously, and written by " + writer() +
                 ", with no barrier before the read was issued or no wait before the write");
    } else if (write.proxy == Proxy::generic && known->fenced[write.agent] < write.clock) {
      report("missing_proxy_fence", self, mnemonic, where,
             bytes_at(cell) + " is read asynchronously, but written by an ordinary store of " + writer() +
                 " that was not followed by fence.proxy.async in its thread");
    }
    accepted = write;
  }
  const int reader = by_tensor_cores ? self.cluster->agent_of_tensor_cores(self.cluster_warp) : self.agent;
  record(async_reads_[self.cluster_warp], first, last, self.cluster->clocks[reader],
         by_tensor_cores ? TENSOR_CORES : self.lane, where);
}

}  // namespace cpu
