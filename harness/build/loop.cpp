// The loop that times the calls of a user's kernel, out of reach of Python: which copy of the inputs a call gets, the
// flush of the L2 cache, the clock, and what is kept of an output. The verifier's draws come through a socket; times and
// checksums go back through it. The driver is loaded first, then this library, then the user's file is imported.
#include <unistd.h>

#include <cstdint>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

using Handle = void*;

extern "C" {  // the driver's; cuda.h may be missing
int cuEventCreate(Handle* event, unsigned flags);
int cuEventRecord(Handle event, Handle stream);
int cuEventQuery(Handle event);
int cuEventElapsedTime(float* ms, Handle begin, Handle end);
int cuStreamSynchronize(Handle stream);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, Handle stream);
int cuModuleLoadData(Handle* module, const void* text);
int cuModuleGetFunction(Handle* function, Handle module, const char* name);
int cuLaunchKernel(Handle function, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned,
                   unsigned shared, Handle stream, void** parameters, void** extra);
}

namespace {

struct Key {
  uint32_t key, flushed;  // flushed 0: a call on whatever the cache holds, on inputs that stay
};
struct Pick {
  uint32_t copy, kept;  // of the inputs; whether the outputs are kept
  uint64_t shift;       // by which the copy is rolled for its next call
};
struct Result {
  double ms;
  uint32_t sum, ahead;  // checksum of the flush; whether all calls were queued before the first one began
};

// flush(words, end, key, sum) for BLOCKS blocks of THREADS threads, sm_80 and newer; the driver translates it. Each
// 4-byte word becomes mix(word ^ key): nobody knows the sum of all words who has not read and written each of them.
constexpr unsigned THREADS = 1024, BLOCKS = 1024;
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

int channel;
Handle stream, function;
std::vector<Handle> events;
uint64_t words, end;                     // memory that is flushed
std::vector<uint64_t> sizes, addresses;  // bytes of each input; of the first one the base and its copies, and so on

void must(int error) {
  if (error) throw error;
}

template <class Struct>
Struct receive() {
  Struct drawn;
  must(read(channel, &drawn, sizeof drawn) == sizeof drawn ? 0 : -1);
  return drawn;
}

void record(size_t mark) {
  while (events.size() <= mark) must(cuEventCreate(&events.emplace_back(), 0));
  must(cuEventRecord(events[mark], stream));
}

void copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes) must(cuMemcpyAsync(to, from, bytes, stream));
}

void flush(uint32_t key, uint64_t sum) {
  void* parameters[] = {&words, &end, &key, &sum};
  must(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, parameters, nullptr));
}

}  // namespace

// `socket` and the CUDA stream of all calls. Like the others it returns 0, an error of CUDA's, or -1.
EXPORT int loop_open(uint64_t socket, Handle of_calls) {
  channel = socket, stream = of_calls;
  Handle module;
  const int error = cuModuleLoadData(&module, PTX);
  return error ? error : cuModuleGetFunction(&function, module, "flush");
}

// `table`: bytes of each input, then where each of the `count` copies of the first one lies, of the second, ...
EXPORT int loop_memory(uint64_t flushed, uint64_t bytes, uint64_t inputs, uint64_t count, const uint64_t* table) {
  words = flushed, end = flushed + bytes;
  sizes.assign(table, table + inputs);
  addresses.assign(table + inputs, table + inputs + inputs * count);
  return 0;
}

// The copy becomes the base, rolled by `shift` times 16 bytes, the next input by 3 times as much, and so on.
EXPORT int loop_fill(uint64_t number, uint64_t shift) try {
  for (size_t n = 0; n < sizes.size(); ++n) {
    const uint64_t* const copies = &addresses[n * addresses.size() / sizes.size()];
    const uint64_t units = sizes[n] / 16, by = units ? shift * (2 * n + 1) % units * 16 : 0;
    copy(copies[number] + by, copies[0], sizes[n] - by);
    copy(copies[number], copies[0] + sizes[n] - by, by);
  }
  return 0;
} catch (int error) {
  return error;
}

// One batch. `call` makes a call on a copy and says where its outputs are, address and bytes of each; a negative copy
// announces the call. Outputs that the verifier keeps go to `kept`, `room` bytes apart; `sums` is zero for each call.
EXPORT int loop_run(uint64_t calls, uint64_t sums, uint64_t outputs, uint64_t kept, uint64_t room,
                    int (*call)(int, int, uint64_t*)) try {
  std::vector<Result> results(calls);
  std::vector<uint64_t> written(2 * outputs);
  std::vector<uint32_t> checksums(calls);
  record(0);
  for (uint64_t i = 0; i < calls; ++i) {
    must(call(i, -1, nullptr));
    const auto [key, flushed] = receive<Key>();
    if (flushed) flush(key, sums + i * sizeof key);
    record(2 * i + 1);
    const Pick pick = receive<Pick>();
    must(call(i, pick.copy, written.data()));
    record(2 * i + 2);
    for (uint64_t n = 0; pick.kept && n < outputs; ++n) copy(kept + n * room, written[2 * n], written[2 * n + 1]);
    if (flushed) must(loop_fill(pick.copy, pick.shift));
  }
  const uint32_t ahead = cuEventQuery(events[0]) != 0;  // what the first one waits for is not over yet
  copy(reinterpret_cast<uint64_t>(checksums.data()), sums, calls * sizeof checksums[0]);
  must(cuStreamSynchronize(stream));
  for (uint64_t i = 0; i < calls; ++i) {
    float ms = 0;
    must(cuEventElapsedTime(&ms, events[2 * i + 1], events[2 * i + 2]));
    results[i] = {ms, checksums[i], ahead};
  }
  const ssize_t bytes = calls * sizeof results[0];
  return write(channel, results.data(), bytes) == bytes ? 0 : -1;
} catch (int error) {
  return error;
}
