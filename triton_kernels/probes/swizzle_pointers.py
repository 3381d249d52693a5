"""Core Triton: can a tile that pointers load be unswizzled in shared memory? Not in these 18 forms."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

WAYS = ("plain", "mask", "a_transposed", "b_transposed", "cache", "strided", "added")
FORMS = (
    *(f"fp16 {way} 64" for way in WAYS),
    *(f"fp16 {way} 16" for way in ("plain", "a_transposed")),
    *(f"{dtype} {way} 64" for dtype in ("fp8e5", "i8", "fp32") for way in ("plain", "a_transposed", "b_transposed")),
)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, size, WAY: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr):
    m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, K)
    acc = tl.zeros((64, 64), ACC)
    for start in tl.range(0, size, K):
        a_at = m[:, None] * K + (start + k)[None, :]
        b_at = (start + k)[:, None] * 64 + n[None, :]
        if WAY == "a_transposed":
            a_at = m[:, None] + (start + k)[None, :] * 64
        elif WAY == "b_transposed":
            b_at = (start + k)[:, None] + n[None, :] * size
        elif WAY == "strided":
            a_at, b_at = m[:, None] * K + (start + k)[None, :] * size, (start + k)[:, None] * 64 + n[None, :] * size
        if WAY == "mask":
            a = tl.load(a_ptr + a_at, mask=(start + k)[None, :] < size, other=0)
        elif WAY == "cache":
            a = tl.load(a_ptr + a_at, cache_modifier=".cg")
        else:
            a = tl.load(a_ptr + a_at)
        b = tl.load(b_ptr + b_at)
        if WAY == "added":
            a, b = a + 1, b + 1
        acc = tl.dot(a, b, acc, out_dtype=ACC)
    tl.store(c_ptr + m[:, None] * 64 + n[None, :], acc)


def build(form):
    dtype, way, width = form.split()
    integer = dtype == "i8"
    constants = {"WAY": way, "K": int(width), "ACC": tl.int32 if integer else tl.float32}
    pointers = {"a_ptr": f"*{dtype}", "b_ptr": f"*{dtype}", "c_ptr": "*i32" if integer else "*fp32"}
    signature = {**pointers, "size": "i32", **dict.fromkeys(constants, "constexpr")}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(product, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"swizzled_shared<[^>]*maxPhase = \d+|padded_shared<", build(form).asm["ttgir"]))
