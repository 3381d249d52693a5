// Of a CUDA driver what harness/measure/loop.cpp asks for, on the CPU: memory is memory, and a launch is the flush.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int recorded;  // events

int cuEventCreate(void** event, unsigned flags) { return *event = calloc(1, sizeof(double)), (int)flags; }
int cuEventRecord(double* event, void* stream) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *event = now.tv_sec * 1e3 + now.tv_nsec / 1e6;
  return ++recorded, stream != NULL;
}
int cuEventQuery(void* event) { return event ? 600 : 1; }  // not ready: the device has not begun
int cuStreamSynchronize(void* stream) { return stream != NULL; }
int cuEventElapsedTime(float* ms, double* begin, double* end) { return *ms = (float)(*end - *begin), 0; }
int cuMemcpyAsync(void* to, const void* from, size_t bytes, void* stream) {
  return memcpy(to, from, bytes), stream != NULL;
}
int cuMemHostAlloc(char** memory, size_t bytes, unsigned flags) { return *memory = malloc(bytes), (int)flags; }
int cuMemFreeHost(char* memory) { return free(memory), 0; }
int cuModuleLoadData(void** module, const char* text) {
  return *module = (void*)1, strstr(text, ".entry flush") == NULL;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return *function = module, strcmp(name, "flush");
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
  uint32_t key = *(uint32_t*)parameters[2], *sum = *(uint32_t**)parameters[3];
  for (uint32_t* at = *(uint32_t**)parameters[0]; at < *(uint32_t**)parameters[1]; ++at) {
    const uint32_t word = (*at ^ key) * 0x9E3779B1u;
    *sum += *at = word ^ word >> 15;
  }
  return !function || x != 1024 || y * z * ty * tz != 1 || threads != 1024 || shared || stream || extra;
}
