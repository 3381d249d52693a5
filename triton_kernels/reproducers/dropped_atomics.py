"""Triton 3.6 to 3.9, sm_90: a loop with warp_specialize=True loses its atomic additions and the products they add.

    python dropped_atomics.py      # needs no GPU

The compiler prints no message, and the kernel launches: the memory that it should have added to stays as it was.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a_ptr, b_ptr, c_ptr, rows, ROLES: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [rows, 64], [64, 1], [64, 64])
    b_desc = tl.make_tensor_descriptor(b_ptr, [64, 64], [64, 1], [64, 64])
    b = b_desc.load([0, 0])
    for first in tl.range(0, rows, 64, warp_specialize=ROLES):
        c = tl.dot(a_desc.load([first, 0]), b)
        at = (first + tl.arange(0, 64))[:, None] * 64 + tl.arange(0, 64)
        tl.atomic_add(c_ptr + at, c)


def build(roles):
    signature = {**dict.fromkeys(("a_ptr", "b_ptr"), "*fp16"), "c_ptr": "*fp32", "rows": "i32", "ROLES": "constexpr"}
    source = ASTSource(product, signature, {"ROLES": roles}, {(i,): [["tt.divisibility", 16]] for i in range(4)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for roles in (False, True):
        kernel = build(roles)
        found = [len(re.findall(rf"\b{what}\.", kernel.asm["ptx"])) for what in ("wgmma.mma_async", "(?:atom|red)")]
        print(
            f"warp_specialize={roles}: {kernel.metadata.num_warps} warps, {found[0]} wgmma, {found[1]} atomic additions"
        )
