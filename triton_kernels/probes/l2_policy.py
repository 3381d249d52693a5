"""Core Triton: tl.load takes an eviction policy; a load from a descriptor does not."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("pointer", "pointer plain", "descriptor", "descriptor plain")


@triton.jit
def by_pointer(x_ptr, y_ptr, POLICY: tl.constexpr):
    index = tl.arange(0, 1024)
    tl.store(y_ptr + index, tl.load(x_ptr + index, eviction_policy=POLICY))


@triton.jit
def by_descriptor(x_desc, y_ptr, POLICY: tl.constexpr):
    if POLICY == "evict_last":  # noqa: SIM108
        x = x_desc.load([0, 0], eviction_policy="evict_last")
    else:
        x = x_desc.load([0, 0])
    tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], x)


def build(form):
    policy = {"POLICY": "" if form.endswith("plain") else "evict_last"}
    if form.startswith("pointer"):
        source = ASTSource(by_pointer, {"x_ptr": "*fp32", "y_ptr": "*fp32", "POLICY": "constexpr"}, policy)
    else:
        signature = {"x_desc": "tensordesc<fp16[64,64]>", "y_ptr": "*fp16", "POLICY": "constexpr"}
        source = ASTSource(by_descriptor, signature, policy)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"createpolicy\S*|L2::cache_hint", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
