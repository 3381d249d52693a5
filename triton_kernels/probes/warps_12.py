"""Core Triton: 12 warps are refused, because a launch needs a power of two."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("8", "12")


@triton.jit
def plain(s_ptr):
    tl.store(s_ptr + tl.arange(0, 256), 0.0)


def build(form):
    source = ASTSource(plain, {"s_ptr": "*fp32"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": int(form)})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print("warps", build(form).metadata.num_warps)
        except Exception as error:
            print(form, error)
