"""Core Triton: two tiles in the same bytes of shared memory. The compiler does it if one is no longer read."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("one", "one after the other", "together")


@triton.jit
def multiply(x_ptr, y_ptr, steps, FORM: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    if FORM == "together":  # the tiles of the next iteration arrive beside those of this one
        z = tl.zeros((64, 64), tl.float32)
        for step in tl.range(0, steps):
            z = tl.dot(tl.load(x_ptr + step * 8192 + at), tl.load(x_ptr + step * 8192 + 4096 + at), z)
        tl.store(y_ptr + at, z)
    else:
        tl.store(y_ptr + at, tl.dot(tl.load(x_ptr + at), tl.load(x_ptr + 4096 + at)))
        if FORM == "one after the other":
            tl.debug_barrier()
            tl.store(y_ptr + 4096 + at, tl.dot(tl.load(x_ptr + 8192 + at), tl.load(x_ptr + 12288 + at)))


def build(form):
    signature = {"x_ptr": "*fp16", "y_ptr": "*fp32", "steps": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(2)}
    source = ASTSource(multiply, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        print(form, "shared", build(form).metadata.shared)
