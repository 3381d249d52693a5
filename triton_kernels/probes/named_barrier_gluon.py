"""Gluon: named barriers by inline PTX. From 3.9 on it is a statement, before that it applies to each element."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("elementwise", "inline_asm", "plain")


@gluon.jit
def copy(x_ptr, y_ptr, FORM: gl.constexpr):
    index = gl.arange(0, 256, gl.BlockedLayout([1], [32], [8], [0]))
    x = gl.load(x_ptr + index)
    if FORM == "elementwise":
        asm: gl.constexpr = "bar.arrive 8, 256; bar.sync 9, 256; mov.b32 $0, $1;"
        x = gl.inline_asm_elementwise(asm, "=r,r", [x], dtype=gl.int32, is_pure=False, pack=1)
    elif FORM == "inline_asm":
        gl.inline_asm("bar.arrive 8, 256; bar.sync 9, 256;", "", [], (), is_pure=False)
    gl.store(y_ptr + index, x)


def build(form):
    signature = {"x_ptr": "*i32", "y_ptr": "*i32", "FORM": "constexpr"}
    source = GluonASTSource(copy, signature, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"BAR\.\w+\S* 0x\w+(?:, 0x\w+)?", build(form).asm["sass"]))
        except Exception as error:
            print(form, error)
