// What each instruction of a kernel cost, counted per warp: passes over the banks of shared memory, sectors of global
// memory, bytes, executions. A site is one wrapper call in the source.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <runtime/where.h>

namespace cpu {

struct Thread;
struct Warp;

enum class Path : uint8_t {
  none,
  shared_to_registers,
  registers_to_shared,
  global_to_registers,
  registers_to_global,
  global_to_shared,
  shared_to_global,
};

// Copies, or groups of products, that have not completed.
struct InFlight {
  uint64_t bytes = 0, groups = 0;
};
// What a wait is about: the lane's own copies, so that those of a warp add up, or those of its whole block.
enum class Whose { lane, block };

// One execution by a warp: what each lane of `mask` addressed; what was in flight when a wait began, and after it.
struct WarpAccess {
  static constexpr int LANES = 32;
  uint32_t mask = 0;
  uint32_t shared[LANES] = {};
  uint64_t global[LANES] = {};
  bool waits = false;
  InFlight before, left;
};

struct SiteCounts {
  const char* mnemonic = nullptr;
  Where where;
  Path path = Path::none;
  uint32_t width = 0;  // bytes per lane
  uint64_t executions = 0, lanes = 0, bytes = 0;
  uint64_t wavefronts = 0, least_wavefronts = 0;  // of shared memory: passes over its 32 banks, and without a conflict
  uint64_t sectors = 0, least_sectors = 0;        // of global memory: 32 bytes each, and if they were all used
  bool waits = false;
  InFlight before, left;  // the most
  WarpAccess example;     // the first execution with the most conflicts
  uint64_t example_conflicts = 0;
  int example_warp = 0;

  void add(const WarpAccess& access, int warp);
  void add(const SiteCounts& other);
};

class Counters {
 public:
  // An instruction of the whole warp.
  void count(const char* mnemonic, Where where, Path path, uint32_t width, const WarpAccess& access, const Warp& warp);
  // An instruction that lanes execute on their own. Between two points where the warp converges, executions of one site
  // are matched in order: the first of every lane with the first of the others, and so on.
  void count_lane(const Thread& self, const char* mnemonic, Where where, Path path, uint32_t width, uint32_t shared,
                  const void* global);
  // A wait that a lane executes on its own.
  void count_wait(const Thread& self, const char* mnemonic, Where where, InFlight before, InFlight left, Whose whose);
  void converge(const Warp& warp);
  void collect_into(Counters& total);
  std::string json() const;
  void clear();

 private:
  struct Pending {
    uint32_t next[WarpAccess::LANES] = {};
    std::vector<WarpAccess> accesses;
  };
  SiteCounts& site(const char* mnemonic, Where where, Path path, uint32_t width);
  // The warp's execution of `site` that this lane takes part in next.
  WarpAccess& next(const Thread& self, SiteCounts& site);

  std::unordered_map<uint64_t, SiteCounts> sites_;                 // by place and mnemonic
  std::vector<std::unordered_map<SiteCounts*, Pending>> pending_;  // by warp of the cluster
};

// Of all launches since `configure`.
Counters& all_counters();

}  // namespace cpu
