"""Gluon: the width of a wgmma is an argument, a power of two. A width of 96 aborts the compiler."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

FORMS = ("64 of 128", "128 of 128", "256 of 256", "mma_sync", "176 of 176", "96 of 128")


@gluon.jit
def product(c_ptr, WIDTH: gl.constexpr, COLUMNS: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    tile: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    a_smem = gl.allocate_shared_memory(gl.float16, [64, 64], tile)
    b_smem = gl.allocate_shared_memory(gl.float16, [64, COLUMNS], tile)
    c = warpgroup_mma(a_smem, b_smem, gl.zeros([64, COLUMNS], gl.float32, layout))
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    gl.store(c_ptr + row[:, None] * COLUMNS + column[None, :], c)


@gluon.jit
def by_mma_sync(c_ptr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    a = gl.full([64, 16], 1.0, gl.float16, gl.DotOperandLayout(0, layout, 2))
    b = gl.full([16, 64], 1.0, gl.float16, gl.DotOperandLayout(1, layout, 2))
    c = gl.nvidia.ampere.mma_v2(a, b, gl.zeros([64, 64], gl.float32, layout))
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(c_ptr + row[:, None] * 64 + column[None, :], c)


def build(form):
    if form == "mma_sync":
        source = GluonASTSource(by_mma_sync, {"c_ptr": "*fp32"})
    else:
        width, columns = map(int, form.split(" of "))
        signature = {"c_ptr": "*fp32", "WIDTH": "constexpr", "COLUMNS": "constexpr"}
        source = GluonASTSource(product, signature, {"WIDTH": width, "COLUMNS": columns})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *sorted(set(re.findall(r"m\d+n\d+k16", build(form).asm["ptx"]))), flush=True)
        except Exception as error:
            print(form, error, flush=True)
