"""Core Triton: a scalar thread index from inline PTX, and an if on it, make a real branch. Not safe to run."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("branch", "masked")


@triton.jit
def roles(x_ptr, y_ptr, FORM: tl.constexpr):
    index, scalar = tl.arange(0, 128), tl.program_id(0)
    if FORM == "branch":  # a scalar, which the compiler takes to be equal in all threads
        asm: tl.constexpr = "mov.u32 $0, %tid.x; // $1"
        thread = tl.inline_asm_elementwise(asm, "=r,r", [scalar], dtype=tl.int32, is_pure=False, pack=1)
        if thread < 32:
            tl.store(y_ptr + index, tl.load(x_ptr + index))
        else:
            tl.store(y_ptr + index, index)
    else:  # an index for each element: both sides run, under masks
        asm: tl.constexpr = "mov.u32 $0, %tid.x; // $1"
        thread = tl.inline_asm_elementwise(asm, "=r,r", [index], dtype=tl.int32, is_pure=True, pack=1)
        tl.store(y_ptr + index, tl.load(x_ptr + index, mask=thread < 32, other=0), mask=thread >= 32)


def build(form):
    source = ASTSource(roles, {"x_ptr": "*i32", "y_ptr": "*i32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"%tid\.x|@%p\d+ bra|ld\.global\S*|st\.global\S*", build(form).asm["ptx"]))
