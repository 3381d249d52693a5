"""Core Triton: tl.multiple_of and tl.max_contiguous set how many bytes a lane loads at once."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("aligned", "unaligned", "multiple_of", "max_contiguous")


@triton.jit
def copy(x_ptr, y_ptr, FORM: tl.constexpr):
    index = tl.arange(0, 1024)
    if FORM == "max_contiguous":  # promises runs of two elements alone
        index = tl.max_contiguous(index, 2)
    at = x_ptr + index
    if FORM == "multiple_of":  # promises pointers that are multiples of 16
        at = tl.multiple_of(at, 16)
    tl.store(y_ptr + tl.arange(0, 1024), tl.load(at))


def build(form):
    aligned = form in ("aligned", "max_contiguous")
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(0 if aligned else 1, 2)}
    source = ASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "FORM": "constexpr"}, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"LDG\S*", build(form).asm["sass"]))))
