"""Core Triton: the width of a tile that pointers load decides its swizzle, and rows of 16 bytes get none."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("64", "32", "8", "8 cp_async")


@triton.jit
def product(a_ptr, b_ptr, c_ptr, steps, COLUMNS: tl.constexpr):
    m, k, n = tl.arange(0, 64)[:, None], tl.arange(0, 16), tl.arange(0, COLUMNS)[None, :]
    c = tl.zeros((64, COLUMNS), tl.float32)
    for step in tl.range(0, steps):
        a = tl.load(a_ptr + step * 1024 + m * 16 + k[None, :])  # rows of 32 bytes
        c = tl.dot(a, tl.load(b_ptr + (step * 16 + k[:, None]) * COLUMNS + n), c)
    tl.store(c_ptr + m * COLUMNS + n, c)


def build(form):
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "steps": "i32", "COLUMNS": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = ASTSource(product, signature, {"COLUMNS": int(form.split()[0])}, attrs)
    options = {"num_warps": 4, "num_stages": 3 if "cp_async" in form else 1}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        swizzled = r"swizzled_shared<{vec = \d+, perPhase = \d+, maxPhase = \d+"
        print(form, *re.findall(swizzled, kernel.asm["ttgir"]), end=" ")
        print(*sorted(set(re.findall(r"LDSM\S*|LDGSTS\S*", kernel.asm["sass"]))))
