"""Core Triton: tiles with uses other than tensor-core products get no swizzle, though their rows have 128 bytes."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("ieee", "dot and sum", "elementwise", "dot")


@triton.jit
def steps_of(a_ptr, b_ptr, c_ptr, sum_ptr, steps, FORM: tl.constexpr):
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    c, total = tl.zeros((64, 64), tl.float32), tl.zeros((64,), tl.float32)
    for step in tl.range(0, steps, num_stages=3):
        a = tl.load(a_ptr + step * 4096 + m * 64 + n)
        if FORM == "elementwise":
            c += a.to(tl.float32)
        else:
            b = tl.load(b_ptr + step * 4096 + m * 64 + n)
            c = tl.dot(a, b, c, input_precision="ieee" if FORM == "ieee" else None)
            if FORM == "dot and sum":
                total += tl.sum(b.to(tl.float32), 1)
    tl.store(c_ptr + m * 64 + n, c)
    tl.store(sum_ptr + tl.arange(0, 64), total)


def build(form):
    dtype = "*fp32" if form in ("ieee", "elementwise") else "*fp16"
    pointers = {"a_ptr": dtype, "b_ptr": dtype, "c_ptr": "*fp32", "sum_ptr": "*fp32"}
    signature = {**pointers, "steps": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(steps_of, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"swizzled_shared<[^>]*maxPhase = \d+", build(form).asm["ttgir"]))
