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

// What differs between a GPU and a CPU. Each function returns an error, 0 for none.
struct Device {
  int (*flush)(uint32_t key, int place);
  int (*record)(int mark);
  int (*elapsed)(int begin, int end, double* ms);
  int (*copy)(void* to, const void* from, uint64_t bytes, int to_host);
  int (*finish)(int mark, uint32_t* ahead);
};

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
struct Tensor {
  uint64_t bytes;
  char* const* copies;  // the first one is the base of the others
};

// word' = mix(word ^ key): nobody knows the sum of all words who has not read and written each of them.
constexpr uint32_t FACTOR = 0x9E3779B1u;

// flush(words, count, key, sum), for sm_80 and newer; the driver translates it.
constexpr const char* PTX = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry flush(.param .u64 words, .param .u64 count, .param .u32 key, .param .u64 sum) {
  .reg .pred %over, %idle;
  .reg .u32 %r<4>, %key, %word, %high, %total;
  .reg .u64 %words, %count, %sum, %i, %step, %at;
  ld.param.u64 %words, [words];
  ld.param.u64 %count, [count];
  ld.param.u32 %key, [key];
  ld.param.u64 %sum, [sum];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %step, %r3, %r2;
  mul.wide.u32 %i, %r1, %r2;
  cvt.u64.u32 %at, %r0;
  add.u64 %i, %i, %at;
  mov.u32 %total, 0;
next:
  setp.ge.u64 %over, %i, %count;
  @%over bra reduce;
  shl.b64 %at, %i, 2;
  add.u64 %at, %words, %at;
  ld.global.u32 %word, [%at];
  xor.b32 %word, %word, %key;
  mul.lo.u32 %word, %word, 0x9E3779B1;
  shr.u32 %high, %word, 15;
  xor.b32 %word, %word, %high;
  st.global.u32 [%at], %word;
  add.u32 %total, %total, %word;
  add.u64 %i, %i, %step;
  bra next;
reduce:
  redux.sync.add.u32 %total, %total, 0xffffffff;
  and.b32 %r0, %r0, 31;
  setp.ne.u32 %idle, %r0, 0;
  @!%idle red.global.add.u32 [%sum], %total;
  ret;
}
)";
constexpr unsigned THREADS = 1024, BLOCKS = 1024;

struct State {
  int draws = -1, results = -1;
  uint32_t* words = nullptr;
  uint64_t count = 0;
  uint32_t* sums = nullptr;  // of the device
  std::vector<uint32_t> read;
  std::vector<char*> addresses;
  std::vector<Tensor> tensors;
  Handle stream = nullptr, function = nullptr;
  std::vector<Handle> events;
  std::vector<double> moments;
} state;

// On a CPU.

int host_flush(uint32_t key, int place) {
  uint32_t sum = 0;
  for (uint64_t i = 0; i < state.count; ++i) {
    uint32_t word = (state.words[i] ^ key) * FACTOR;
    sum += state.words[i] = word ^ word >> 15;
  }
  return state.sums[place] = sum, 0;
}
int host_record(int mark) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (state.moments.size() <= size_t(mark)) state.moments.resize(mark + 1);
  return state.moments[mark] = now.tv_sec * 1e3 + now.tv_nsec / 1e6, 0;
}
int host_elapsed(int begin, int end, double* ms) { return *ms = state.moments[end] - state.moments[begin], 0; }
int host_copy(void* to, const void* from, uint64_t bytes, int) { return memcpy(to, from, bytes), 0; }
int host_finish(int, uint32_t* ahead) { return *ahead = 1, 0; }

// On a GPU: the driver's functions, looked up before the user's file is imported.

struct Driver {
  int (*event_create)(Handle*, unsigned);
  int (*event_record)(Handle, Handle);
  int (*event_query)(Handle);
  int (*event_synchronize)(Handle);
  int (*event_elapsed)(float*, Handle, Handle);
  int (*copy)(uint64_t, uint64_t, size_t, Handle);
  int (*copy_out)(void*, uint64_t, size_t, Handle);
  int (*module_load)(Handle*, const void*);
  int (*module_function)(Handle*, Handle, const char*);
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
} driver;

int gpu_flush(uint32_t key, int place) {
  uint32_t* sum = state.sums + place;
  void* parameters[] = {&state.words, &state.count, &key, &sum};
  return driver.launch(state.function, BLOCKS, 1, 1, THREADS, 1, 1, 0, state.stream, parameters, nullptr);
}
int gpu_record(int mark) {
  while (state.events.size() <= size_t(mark)) {
    state.events.emplace_back();
    if (const int error = driver.event_create(&state.events.back(), 0)) return error;
  }
  return driver.event_record(state.events[mark], state.stream);
}
int gpu_elapsed(int begin, int end, double* ms) {
  float found = 0;
  const int error = driver.event_elapsed(&found, state.events[begin], state.events[end]);
  return *ms = found, error;
}
int gpu_copy(void* to, const void* from, uint64_t bytes, int to_host) {
  if (to_host) return driver.copy_out(to, uint64_t(from), bytes, state.stream);
  return driver.copy(uint64_t(to), uint64_t(from), bytes, state.stream);
}
int gpu_finish(int mark, uint32_t* ahead) {
  *ahead = driver.event_query(state.events[0]) != 0;  // what the first one waits for is not over yet
  return driver.event_synchronize(state.events[mark]);
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

__attribute__((visibility("default"))) Device device = {host_flush, host_record, host_elapsed, host_copy, host_finish};

// `draws` and `results` are pipes; -1 stands for an error that no driver has.
EXPORT int loop_open(int on_gpu, int draws, int results) {
  state.draws = draws, state.results = results;
  if (!on_gpu) return 0;
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  const bool found =
      cuda && find(cuda, "cuEventCreate", driver.event_create) && find(cuda, "cuEventRecord", driver.event_record) &&
      find(cuda, "cuEventQuery", driver.event_query) && find(cuda, "cuEventSynchronize", driver.event_synchronize) &&
      find(cuda, "cuEventElapsedTime", driver.event_elapsed) && find(cuda, "cuMemcpyDtoDAsync_v2", driver.copy) &&
      find(cuda, "cuMemcpyDtoHAsync_v2", driver.copy_out) && find(cuda, "cuModuleLoadData", driver.module_load) &&
      find(cuda, "cuModuleGetFunction", driver.module_function) && find(cuda, "cuLaunchKernel", driver.launch);
  if (!found) return -1;
  Handle module;
  if (const int error = driver.module_load(&module, PTX)) return error;
  device = {gpu_flush, gpu_record, gpu_elapsed, gpu_copy, gpu_finish};
  return driver.module_function(&state.function, module, "flush");
}

// Memory of the device: what is flushed, a checksum for each call of a batch, and the inputs: `bytes` of each, and
// the address of each copy of the first, then of the second.
EXPORT void loop_memory(uint32_t* words, uint64_t count, uint32_t* sums, const uint64_t* bytes, int tensors,
                        char* const* addresses, int copies) {
  state.words = words, state.count = count, state.sums = sums;
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
    if (const int error = device.copy(to + by, base, tensor.bytes - by, 0)) return error;
    if (const int error = by ? device.copy(to, base + tensor.bytes - by, by, 0) : 0) return error;
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
  int error = device.record(0);
  for (int i = 0; i < calls && !error; ++i) {
    Key key;
    Pick pick;
    if (about(i) || !receive(key)) return -1;
    if (key.flushed && (error = device.flush(key.key, i))) return error;
    if ((error = device.record(2 * i + 1))) return error;
    if (!receive(pick) || call(i, pick.copy, written.data())) return -1;
    if ((error = device.record(2 * i + 2))) return error;
    for (int n = 0; pick.slot && n < outputs && !error; ++n) {
      char* const to = kept + (pick.slot - 1) * slot_bytes + places[n];
      error = device.copy(to, written[n].address, written[n].bytes, 1);
    }
    if (key.flushed && !error) error = loop_fill(pick.copy, pick.shift, stream);
  }
  uint32_t ahead = 0;
  std::vector<uint32_t> sums(calls);
  error = error ? error : device.record(2 * calls + 1);
  error = error ? error : device.finish(2 * calls + 1, &ahead);  // before a copy that may wait for the device
  error = error ? error : device.copy(sums.data(), state.sums, calls * sizeof sums[0], 1);
  error = error ? error : device.record(2 * calls + 2);
  uint32_t unused;
  error = error ? error : device.finish(2 * calls + 2, &unused);
  for (int i = 0; i < calls && !error; ++i) {
    error = device.elapsed(2 * i + 1, 2 * i + 2, &results[i].ms);
    results[i].sum = sums[i], results[i].ahead = ahead;
  }
  const ssize_t bytes = calls * sizeof(Result);
  return error ? error : write(state.results, results.data(), bytes) == bytes ? 0 : -1;
}
