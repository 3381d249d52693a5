"""Core Triton: can a tile have 176 keys? Not as one tensor, but as tensors of 128, 32 and 16 in one loop."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("composed", "arange", "zeros", "descriptor")


@triton.jit
def composed(q_ptr, k_ptr, s_ptr, keys):
    """Row sums of Q K^T over 176 keys per iteration: three products, without wasted columns."""
    row, dim = tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    total = tl.zeros((64,), tl.float32)
    for start in tl.range(0, keys, 176):
        wide = tl.dot(q, tl.load(k_ptr + (start + tl.arange(0, 128))[None, :] * 64 + dim[:, None]))
        narrow = tl.dot(q, tl.load(k_ptr + (start + 128 + tl.arange(0, 32))[None, :] * 64 + dim[:, None]))
        rest = tl.dot(q, tl.load(k_ptr + (start + 160 + tl.arange(0, 16))[None, :] * 64 + dim[:, None]))
        total += tl.sum(wide, 1) + tl.sum(narrow, 1) + tl.sum(rest, 1)
    tl.store(s_ptr + row, total)


@triton.jit
def counted(s_ptr):
    tl.store(s_ptr + tl.arange(0, 176), 0.0)


@triton.jit
def zeroed(s_ptr):
    tl.store(s_ptr, tl.sum(tl.zeros((176,), tl.float32)))


@triton.jit
def boxed(k_desc, s_ptr):
    tl.store(s_ptr, tl.sum(tl.sum(k_desc.load([0, 0]).to(tl.float32), 1)))


def build(form):
    pointers = {"q_ptr": "*fp16", "k_ptr": "*fp16", "s_ptr": "*fp32", "keys": "i32"}
    signatures = {
        "composed": (composed, pointers),
        "arange": (counted, {"s_ptr": "*fp32"}),
        "zeros": (zeroed, {"s_ptr": "*fp32"}),
        "descriptor": (boxed, {"k_desc": "tensordesc<fp16[176,64]>", "s_ptr": "*fp32"}),
    }
    source = ASTSource(*signatures[form])
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *sorted(set(re.findall(r"wgmma\S*\.m64n\d+k16", build(form).asm["ptx"]))))
        except Exception as error:
            print(form, f"{type(error).__name__}: {error}")
