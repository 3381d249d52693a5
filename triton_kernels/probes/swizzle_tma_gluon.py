"""Gluon: the layout of the descriptor sets the swizzle of a TMA load. ldmatrix reads each of them."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

FORMS = ("128", "64", "32")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def square(a_desc, c_ptr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    a_smem = gl.allocate_shared_memory(gl.float16, [64, 64], a_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, 64 * 64 * 2)
    load_async(a_desc, [0, 0], full, a_smem)
    mbarrier.wait(full, 0)
    a, b = a_smem.load(gl.DotOperandLayout(0, mma, 2)), a_smem.load(gl.DotOperandLayout(1, mma, 2))
    c = mma_v2(a, b, gl.zeros([64, 64], gl.float32, mma))
    at = gl.arange(0, 64, gl.SliceLayout(1, mma))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, mma))[None, :]
    gl.store(c_ptr + at, c)


def build(form):
    layout = gl.NVMMASharedLayout(int(form), 16, 2)
    source = GluonASTSource(square, {"a_desc": f"tensordesc<fp16[64,64],{layout!r}>", "c_ptr": "*fp32"}, {})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *dict.fromkeys(re.findall(r"swizzlingByteWidth = \d+", build(form).asm["ttgir"])))
