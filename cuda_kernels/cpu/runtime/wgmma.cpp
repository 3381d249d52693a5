#include <runtime/wgmma.h>

#include <bit>
#include <cstring>

#include <runtime/async.h>
#include <runtime/cluster.h>
#include <runtime/descriptor.h>
#include <runtime/diagnosis.h>
#include <runtime/memory.h>
#include <runtime/numbers.h>
#include <runtime/options.h>

namespace cpu {
namespace {

constexpr const char* MNEMONIC = "wgmma_mma_async";
constexpr int ROWS = 16, CHUNK = 16;
constexpr int MAX_K = 32, MAX_N = 256;

float value(const std::byte* bytes, int i, Format format) {
  if (format == Format::e4m3) return from_e4m3(static_cast<uint8_t>(bytes[i]));
  const auto bits = load<uint16_t>(bytes + 2 * i);
  return format == Format::fp16 ? from_fp16(bits) : from_bf16(bits);
}

const std::byte* read(Thread& self, const Wgmma& op, uint32_t address) {
  const Place at = locate(address, CHUNK, op.issue.mnemonic, op.issue.where);
  if (options().checks) at.block->shadow.load_async(self, op.issue, at.offset, CHUNK, true);
  return at.bytes;
}

void execute(Thread& self, const Wgmma& op) {
  const int bits = op.format == Format::e4m3 ? 8 : 16, k_extent = 256 / bits, per_chunk = CHUNK * 8 / bits;
  const int first_row = self.warp->index % WARPS_OF_GROUP * ROWS;
  static thread_local float a[ROWS * MAX_K], b[MAX_K * MAX_N], c[ROWS * MAX_N];
  if (op.a_in_registers) {
    for (int lane = 0; lane < LANES; ++lane) {
      if (std::memcmp(op.a_places[lane], op.a_registers[lane].data(), sizeof op.a_registers[lane]))
        report("wgmma_fragment_written", *self.warp->threads[lane], op.issue.mnemonic, op.issue.where,
               "registers of A were written between issue and wait");
      for (int i = 0; i < 4; ++i) {
        std::byte bytes[4];
        std::memcpy(bytes, &op.a_registers[lane][i], 4);
        const int per_register = 32 / bits;
        const int row = lane / 4 + i % 2 * 8, k = lane % 4 * per_register + i / 2 * k_extent / 2;
        for (int j = 0; j < per_register; ++j) a[row * k_extent + k + j] = value(bytes, j, op.format);
      }
    }
  } else if (op.transpose_a) {
    const Operand operand(op.a, true);
    for (int k = 0; k < k_extent; ++k)
      for (int group_row = 0; group_row < WARPS_OF_GROUP * ROWS; group_row += per_chunk) {
        const std::byte* bytes = read(self, op, operand.chunk(k, group_row * bits / 8));
        const int row = group_row - first_row;
        if (row < 0 || row >= ROWS) continue;
        for (int j = 0; j < per_chunk; ++j) a[(row + j) * k_extent + k] = value(bytes, j, op.format);
      }
  } else {
    const Operand operand(op.a, false);
    for (int group_row = 0; group_row < WARPS_OF_GROUP * ROWS; ++group_row)
      for (int k = 0; k < k_extent; k += per_chunk) {
        const std::byte* bytes = read(self, op, operand.chunk(group_row, k * bits / 8));
        const int row = group_row - first_row;
        if (row < 0 || row >= ROWS) continue;
        for (int j = 0; j < per_chunk; ++j) a[row * k_extent + k + j] = value(bytes, j, op.format);
      }
  }
  const Operand operand(op.b, op.transpose_b);
  if (op.transpose_b) {
    for (int k = 0; k < k_extent; ++k)
      for (int n = 0; n < op.n; n += per_chunk) {
        const std::byte* bytes = read(self, op, operand.chunk(k, n * bits / 8));
        for (int j = 0; j < per_chunk; ++j) b[k * op.n + n + j] = value(bytes, j, op.format);
      }
  } else {
    for (int n = 0; n < op.n; ++n)
      for (int k = 0; k < k_extent; k += per_chunk) {
        const std::byte* bytes = read(self, op, operand.chunk(n, k * bits / 8));
        for (int j = 0; j < per_chunk; ++j) b[(k + j) * op.n + n] = value(bytes, j, op.format);
      }
  }
  Accumulator& accumulator = *op.accumulator;
  const auto for_each_pair = [&](auto f) {
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < accumulator.count; i += 2)
        f(&c[(lane / 4 + i / 2 % 2 * 8) * op.n + i / 4 * 8 + lane % 4 * 2],
          &accumulator.values[lane * accumulator.count + i]);
  };
  if (op.accumulate)
    for_each_pair([](float* matrix, const float* registers) { std::memcpy(matrix, registers, 8); });
  else
    std::fill(c, c + ROWS * op.n, 0.f);
  multiply_add(c, a, b, ROWS, op.n, k_extent);
  for_each_pair([](const float* matrix, float* registers) { std::memcpy(registers, matrix, 8); });
}

// The registers get their values back.
void release_accumulator(Thread& self, WgmmaState& state, Accumulator& accumulator) {
  for (int lane = 0; lane < LANES; ++lane)
    for (int i = 0; i < accumulator.count; ++i) {
      if (!is_poison(accumulator.registers[lane][i]))
        report("wgmma_accumulator_written", *self.warp->threads[lane], MNEMONIC, accumulator.where,
               text("accumulator %d was written between issue and wait", i));
      accumulator.registers[lane][i] = accumulator.values[lane * accumulator.count + i];
    }
  std::erase_if(state.released, [&](const auto& one) { return one.first == accumulator.registers[0]; });
  state.released.emplace_back(accumulator.registers[0], state.fences);
}

void check_fenced(const WgmmaState& state, Thread& self, int lane, const void* registers, size_t bytes,
                  const char* what, const char* mnemonic, Where where) {
  if (options().checks && state.fenced[lane].differ(registers, bytes))
    report("missing_wgmma_fence", *self.warp->threads[lane], mnemonic, where,
           std::string(what) + " were written after the last wgmma_fence");
}

void check_pattern(Thread& self, const Operand& operand, const char* mnemonic, Where where) {
  if (const uint32_t row = operand.first_row())
    report("misaligned_access", self, mnemonic, where,
           text("the operand at shared address 0x%x begins in row %u of its swizzle's pattern: expected row 0",
                operand.address, row));
}

WgmmaState& state_of(Thread& self) { return self.cluster->async->wgmmas[self.cluster_warp]; }

}  // namespace

void wgmma(float* d, uint64_t a, const uint32_t* a_registers, uint64_t b, bool accumulate, int n, Format format,
           bool transpose_a, bool transpose_b, const char* mnemonic, Where where) {
  struct Operands {
    float* d;
    const uint32_t* a;
  };
  warp_collective(mnemonic, where, Operands{d, a_registers}, [&](Operands* const(&lanes)[LANES], Warp& warp) {
    count_warp(warp, mnemonic, where);
    in_step(warp, mnemonic, where, {a, b, static_cast<uint64_t>(accumulate)});
    Thread& self = current();
    if (!a_registers) check_pattern(self, Operand(a, transpose_a), mnemonic, where);
    check_pattern(self, Operand(b, transpose_b), mnemonic, where);
    WgmmaState& state = state_of(self);
    std::shared_ptr<Accumulator> accumulator;
    for (auto& one : state.accumulators)
      if (one->registers[0] == lanes[0]->d && one->count == n / 2) accumulator = one;
    if (!accumulator) {
      uint64_t fences_before = 0;
      for (const auto& [registers, fences] : state.released)
        if (registers == lanes[0]->d) fences_before = fences;
      if (state.fences <= fences_before)
        report("missing_wgmma_fence", self, mnemonic, where,
               "the accumulators were free for ordinary instructions, and no wgmma_fence came since");
      for (int lane = 0; lane < LANES; ++lane)
        check_fenced(state, self, lane, lanes[lane]->d, n / 2 * sizeof(float), "accumulators", mnemonic, where);
      accumulator = std::make_shared<Accumulator>();
      accumulator->count = n / 2;
      accumulator->values.resize(LANES * n / 2);
      const auto poison = std::bit_cast<float>(ACCUMULATOR_POISON);
      for (int lane = 0; lane < LANES; ++lane) {
        accumulator->registers[lane] = lanes[lane]->d;
        std::copy_n(lanes[lane]->d, n / 2, &accumulator->values[lane * n / 2]);
        std::fill_n(lanes[lane]->d, n / 2, poison);
      }
      state.accumulators.push_back(accumulator);
    }
    ++accumulator->in_flight;
    accumulator->where = where;
    Wgmma op{accumulator, format, n, a_registers != nullptr, transpose_a, transpose_b, accumulate, {}, {}, a, b, {}};
    if (a_registers)
      for (int lane = 0; lane < LANES; ++lane) {
        op.a_places[lane] = lanes[lane]->a;
        std::copy_n(lanes[lane]->a, 4, op.a_registers[lane].begin());
        check_fenced(state, self, lane, lanes[lane]->a, sizeof op.a_registers[lane], "registers of A", mnemonic, where);
      }
    const auto before = state.open.empty() ? nullptr : state.open.back().issue.known;
    Knowledge known = knowledge(self);
    const bool same = before && before->events == known.events && before->fenced == known.fenced;
    op.issue = {same ? before : std::make_shared<const Knowledge>(std::move(known)), self.agent,
                self.cluster->clocks[self.agent], mnemonic, where};
    state.open.push_back(std::move(op));
  });
}

void wgmma_fence(const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, __builtin_frame_address(0));
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  in_step(*warp, mnemonic, where);
  WgmmaState& state = state_of(current());
  ++state.fences;
  if (options().checks)
    for (int lane = 0; lane < LANES; ++lane) state.fenced[lane].save(warp->gathering.operands[lane]);
  complete(*warp);
}

void wgmma_commit_group(const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  count_warp(*warp, mnemonic, where);
  in_step(*warp, mnemonic, where);
  WgmmaState& state = state_of(current());
  state.committed.push_back(std::move(state.open));
  state.open.clear();
  complete(*warp);
}

void wgmma_wait_group(int pending, const char* mnemonic, Where where) {
  Warp* warp = gather(mnemonic, where, nullptr);
  if (!warp) return;
  in_step(*warp, mnemonic, where, {static_cast<uint64_t>(pending)});
  Thread& self = current();
  WgmmaState& state = state_of(self);
  WarpAccess wait{.mask = ALL_LANES, .waits = true, .before = {.groups = state.committed.size()}};
  for (; state.committed.size() > static_cast<size_t>(pending); state.committed.pop_front())
    for (const Wgmma& op : state.committed.front()) {
      execute(self, op);
      --op.accumulator->in_flight;
    }
  for (auto& accumulator : state.accumulators)
    if (!accumulator->in_flight) release_accumulator(self, state, *accumulator);
  std::erase_if(state.accumulators, [](const auto& accumulator) { return !accumulator->in_flight; });
  wait.left.groups = state.committed.size();
  if (options().counters) self.cluster->counters.count(mnemonic, where, Path::none, 0, wait, *warp);
  // The reads of the retired groups are over for the whole warp, so any lane may release the buffers.
  const int agent = self.cluster->agent_of_tensor_cores(self.cluster_warp);
  warp->known.events[agent] = self.cluster->clocks[agent]++;
  complete(*warp);
}

void wgmma_after_return(Thread& self, const WgmmaState& state) {
  if (!state.accumulators.empty())
    report("wgmma_in_flight", self, MNEMONIC, state.accumulators.front()->where,
           "the warp returned while this is in flight: no commit or no wait has covered it");
}

void report_accumulated(const char* mnemonic, Where where) {
  Thread& self = current();
  const WgmmaState& state = state_of(self);
  report("wgmma_accumulator_read", self, mnemonic, where,
         "the value stems from an accumulator read between issue and wait" +
             (state.accumulators.empty() ? std::string()
                                         : "; in flight: " + place(MNEMONIC, state.accumulators.front()->where)));
}

}  // namespace cpu
