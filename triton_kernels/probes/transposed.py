"""Core Triton: wgmma reads a transposed block of 16-bit elements where it lies. One of 32 bits is copied first."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("32 bits", "16 bits")


@triton.jit
def transposed(a_desc, b_desc, c_ptr, steps):
    c = tl.zeros((64, 64), tl.float32)
    for step in range(steps):
        c = tl.dot(a_desc.load([step * 32, 0]).T, b_desc.load([0, step * 32]).T, c)
    tl.store(c_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], c)


def build(form):
    dtype = "fp" + form.removesuffix(" bits")
    boxes = {"a_desc": f"tensordesc<{dtype}[32,64]>", "b_desc": f"tensordesc<{dtype}[64,32]>"}
    source = ASTSource(transposed, {**boxes, "c_ptr": "*fp32", "steps": "i32"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"ttg\.memdesc_trans|ttg\.local_load|ttg\.local_alloc %", build(form).asm["ttgir"]))
