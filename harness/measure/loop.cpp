// The loop that times the calls of a user's kernel, out of reach of Python: which copy of the inputs a call gets, the
// flush of the L2 cache, the clock, and what is kept of an output. The verifier's draws come through a socket; times go
// back through it. The driver is loaded first, then this library, then the user's file is imported.
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {  // the driver's; cuda.h may be missing
int cuEventCreate(void** event, unsigned flags);
int cuEventRecord(void* event, void* stream);
int cuEventQuery(void* event);
int cuEventElapsedTime(float* ms, void* begin, void* end);
int cuStreamSynchronize(void* stream);
int cuMemHostAlloc(char** memory, size_t bytes, unsigned flags);
int cuMemFreeHost(char* memory);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream);
int cuModuleLoadData(void** module, const void* text);
int cuModuleGetFunction(void** function, void* module, const char* name);
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned,
                   unsigned shared, void* stream, void** parameters, void** extra);
}

namespace {

// flush(words, end, key, sum) for 1024 blocks of 1024 threads, sm_80 and newer; the driver translates it. Each
// 4-byte word becomes mix(word ^ key): nobody knows the sum of all words who has not read and written each of them.
constexpr const char* PTX = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry flush(.param .u64 words, .param .u64 end, .param .u32 key, .param .u64 sum) {
  .reg .pred %over, %first;
  .reg .u32 %lane, %thread, %block, %key, %word, %high, %total;
  .reg .u64 %at, %end, %sum;
  ld.param.u64 %at, [words];
  ld.param.u64 %end, [end];
  ld.param.u32 %key, [key];
  ld.param.u64 %sum, [sum];
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mad.wide.u32 %at, %block, 4096, %at;
  mad.wide.u32 %at, %thread, 4, %at;
  mov.u32 %total, 0;
next:
  setp.ge.u64 %over, %at, %end;
  @%over bra reduce;
  ld.global.u32 %word, [%at];
  xor.b32 %word, %word, %key;
  mul.lo.u32 %word, %word, 0x9E3779B1;
  shr.u32 %high, %word, 15;
  xor.b32 %word, %word, %high;
  st.global.u32 [%at], %word;
  add.u32 %total, %total, %word;
  add.u64 %at, %at, 4194304;
  bra next;
reduce:
  redux.sync.add.u32 %total, %total, 0xffffffff;
  and.b32 %lane, %thread, 31;
  setp.eq.u32 %first, %lane, 0;
  @%first red.global.add.u32 [%sum], %total;
  ret;
}
)";

// The verifier's for one call: key of the flush, copy of the inputs, how far it is rolled, whether outputs are kept.
struct Draw {
  uint32_t key, copy, shift, kept;
} draw;
int channel, error;
void *stream, *function;
std::vector<void*> events;
size_t recorded;               // of `events`, in this batch: one before the first call, and two of each call
uint64_t words, end;           // memory that is flushed
std::vector<uint64_t> inputs;  // the table of `loop_memory`
size_t width;                  // its numbers for an input
char* kept;                    // outputs that the verifier keeps, where no line of Python can write
uint64_t filled;               // bytes of it

void must(int code) { error = error ? error : code; }

void record() {
  if (recorded == events.size()) must(cuEventCreate(&events.emplace_back(), 0));
  must(cuEventRecord(events[recorded++], stream));
}

void tell(const void* told, ssize_t bytes) { must(write(channel, told, bytes) == bytes ? 0 : -1); }

void copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes) must(cuMemcpyAsync(to, from, bytes, stream));
}

}  // namespace

// `socket` and the CUDA stream of all calls.
EXPORT void loop_open(uint64_t socket, void* of_calls) {
  channel = socket, stream = of_calls;
  void* module;
  must(cuModuleLoadData(&module, PTX));
  must(cuModuleGetFunction(&function, module, "flush"));
}

// `table` of `count` numbers, `of_each` for an input: its bytes, and the addresses of its base and of each copy. `room`:
// bytes for the outputs that are kept.
EXPORT void loop_memory(uint64_t flushed, uint64_t bytes, uint64_t of_each, uint64_t count, const uint64_t* table,
                        uint64_t room) {
  words = flushed, end = flushed + bytes, width = of_each;
  inputs.assign(table, table + count);
  if (kept) must(cuMemFreeHost(kept));
  must(cuMemHostAlloc(&kept, room, 0));
}

// Begins a call and returns the copy of the inputs that it gets. Its values are made only now: the base, rolled by
// `shift` times 16 bytes, the next input by 3 times as much, and so on. Then all caches are flushed and the clock
// starts, with no line of Python in between. `sums` has a zero for each call of the batch.
EXPORT int loop_begin(uint64_t sums) {
  if (!recorded) record();
  must(recorded % 2 ? 0 : -1);  // the call before has ended
  must(read(channel, &draw, sizeof draw) == sizeof draw ? 0 : -1);
  for (uint64_t at = 0, odd = 1; at < inputs.size(); at += width, odd += 2) {
    const uint64_t bytes = inputs[at], base = inputs[at + 1], to = inputs[at + 2 + draw.copy];
    const uint64_t by = bytes ? 16 * odd * draw.shift % bytes : 0;
    copy(to + by, base, bytes - by);
    copy(to, base + bytes - by, by);
  }
  uint64_t sum = sums + recorded / 2 * sizeof draw.key;
  void* parameters[] = {&words, &end, &draw.key, &sum};
  must(cuLaunchKernel(function, 1024, 1, 1, 1024, 1, 1, 0, stream, parameters, nullptr));
  record();
  return draw.copy;
}

// Ends the call. `written`: address and bytes of each output.
EXPORT void loop_end(uint64_t outputs, const uint64_t* written) {
  must(recorded % 2 ? -1 : 0);
  record();
  for (uint64_t n = 0; draw.kept && n < outputs; ++n) {
    copy(reinterpret_cast<uint64_t>(kept + filled), written[2 * n], written[2 * n + 1]);
    filled += (written[2 * n + 1] + 15) / 16 * 16;
  }
}

// Waits for the batch and sends the milliseconds between all events, whether all calls were queued before the first one
// began, and the outputs that are kept. Returns the first error since the last batch, which is CUDA's or -1, else 0.
EXPORT int loop_finish() {
  std::vector<float> told(std::exchange(recorded, 0));
  told.back() = cuEventQuery(events[0]) != 0;  // what the first one waits for is not over yet
  must(cuStreamSynchronize(stream));
  for (size_t i = 1; i < told.size(); ++i) must(cuEventElapsedTime(&told[i - 1], events[i - 1], events[i]));
  if (error) return std::exchange(error, 0);
  tell(told.data(), told.size() * sizeof told[0]);
  tell(&filled, sizeof filled);
  tell(kept, std::exchange(filled, 0));
  return std::exchange(error, 0);
}
