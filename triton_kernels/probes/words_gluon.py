"""Gluon: 16-byte loads, a condition for a block, an order of blocks, exp2, and a sum of products."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("plain", "narrow", "exp2", "exp", "condition", "order", "scalar")


@gluon.jit
def say(x_ptr, y_ptr, scale, WORD: gl.constexpr, EACH: gl.constexpr):
    index = gl.arange(0, 1024, gl.BlockedLayout([EACH], [32], [4], [0]))
    if WORD == "order":  # the last block first
        block = gl.num_programs(0) - 1 - gl.program_id(0)
        gl.store(y_ptr + block * 1024 + index, gl.load(x_ptr + block * 1024 + index))
    else:
        x = gl.load(x_ptr + index)
        if WORD == "exp2":
            x = gl.exp2(x * scale - 1.0)
        elif WORD == "exp":
            x = gl.exp(x * scale - 1.0)
        elif WORD == "condition":  # noqa: SIM102
            if gl.max(x, 0) > scale:  # one scalar for the whole block
                x = x * scale
        gl.store(y_ptr + index, x)


@gluon.jit
def multiply_scalars(x_ptr, y_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4, 1], [1, 2, 16], [4, 1, 1], [2, 1, 0])
    m = gl.arange(0, 16, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None][:, :, None]
    k = gl.arange(0, 16, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :][:, :, None]
    n = gl.arange(0, 16, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, :][:, None, :]
    c = gl.sum(gl.load(x_ptr + m * 16 + k) * gl.load(x_ptr + k * 16 + n), 1)
    row = gl.arange(0, 16, gl.SliceLayout(1, gl.SliceLayout(1, layout)))[:, None]
    column = gl.arange(0, 16, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, :]
    gl.store(y_ptr + row * 16 + column, c)


def build(form):
    if form == "scalar":
        source = GluonASTSource(multiply_scalars, {"x_ptr": "*fp32", "y_ptr": "*fp32"})
    else:
        signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "scale": "fp32", "WORD": "constexpr", "EACH": "constexpr"}
        constants = {"WORD": form, "EACH": 1 if form == "narrow" else 4}
        source = GluonASTSource(say, signature, constants, {(i,): [["tt.divisibility", 16]] for i in range(2)})
    options = {"num_warps": 4, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *sorted(set(re.findall(r"%nctaid\.x|@%p\d+ bra", kernel.asm["ptx"]))), end=" ")
        print(*sorted(set(re.findall(r"\b(?:FFMA|FMUL|MUFU\.EX2|LDG\.E\.128)", kernel.asm["sass"]))))
