"""Gluon: a barrier in a function of gl.warp_specialize is a barrier of that function's warps alone."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("barrier", "plain")
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # its name in 3.6


@gluon.jit
def copy(x_ptr, y_ptr, BARRIER: gl.constexpr):
    index = gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))
    x = gl.load(x_ptr + index)
    if BARRIER:
        barrier()
    gl.store(y_ptr + index, x)


@gluon.jit
def copy_other(x_ptr, y_ptr, BARRIER: gl.constexpr):
    copy(x_ptr + 128, y_ptr + 128, BARRIER)


@gluon.jit
def roles(x_ptr, y_ptr, BARRIER: gl.constexpr):
    gl.warp_specialize([(copy, (x_ptr, y_ptr, BARRIER)), (copy_other, (x_ptr, y_ptr, BARRIER))], [4], [64])


def build(form):
    pointers = {"x_ptr": "*fp32", "y_ptr": "*fp32"}
    source = GluonASTSource(roles, {**pointers, "BARRIER": "constexpr"}, {"BARRIER": form == "barrier"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"bar\.sync\s+\d+, \d+", build(form).asm["ptx"]))
