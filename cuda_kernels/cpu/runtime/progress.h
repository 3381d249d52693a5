// Shared by the OS threads of a launch: the clusters left to run, and whether blocks that wait for others to write
// global memory can still expect it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

namespace cpu {

struct Cluster;

class Progress {
 public:
  Progress(int clusters, int os_threads) : clusters_(clusters), running_(os_threads) {}
  // The number of the next cluster, or -1: there is none, and the OS thread ends.
  int take();
  // Clusters that have not started.
  int left();
  // Global memory has changed; costs little while nobody waits for that.
  void changed();
  // `cluster` has polled for a while, and nothing that it polls has changed. `seen` is the cluster's own, 0 at first.
  // True when all running clusters are in this state and have polled since the last change.
  bool stands_still(const Cluster& cluster, uint64_t& seen);

 private:
  std::mutex mutex_;
  int clusters_, next_ = 0, running_;
  uint64_t changes_ = 1;
  std::set<const Cluster*> waiting_;  // since the last change
  bool is_over_ = false;
  std::atomic<bool> asked_ = false;  // has any cluster polled for a while?
};

}  // namespace cpu
