"""Gluon: 176 keys per iteration as tensors of 128, 32 and 16, each with a wgmma of its own width."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma

FORMS = ("composed",)
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def row_sums(q_smem, k_smem, KEYS: gl.constexpr, rows: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    s = warpgroup_mma(q_smem, k_smem.permute((1, 0)), gl.zeros([64, KEYS], gl.float32, layout), use_acc=False)
    return gl.convert_layout(gl.sum(s, 1), rows)


@gluon.jit
def composed(q_desc, wide_desc, narrow_desc, rest_desc, s_ptr, keys):
    """Row sums of Q K^T over 176 keys per iteration: three products, without wasted columns."""
    rows: gl.constexpr = gl.SliceLayout(1, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))
    q = gl.allocate_shared_memory(gl.float16, [64, 64], q_desc.layout)
    wide = gl.allocate_shared_memory(gl.float16, [128, 64], wide_desc.layout)
    narrow = gl.allocate_shared_memory(gl.float16, [32, 64], narrow_desc.layout)
    rest = gl.allocate_shared_memory(gl.float16, [16, 64], rest_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, 64 * 64 * 2)
    load_async(q_desc, [0, 0], full, q)
    mbarrier.wait(full, 0)
    phase = 1
    total = gl.zeros([64], gl.float32, rows)
    for start in range(0, keys, 176):
        mbarrier.expect(full, 176 * 64 * 2)
        load_async(wide_desc, [start, 0], full, wide)
        load_async(narrow_desc, [start + 128, 0], full, narrow)
        load_async(rest_desc, [start + 160, 0], full, rest)
        mbarrier.wait(full, phase)
        phase ^= 1
        total += row_sums(q, wide, 128, rows) + row_sums(q, narrow, 32, rows) + row_sums(q, rest, 16, rows)
    gl.store(s_ptr + gl.arange(0, 64, rows), total)


def build(form):
    layout = gl.NVMMASharedLayout(128, 16, 2)
    boxes = {"q_desc": 64, "wide_desc": 128, "narrow_desc": 32, "rest_desc": 16}
    signature = {name: f"tensordesc<fp16[{rows},64],{layout!r}>" for name, rows in boxes.items()}
    source = GluonASTSource(composed, {**signature, "s_ptr": "*fp32", "keys": "i32"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"wgmma\S*\.m64n\d+k16", build(form).asm["ptx"]))))
