"""Triton 3.6 to 3.8: for a cluster of two blocks the compiler fails on a kernel with two tl.dot.

    python two_dots.py             # needs no GPU

The two products share nothing but A. The pass that divides tensors among the blocks of a cluster does so for one
product and asserts that it has not done so before.
"""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def products(a_ptr, b_ptr, c_ptr, COUNT: tl.constexpr):
    row, column = tl.arange(0, 128), tl.arange(0, 64)
    a = tl.load(a_ptr + row[:, None] * 64 + column)
    for i in tl.static_range(COUNT):
        b = tl.load(b_ptr + i * 4096 + column[:, None] * 64 + column)
        tl.store(c_ptr + i * 8192 + row[:, None] * 64 + column, tl.dot(a, b).to(tl.float16))


def build(count):
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16"), "COUNT": "constexpr"}
    source = ASTSource(products, signature, {"COUNT": count}, {(i,): [["tt.divisibility", 16]] for i in range(3)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_ctas": 2})


if __name__ == "__main__":
    print(f"Triton {triton.__version__}, num_ctas=2", flush=True)
    for count in (1, 2):
        build(count)
        print(f"{count} tl.dot: compiles", flush=True)
