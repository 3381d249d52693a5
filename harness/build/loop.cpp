// The loop that times the calls of a user's kernel, out of reach of Python: which copy of the inputs a call gets, the
// flush of the L2 cache, the clock, and what is kept of the outputs. The verifier's draws come through one pipe, times
// and checksums go back through another. On a CPU the same loop runs on memory and the system's clock.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Handle = void*;

struct Key {
  uint32_t key, flushed;  // flushed 0: a call on whatever the cache holds, on inputs that stay
};
struct Pick {
  uint32_t copy, slot;  // of the inputs; of the outputs that are kept: 1 or more, 0 for none
  uint64_t shift;       // by which the copy is rolled for its next call
};
struct Result {
  double ms;
  uint32_t sum, ahead;  // checksum of the flush; whether all calls were queued before the first one began
};
struct Output {
  void* address;
  uint64_t bytes;
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

// On a CPU: what stands for the driver's functions. An event is the address of its moment in milliseconds.

int create_event(Handle* event, unsigned) { return *event = new double, 0; }
int record_event(Handle event, Handle) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return *static_cast<double*>(event) = now.tv_sec * 1e3 + now.tv_nsec / 1e6, 0;
}
int query_event(Handle) { return 1; }
int synchronize_event(Handle) { return 0; }
int elapsed_time(float* ms, Handle begin, Handle end) {
  return *ms = *static_cast<double*>(end) - *static_cast<double*>(begin), 0;
}
int copy_bytes(void* to, const void* from, size_t bytes, Handle) { return memcpy(to, from, bytes), 0; }
int flush_words(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void** parameters,
                void**) {
  const auto key = *static_cast<uint32_t*>(parameters[2]);
  auto& sum = **static_cast<uint32_t**>(parameters[3]);
  for (auto at = *static_cast<uint32_t**>(parameters[0]); at < *static_cast<uint32_t**>(parameters[1]); ++at) {
    const uint32_t word = (*at ^ key) * 0x9E3779B1u;
    sum += *at = word ^ word >> 15;
  }
  return 0;
}

}  // namespace

struct Driver {
  decltype(&create_event) create = create_event;
  decltype(&record_event) record = record_event;
  decltype(&query_event) query = query_event;
  decltype(&synchronize_event) synchronize = synchronize_event;
  decltype(&elapsed_time) elapsed = elapsed_time;
  decltype(&copy_bytes) copy = copy_bytes;
  decltype(&flush_words) launch = flush_words;
};
__attribute__((visibility("default"))) Driver driver;

namespace {

struct Tensor {
  uint64_t bytes;
  char* const* copies;  // the first one is the base of the others
};
struct State {
  int draws = -1, results = -1;
  uint32_t *words = nullptr, *end = nullptr, *sums = nullptr;
  std::vector<char*> addresses;
  std::vector<Tensor> tensors;
  std::vector<Handle> events;
  Handle stream = nullptr, function = nullptr;
} state;

int flush(uint32_t key, int place) {
  uint32_t* sum = state.sums + place;
  void* parameters[] = {&state.words, &state.end, &key, &sum};
  return driver.launch(state.function, BLOCKS, 1, 1, THREADS, 1, 1, 0, state.stream, parameters, nullptr);
}

int record(size_t mark) {
  while (state.events.size() <= mark) {
    state.events.emplace_back();
    if (const int error = driver.create(&state.events.back(), 0)) return error;
  }
  return driver.record(state.events[mark], state.stream);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  return (function = reinterpret_cast<Function>(dlsym(library, name))) != nullptr;
}

template <class Struct>
bool receive(Struct& drawn) {
  return read(state.draws, &drawn, sizeof drawn) == sizeof drawn;
}

}  // namespace

// `draws` and `results` are pipes; -1 stands for an error that no driver has. The driver's functions are looked up
// now: before the user's file is imported.
EXPORT int loop_open(int on_gpu, int draws, int results) {
  state.draws = draws, state.results = results;
  if (!on_gpu) return 0;
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int (*load_module)(Handle*, const void*);
  int (*get_function)(Handle*, Handle, const char*);
  const bool found = cuda && find(cuda, "cuEventCreate", driver.create) &&
                     find(cuda, "cuEventRecord", driver.record) && find(cuda, "cuEventQuery", driver.query) &&
                     find(cuda, "cuEventSynchronize", driver.synchronize) &&
                     find(cuda, "cuEventElapsedTime", driver.elapsed) && find(cuda, "cuMemcpyAsync", driver.copy) &&
                     find(cuda, "cuLaunchKernel", driver.launch) && find(cuda, "cuModuleLoadData", load_module) &&
                     find(cuda, "cuModuleGetFunction", get_function);
  Handle module = nullptr;
  if (const int error = found ? load_module(&module, PTX) : -1) return error;
  return get_function(&state.function, module, "flush");
}

// Memory of the device: what is flushed, a checksum for each call of a batch, and the inputs: `bytes` of each, and
// the address of each copy of the first, then of the second.
EXPORT void loop_memory(uint32_t* words, uint64_t count, uint32_t* sums, const uint64_t* bytes, int tensors,
                        char* const* addresses, int copies) {
  state.words = words, state.end = words + count, state.sums = sums;
  state.addresses.assign(addresses, addresses + tensors * copies);
  state.tensors.clear();
  for (int n = 0; n < tensors; ++n) state.tensors.push_back({bytes[n], state.addresses.data() + n * copies});
}

// The copy becomes the base, rolled by `shift` times 16 bytes, the next tensor by 3 times as much, and so on.
EXPORT int loop_fill(uint32_t copy, uint64_t shift, void* stream) {
  state.stream = stream;
  uint64_t odd = 1;
  for (const Tensor& tensor : state.tensors) {
    const char* const base = tensor.copies[0];
    char* const to = tensor.copies[copy];
    const uint64_t units = tensor.bytes / 16, by = units ? shift * odd % units * 16 : 0;
    if (const int error = driver.copy(to + by, base, tensor.bytes - by, stream)) return error;
    if (const int error = by ? driver.copy(to, base + tensor.bytes - by, by, stream) : 0) return error;
    odd += 2;
  }
  return 0;
}

// One batch. `about` hears which call comes next; `call` makes it on a copy and says where its outputs are. Outputs
// that the verifier keeps go to `kept`, `slot_bytes` apart, each output at its place in the slot.
EXPORT int loop_run(int calls, void* stream, int (*about)(int), int (*call)(int, int, Output*), int outputs, char* kept,
                    uint64_t slot_bytes, const uint64_t* places) {
  state.stream = stream;
  std::vector<Result> results(calls);
  std::vector<Output> written(outputs);
  std::vector<uint32_t> sums(calls);
  int error = record(0);
  for (int i = 0; i < calls && !error; ++i) {
    Key key;
    Pick pick;
    if (about(i) || !receive(key)) return -1;
    if (key.flushed && (error = flush(key.key, i))) return error;
    if ((error = record(2 * i + 1))) return error;
    if (!receive(pick) || call(i, pick.copy, written.data())) return -1;
    if ((error = record(2 * i + 2))) return error;
    for (int n = 0; pick.slot && n < outputs && !error; ++n) {
      char* const to = kept + (pick.slot - 1) * slot_bytes + places[n];
      if (written[n].bytes) error = driver.copy(to, written[n].address, written[n].bytes, stream);
    }
    if (key.flushed && !error) error = loop_fill(pick.copy, pick.shift, stream);
  }
  if (error) return error;
  const uint32_t ahead = driver.query(state.events[0]) != 0;  // what the first one waits for is not over yet
  error = driver.copy(sums.data(), state.sums, calls * sizeof sums[0], stream);
  error = error ? error : record(2 * calls + 1);
  error = error ? error : driver.synchronize(state.events[2 * calls + 1]);
  for (int i = 0; i < calls && !error; ++i) {
    float ms = 0;
    error = driver.elapsed(&ms, state.events[2 * i + 1], state.events[2 * i + 2]);
    results[i] = {ms, sums[i], ahead};
  }
  const ssize_t bytes = calls * sizeof(Result);
  return error ? error : write(state.results, results.data(), bytes) == bytes ? 0 : -1;
}
