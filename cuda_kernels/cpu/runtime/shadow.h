// What is known of a block's shared memory, cell by cell: who wrote it last, who read it, whether a copy to it is in
// flight. Finds reads of what was never written, accesses that no barrier separates, and accesses of two proxies that
// no proxy fence separates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <runtime/clocks.h>
#include <runtime/where.h>

namespace cpu {

struct Thread;

enum class Proxy : uint8_t {
  generic,    // ordinary stores, cp.async
  async,      // bulk copies
  in_flight,  // a copy that has not landed: nobody may touch its bytes
};

struct Write {
  Clock clock = 0;
  uint16_t agent = 0;
  Proxy proxy = Proxy::generic;
  bool happened = false;
  bool operator==(const Write&) const = default;
};

// An asynchronous read, as its thread issued it.
struct Issue {
  std::shared_ptr<const Knowledge> known;
  int agent;
  Clock clock;
  const char* mnemonic;
  Where where;
};

class Shadow {
 public:
  // Nothing is written yet. Clocks never run backwards, so old reads need no forgetting.
  void reset(uint32_t bytes, int warps);
  void load(Thread& self, uint32_t offset, uint32_t bytes, const char* mnemonic, Where where);
  // Lanes of one instruction may write the same value to one place; `same_value`: it is there already.
  void store(Thread& self, uint32_t offset, uint32_t bytes, bool same_value, const char* mnemonic, Where where);
  // The bytes belong to a copy of `proxy` from now until `land`; the issuing thread must be allowed to write them.
  void take_off(Thread& self, uint32_t offset, uint32_t bytes, Proxy proxy, const char* mnemonic, Where where);
  // `agent` is who has the writes: a thread, or an mbarrier.
  void land(uint32_t offset, uint32_t bytes, uint16_t agent, Clock clock, Proxy proxy);
  // A read by the asynchronous proxy, which `self` waited for; it belongs to `self`, or its warp's tensor cores.
  void load_async(Thread& self, const Issue& issue, uint32_t offset, uint32_t bytes, bool by_tensor_cores);

 private:
  struct Read {
    Clock clock = 0;
    Site site = 0;
  };
  // The newest reads of a warp, by cell; empty when there was none.
  struct Reads {
    std::vector<Read> reads;
    std::vector<uint8_t> lanes;  // TENSOR_CORES or the reader's
  };
  static constexpr uint8_t TENSOR_CORES = 32;

  // A cell is two bytes, and one from the first access of one byte on: most kernels make none, and cells have a cost.
  void refine();
  uint32_t cell_bytes() const { return 1u << cell_shift_; }
  uint32_t cell(uint32_t offset) const { return offset >> cell_shift_; }
  std::string bytes_at(uint32_t cell) const;
  void check_writable(Thread& self, uint32_t offset, uint32_t bytes, Proxy proxy, bool same_value, const char* mnemonic,
                      Where where);
  void record(Reads& reads, uint32_t first, uint32_t last, Clock clock, int lane, Where where);

  int cell_shift_ = 1;
  std::vector<Write> writes_;      // by cell
  std::vector<Site> write_sites_;  // by cell
  std::vector<Reads> reads_;       // by ordinary instructions: by warp of the cluster
  std::vector<Reads> async_reads_;
};

}  // namespace cpu
