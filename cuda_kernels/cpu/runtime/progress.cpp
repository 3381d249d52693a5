#include <runtime/progress.h>

#include <runtime/diagnosis.h>

namespace cpu {

int Progress::take() {
  changed();  // a block that ends may be what others wait for
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

void Progress::changed() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  waiting_.clear();
}

bool Progress::stands_still(const Cluster& cluster, uint64_t& seen) {
  const std::lock_guard lock(mutex_);
  if (seen == changes_) waiting_.insert(&cluster);
  seen = changes_;
  is_over_ |= static_cast<int>(waiting_.size()) == running_;
  return is_over_;
}

}  // namespace cpu
