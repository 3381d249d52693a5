// A CUDA driver without a GPU, for tests: it writes down what it is asked for, a JSON line a call, into the file that
// $FAKE_LIBCUDA_LOG names. $FAKE_LIBCUDA_SIZES are the bytes of the launched kernel's parameters, 128,4,4.
// $FAKE_LIBCUDA_FAILS, such as cuModuleLoadData, is the call that answers with an error, 209.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int id, pad;
  unsigned char value[64];
} Attribute;

typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned count;
} Config;

static FILE *begin(const char *call) {
  FILE *log = fopen(getenv("FAKE_LIBCUDA_LOG"), "a");
  fprintf(log, "{\"call\": \"%s\"", call);
  return log;
}

static int end(FILE *log, const char *call) {
  fprintf(log, "}\n");
  fclose(log);
  const char *fails = getenv("FAKE_LIBCUDA_FAILS");
  return fails && !strcmp(fails, call) ? 209 : 0;
}

static void hex(FILE *log, const void *bytes, int count) {
  fprintf(log, "\"");
  for (int i = 0; i < count; ++i) fprintf(log, "%02x", ((const unsigned char *)bytes)[i]);
  fprintf(log, "\"");
}

int cuGetErrorString(int code, const char **text) {
  *text = code == 209 ? "no kernel image is available for execution on the device" : "another error";
  return 0;
}

int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuCtxGetCurrent(void **context) { return *context = (void *)1, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)1, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = 227 * 1024, 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) { return *value = attribute ? 0 : 1024, 0; }
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer) { return memcpy(value, &pointer, 8), 0; }
int cuStreamIsCapturing(void *stream, int *status) { return *status = 0, 0; }
int cuOccupancyMaxActiveClusters(int *count, void *function, void *config) { return *count = 1, 0; }
int cuCtxGetLimit(size_t *value, int limit) { return *value = 0, 0; }
int cuCtxSetLimit(int limit, size_t value) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuInit(unsigned flags) { return 0; }
int cuModuleUnload(void *module) { return 0; }
int cuFuncSetCacheConfig(void *function, int config) { return 0; }
int cuTensorMapEncodeIm2col(void) { return 1; }

int cuModuleLoadData(void **module, const void *image) {
  FILE *log = begin(__func__);
  fprintf(log, ", \"begins\": ");
  hex(log, image, 8);
  *module = (void *)2;
  return end(log, __func__);
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  FILE *log = begin(__func__);
  fprintf(log, ", \"name\": \"%s\"", name);
  *function = (void *)3;
  return end(log, __func__);
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  if (attribute != 8) return 1;  // larger shared memory than 227 KB is for other GPUs
  FILE *log = begin(__func__);
  fprintf(log, ", \"shared\": %d", value);
  return end(log, __func__);
}

// What a map is made of stands in it. Its second word is all ones, so that a bit which is cleared is seen.
int cuTensorMapEncodeTiled(unsigned char *map, int kind, unsigned rank, void *address, const uint64_t *sizes,
                           const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                           int swizzle, int promotion, int fill) {
  const unsigned char words[6] = {kind, rank, interleave, swizzle, promotion, fill};
  memset(map, 0, 128);
  memcpy(map, words, 6);
  memset(map + 8, 255, 8);
  memcpy(map + 16, &address, 8);
  memcpy(map + 24, sizes, 8 * rank);
  memcpy(map + 64, strides, 8 * (rank - 1));
  memcpy(map + 96, box, 4 * rank);
  for (unsigned dim = 0; dim < rank; ++dim) map[116 + dim] = steps[dim];
  return end(begin(__func__), __func__);
}

int cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
  FILE *log = begin(__func__);
  fprintf(log, ", \"grid\": [%u, %u, %u]", config->grid[0], config->grid[1], config->grid[2]);
  fprintf(log, ", \"block\": [%u, %u, %u]", config->block[0], config->block[1], config->block[2]);
  fprintf(log, ", \"shared\": %u, \"stream\": %llu", config->shared, (unsigned long long)config->stream);
  fprintf(log, ", \"attributes\": [");
  for (unsigned i = 0; i < config->count; ++i) {
    fprintf(log, "%s[%d, ", i ? ", " : "", config->attributes[i].id);
    hex(log, config->attributes[i].value, 12);
    fprintf(log, "]");
  }
  fprintf(log, "], \"parameters\": [");
  char *sizes = strdup(getenv("FAKE_LIBCUDA_SIZES"));
  int number = 0;
  for (char *size = strtok(sizes, ","); size; size = strtok(NULL, ",")) {
    if (number) fprintf(log, ", ");
    hex(log, parameters[number++], atoi(size));
  }
  free(sizes);
  fprintf(log, "]");
  return end(log, __func__);
}
