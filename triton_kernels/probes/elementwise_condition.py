"""Core Triton: an if in tl.map_elementwise becomes a choice between two results if its body is one multiplication."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("elementwise", "plain")


@triton.jit
def rescaled(x, rescale):
    if rescale != 1.0:
        x = x * rescale
    return x


@triton.jit
def rescale_rows(x_ptr, rescale_ptr, y_ptr, ELEMENTWISE: tl.constexpr):
    row, column = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + row * 64 + column)
    rescale = tl.broadcast_to(tl.load(rescale_ptr + row), (64, 64))
    x = tl.map_elementwise(rescaled, x, rescale) if ELEMENTWISE else x * rescale
    tl.store(y_ptr + row * 64 + column, x)


def build(form):
    signature = {**dict.fromkeys(("x_ptr", "rescale_ptr", "y_ptr"), "*fp32"), "ELEMENTWISE": "constexpr"}
    source = ASTSource(rescale_rows, signature, {"ELEMENTWISE": form == "elementwise"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"@%p\d+ bra|selp\S*|mul\.\S*f32", build(form).asm["ptx"]))))
