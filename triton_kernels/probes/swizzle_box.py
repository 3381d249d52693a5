"""Core Triton: which swizzle does a TMA box get? The width of its rows decides: 128, 64, 32 bytes or none."""

import os
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("64", "32", "16", "8", "8 mma_sync")


@triton.jit
def wide_boxes(q_desc, k_desc, s_ptr, WIDTH: tl.constexpr):
    s = tl.zeros((64, 64), tl.float32)
    for column in tl.static_range(0, 64, WIDTH):
        s = tl.dot(q_desc.load([0, column]), k_desc.load([0, column]).T, s)
    tl.store(s_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], s)


@triton.jit
def rows_of_16_bytes(q_desc, k_desc, s_ptr):
    """A row of 64 elements is eight rows of a three-dimensional box."""
    s = tl.dot(q_desc.load([0, 0, 0]).reshape(64, 64), k_desc.load([0, 0, 0]).reshape(64, 64).T)
    tl.store(s_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], s)


def build(form):
    width, _, instruction = form.partition(" ")
    os.environ["DISABLE_MMA_V3"] = str(int(instruction == "mma_sync"))
    if width == "8":
        signature = {"q_desc": "tensordesc<fp16[64,8,8]>", "k_desc": "tensordesc<fp16[64,8,8]>", "s_ptr": "*fp32"}
        source = ASTSource(rows_of_16_bytes, signature)
    else:
        box = f"tensordesc<fp16[64,{width}]>"
        signature = {"q_desc": box, "k_desc": box, "s_ptr": "*fp32", "WIDTH": "constexpr"}
        source = ASTSource(wide_boxes, signature, {"WIDTH": int(width)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"swizzlingByteWidth = \d+", build(form).asm["ttgir"]))
