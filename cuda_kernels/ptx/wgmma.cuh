// Warpgroup matrix multiply-accumulate: four warps, starting at a multiple of 4. PTX ISA 9.7.15: wgmma.
// Asynchronous: until the wait, nothing may touch the accumulators or the registers of A; wgmma reads shared memory
// through the asynchronous proxy. Warp w of the group holds rows 16 * w and up; with g = lane / 4, t = lane % 4,
//   D (64xN): d[4 * j], d[4 * j + 1] = (g, 8 * j + 2t and the next), d[4 * j + 2], d[4 * j + 3] = (g + 8, the same)
//   A (64x16) in registers: as for mma_m16n8k16; A (64x32) of 8-bit elements: twice as many per register
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>

#include <ptx/kernel.cuh>
#include <ptx/tensor_map.cuh>

// Describes an operand in shared memory. `leading` and `stride` are in bytes, multiples of 16.
//   K-major (k contiguous): `stride` is the distance between groups of 8 rows; `leading` the distance between 16-byte
//   columns of k without a swizzle, and ignored with one.
//   MN-major (m or n contiguous): with a swizzle, `leading` is the distance between swizzle-wide columns of m or n and
//   `stride` that between groups of 8 k; without one, `leading` is between groups of 8 k, `stride` between 8 m or n.
// The swizzle pattern starts at multiples of its 8 rows (1024 bytes for bytes_128); `address` may be a few 32-byte
// steps of k past such a start.
DEVICE uint64_t wgmma_descriptor(uint32_t address, uint32_t leading, uint32_t stride, Swizzle swizzle) {
  const uint64_t layout = (4 - static_cast<int>(swizzle)) % 4;  // 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(leading >> 4 & 0x3fff) << 16 |
         static_cast<uint64_t>(stride >> 4 & 0x3fff) << 32 | layout << 62;
}

// Required before the first wgmma, and before any wgmma that uses registers written by ordinary instructions.
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `PENDING` of the newest groups are in flight.
template <int PENDING>
DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The compiler cannot move any use of these registers across this point.
template <int COUNT>
DEVICE void register_fence(float (&registers)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int COUNT>
DEVICE void register_fence(uint32_t (&registers)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// The accumulators of N columns: their names in the asm string, and as operands. clang-format off
#define WGMMA_D_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_D_32 WGMMA_D_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_D_48 WGMMA_D_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_D_64 WGMMA_D_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D_80 WGMMA_D_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_D_96 WGMMA_D_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_D_112 WGMMA_D_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_D_128 WGMMA_D_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D_144 WGMMA_D_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_D_160 WGMMA_D_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_D_176 WGMMA_D_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_D_192 WGMMA_D_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_D_208 WGMMA_D_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_D_224 WGMMA_D_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_D_240 WGMMA_D_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_D_256 WGMMA_D_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_O_16 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_O_32 \
  WGMMA_O_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WGMMA_O_48 \
  WGMMA_O_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define WGMMA_O_64 \
  WGMMA_O_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WGMMA_O_80 \
  WGMMA_O_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WGMMA_O_96 \
  WGMMA_O_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WGMMA_O_112 \
  WGMMA_O_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WGMMA_O_128 \
  WGMMA_O_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WGMMA_O_144 \
  WGMMA_O_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WGMMA_O_160 \
  WGMMA_O_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WGMMA_O_176 \
  WGMMA_O_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WGMMA_O_192 \
  WGMMA_O_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WGMMA_O_208 \
  WGMMA_O_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), \
      "+f"(d[103])
#define WGMMA_O_224 \
  WGMMA_O_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), \
      "+f"(d[111])
#define WGMMA_O_240 \
  WGMMA_O_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), \
      "+f"(d[119])
#define WGMMA_O_256 \
  WGMMA_O_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), \
      "+f"(d[127])
// One instruction; its inputs are operands n0 and up.
#define WGMMA_BEGIN(N, SHAPE, predicate) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %" #predicate ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N SHAPE " {" WGMMA_D_##N \
      "}, "
#define WGMMA_16_SS(N, SHAPE, n0, n1, n2, n3) \
  asm volatile(WGMMA_BEGIN(N, SHAPE, n2) "%" #n0 ", %" #n1 ", p, 1, 1, 0, %" #n3 ";\n}" \
               : WGMMA_O_##N \
               : "l"(a), "l"(b), "r"(scale_d), "n"(TRANSPOSE_B) \
               : "memory")
#define WGMMA_8_SS(N, SHAPE, n0, n1, n2) \
  asm volatile(WGMMA_BEGIN(N, SHAPE, n2) "%" #n0 ", %" #n1 ", p, 1, 1;\n}" \
               : WGMMA_O_##N \
               : "l"(a), "l"(b), "r"(scale_d) \
               : "memory")
#define WGMMA_16_RS(N, SHAPE, n0, n1, n2, n3, n4, n5, n6) \
  asm volatile(WGMMA_BEGIN(N, SHAPE, n5) "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1, %" #n6 ";\n}" \
               : WGMMA_O_##N \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(TRANSPOSE_B) \
               : "memory")
#define WGMMA_8_RS(N, SHAPE, n0, n1, n2, n3, n4, n5) \
  asm volatile(WGMMA_BEGIN(N, SHAPE, n5) "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1;\n}" \
               : WGMMA_O_##N \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d) \
               : "memory")
#define WGMMA_SS(columns, n0, n1, n2, n3) \
  if constexpr (N == columns && std::is_same_v<T, __half>) WGMMA_16_SS(columns, "k16.f32.f16.f16", n0, n1, n2, n3); \
  if constexpr (N == columns && std::is_same_v<T, __nv_bfloat16>) \
    WGMMA_16_SS(columns, "k16.f32.bf16.bf16", n0, n1, n2, n3); \
  if constexpr (N == columns && std::is_same_v<T, __nv_fp8_e4m3>) WGMMA_8_SS(columns, "k32.f32.e4m3.e4m3", n0, n1, n2);
#define WGMMA_RS(columns, n0, n1, n2, n3, n4, n5, n6) \
  if constexpr (N == columns && std::is_same_v<T, __half>) \
    WGMMA_16_RS(columns, "k16.f32.f16.f16", n0, n1, n2, n3, n4, n5, n6); \
  if constexpr (N == columns && std::is_same_v<T, __nv_bfloat16>) \
    WGMMA_16_RS(columns, "k16.f32.bf16.bf16", n0, n1, n2, n3, n4, n5, n6); \
  if constexpr (N == columns && std::is_same_v<T, __nv_fp8_e4m3>) \
    WGMMA_8_RS(columns, "k32.f32.e4m3.e4m3", n0, n1, n2, n3, n4, n5);

// d = a * b + (scale_d ? d : 0): m64nNk16, for 8-bit T m64nNk32. A and B from shared memory, by descriptor; B is
// K-major, or MN-major when TRANSPOSE_B (16-bit T only).
template <class T, int N, bool TRANSPOSE_B = false>
DEVICE void wgmma_mma_async_ss(float (&d)[N / 2], uint64_t a, uint64_t b, int scale_d) {
  static_assert(sizeof(T) == 2 || !TRANSPOSE_B, "8-bit operands are K-major");
  static_assert(N == 16 || N == 32 || N == 48 || N == 64 || N == 80 || N == 96 || N == 112 || N == 128 || N == 160 ||
                    N == 176 || N == 192 || N == 256,
                "add N here");
  WGMMA_SS(16, 8, 9, 10, 11)
  WGMMA_SS(32, 16, 17, 18, 19)
  WGMMA_SS(48, 24, 25, 26, 27)
  WGMMA_SS(64, 32, 33, 34, 35)
  WGMMA_SS(80, 40, 41, 42, 43)
  WGMMA_SS(96, 48, 49, 50, 51)
  WGMMA_SS(112, 56, 57, 58, 59)
  WGMMA_SS(128, 64, 65, 66, 67)
  WGMMA_SS(160, 80, 81, 82, 83)
  WGMMA_SS(176, 88, 89, 90, 91)
  WGMMA_SS(192, 96, 97, 98, 99)
  WGMMA_SS(256, 128, 129, 130, 131)
}

// The same with A from registers.
template <class T, int N, bool TRANSPOSE_B = false>
DEVICE void wgmma_mma_async_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int scale_d) {
  static_assert(sizeof(T) == 2 || !TRANSPOSE_B, "8-bit operands are K-major");
  static_assert(N == 16 || N == 32 || N == 48 || N == 64 || N == 80 || N == 96 || N == 112 || N == 128 || N == 160 ||
                    N == 176 || N == 192 || N == 256,
                "add N here");
  WGMMA_RS(16, 8, 9, 10, 11, 12, 13, 14)
  WGMMA_RS(32, 16, 17, 18, 19, 20, 21, 22)
  WGMMA_RS(48, 24, 25, 26, 27, 28, 29, 30)
  WGMMA_RS(64, 32, 33, 34, 35, 36, 37, 38)
  WGMMA_RS(80, 40, 41, 42, 43, 44, 45, 46)
  WGMMA_RS(96, 48, 49, 50, 51, 52, 53, 54)
  WGMMA_RS(112, 56, 57, 58, 59, 60, 61, 62)
  WGMMA_RS(128, 64, 65, 66, 67, 68, 69, 70)
  WGMMA_RS(160, 80, 81, 82, 83, 84, 85, 86)
  WGMMA_RS(176, 88, 89, 90, 91, 92, 93, 94)
  WGMMA_RS(192, 96, 97, 98, 99, 100, 101, 102)
  WGMMA_RS(256, 128, 129, 130, 131, 132, 133, 134)
}
// clang-format on
