"""Gluon: an arrival at an mbarrier that depends on row maxima, and a wait that depends on row sums."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

FORMS = ("free", "pinned", "held")


@gluon.jit
def attend(o_ptr, steps, FORM: gl.constexpr):
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    q_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    v_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(empty, count=1)
    zero = gl.zeros([64, 64], gl.float32, layout)
    o, row_max = zero, gl.full([64], -1e30, gl.float32, gl.SliceLayout(1, layout))
    p = gl.convert_layout(zero.to(gl.float16), operand)
    for _ in range(steps):
        s = warpgroup_mma(q_smem, q_smem.permute((1, 0)), zero, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v_smem, o, is_async=True)
        s = warpgroup_mma_wait(1, deps=[s])
        new_max = gl.maximum(row_max, gl.max(s, 1))
        top = gl.max(new_max, 0)
        if FORM == "pinned":  # always true, but only known after the maxima
            mbarrier.arrive(empty, count=1, pred=top == top)
        else:
            mbarrier.arrive(empty, count=1)
        scores = gl.exp2(s - new_max[:, None])
        if FORM == "held":  # never true, but only known after the sums
            mbarrier.wait(empty, (gl.min(gl.sum(scores, 1), 0) < 0).to(gl.int32))
        o = warpgroup_mma_wait(0, deps=[o])
        o = o * gl.exp2(row_max - new_max)[:, None]
        p, row_max = gl.convert_layout(scores.to(gl.float16), operand), new_max
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(o_ptr + row[:, None] * 64 + column[None, :], o)


def build(form):
    source = GluonASTSource(attend, {"o_ptr": "*fp32", "steps": "i32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        ptx = build(form).asm["ptx"]
        print(form, *re.findall(r"setp\.\w+\.f32|mbarrier\.(?:arrive|try_wait)|wait_group\S+\s+\d", ptx))
