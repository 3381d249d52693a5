"""Core Triton: which instruction does tl.dot become on sm_90? The number of warps decides, or DISABLE_MMA_V3."""

import os
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("native", "mma_sync", "two warps", "ieee")


@triton.jit
def product(a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr):
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    a, b = tl.load(a_ptr + m * 64 + n), tl.load(b_ptr + m * 64 + n)
    if PRECISION == "ieee":
        a, b = a.to(tl.float32), b.to(tl.float32)
    tl.store(c_ptr + m * 64 + n, tl.dot(a, b, input_precision="ieee"))


def build(form):
    os.environ["DISABLE_MMA_V3"] = str(int(form == "mma_sync"))
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "PRECISION": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = ASTSource(product, signature, {"PRECISION": form}, attrs)
    return triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2 if form == "two warps" else 4}
    )


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"\b(?:HGMMA|HMMA|FFMA)\S*", build(form).asm["sass"]))))
