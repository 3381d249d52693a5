"""Gluon: roles on sm_120. A producer uses TMA, and consumers use mma.sync."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

FORMS = ("roles", "no roles")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def produce(k_desc, k_smem, full):
    mbarrier.expect(full, 64 * 64 * 2)
    load_async(k_desc, [0, 0], full, k_smem)


@gluon.jit
def consume(s_ptr, k_smem, full):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    mbarrier.wait(full, 0)
    a, b = k_smem.load(gl.DotOperandLayout(0, mma, 2)), k_smem.load(gl.DotOperandLayout(1, mma, 2))
    s = mma_v2(a, b, gl.zeros([64, 64], gl.float32, mma))
    row, column = gl.arange(0, 64, gl.SliceLayout(1, mma)), gl.arange(0, 64, gl.SliceLayout(0, mma))
    gl.store(s_ptr + row[:, None] * 64 + column[None, :], s)


@gluon.jit
def multiply(k_desc, s_ptr, ROLES: gl.constexpr):
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], k_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    if ROLES:
        gl.warp_specialize([(consume, (s_ptr, k_smem, full)), (produce, (k_desc, k_smem, full))], [1], [24])
    else:
        produce(k_desc, k_smem, full)
        consume(s_ptr, k_smem, full)


def build(form):
    box = f"tensordesc<fp16[64,64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    source = GluonASTSource(
        multiply, {"k_desc": box, "s_ptr": "*fp32", "ROLES": "constexpr"}, {"ROLES": form == "roles"}
    )
    return triton.compile(source, target=GPUTarget("cuda", 120, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, "warps", kernel.metadata.num_warps)
        print(*re.findall(r"UTMALDG\S*|HMMA", kernel.asm["sass"]))
