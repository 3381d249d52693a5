#include <runtime/progress.h>

#include <runtime/diagnosis.h>

namespace cpu {

int Progress::take() {
  changed();  // others may be waiting for a block to end
  const bool is_over = diagnosed();
  const std::lock_guard lock(mutex_);
  if (!is_over && next_ < clusters_) return next_++;
  --running_;
  return -1;
}

int Progress::left() {
  const std::lock_guard lock(mutex_);
  return clusters_ - next_;
}

// A poller sets asked_, then reads memory; a writer writes memory, then reads asked_: one of the two sees the other.
void Progress::changed() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asked_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  ++changes_;
  waiting_.clear();
}

bool Progress::stands_still(const Cluster& cluster, uint64_t& seen) {
  const std::lock_guard lock(mutex_);
  if (seen == changes_) waiting_.insert(&cluster);
  seen = changes_;
  is_over_ |= static_cast<int>(waiting_.size()) == running_;
  asked_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return is_over_;
}

}  // namespace cpu
