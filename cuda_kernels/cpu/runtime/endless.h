// Finds a block that runs forever: one that spends seconds of processor time and reaches no global memory that is new
// to it. A block that waits is not one: the scheduler sees when no thread can continue.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace cpu {

struct Cluster;
struct Thread;

// What a cluster has reached in global memory. What it read counts as new again after it has written something new, as
// for a block that processes one tile of rows after the other with the same keys.
class Reached {
 public:
  // Was it new? Two places may be taken for one, so a block reaches a bounded number of them.
  bool note(const void* pointer, bool is_store) {
    const size_t place = static_cast<size_t>((reinterpret_cast<uintptr_t>(pointer) >> 7) * 0x9e3779b97f4a7c15ull >> 48);
    if ((is_store ? written_ : read_)[place]) return false;
    if (is_store && has_read_) read_.reset(), has_read_ = false;
    if (is_store) return written_[place] = true;
    return read_[place] = has_read_ = true;
  }
  void forget() { *this = {}; }

 private:
  std::bitset<1 << 16> written_, read_;
  bool has_read_ = false;
};

// Counts the processor time of the OS thread that creates it, which runs `cluster` again and again.
class Patience {
 public:
  explicit Patience(Cluster& cluster);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  timer_t timer_;
  bool is_set_;
};

// Diagnoses the thread that the timer stopped in a loop without an instruction of ptx/.
void report_stopped(Cluster& cluster);

}  // namespace cpu
