"""Gluon: three warpgroups that multiply, and a producer: 16 warps, with one function for each group."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

FORMS = ("three", "one")


@gluon.jit
def multiply(GROUP: gl.constexpr, q_smem, k_smem, s_ptr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    s = warpgroup_mma(q_smem.index(GROUP), k_smem.permute((1, 0)), gl.zeros([64, 64], gl.float32, layout))
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(s_ptr + GROUP * 4096 + row[:, None] * 64 + column[None, :], s)


@gluon.jit
def first(q_smem, k_smem, s_ptr):
    multiply(0, q_smem, k_smem, s_ptr)


@gluon.jit
def second(q_smem, k_smem, s_ptr):
    multiply(1, q_smem, k_smem, s_ptr)


@gluon.jit
def third(q_smem, k_smem, s_ptr):
    multiply(2, q_smem, k_smem, s_ptr)


@gluon.jit
def produce(q_smem, k_smem, s_ptr):
    pass


@gluon.jit
def roles(s_ptr, THREE: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    q_smem = gl.allocate_shared_memory(gl.float16, [3, 64, 64], layout)
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], layout)
    if THREE:
        gl.warp_specialize(
            [
                (first, (q_smem, k_smem, s_ptr)),
                (second, (q_smem, k_smem, s_ptr)),
                (third, (q_smem, k_smem, s_ptr)),
                (produce, (q_smem, k_smem, s_ptr)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )
    else:
        first(q_smem, k_smem, s_ptr)


def build(form):
    source = GluonASTSource(roles, {"s_ptr": "*fp32", "THREE": "constexpr"}, {"THREE": form == "three"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, "warps", kernel.metadata.num_warps, *re.findall(r"USETMAXREG\S*", kernel.asm["sass"]))
