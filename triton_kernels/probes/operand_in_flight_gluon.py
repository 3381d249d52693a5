"""Gluon: the next P is converted before the wait for P V, because that wait takes it too."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

FORMS = ("second set", "one set")


@gluon.jit
def attend(o_ptr, steps, SECOND: gl.constexpr):
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    q_smem = gl.allocate_shared_memory(gl.bfloat16, [64, 64], shared)
    v_smem = gl.allocate_shared_memory(gl.bfloat16, [64, 64], shared)
    zero = gl.zeros([64, 64], gl.float32, layout)
    o, scores = zero, zero
    p = gl.convert_layout(zero.to(gl.bfloat16), operand)
    for _ in range(steps):
        s = warpgroup_mma(q_smem, q_smem.permute((1, 0)), zero, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v_smem, o, is_async=True)
        s = warpgroup_mma_wait(1, deps=[s])
        scores = gl.exp2(s)
        if SECOND:  # the next P needs registers beside the one that is being multiplied
            p = gl.convert_layout(scores.to(gl.bfloat16), operand)
            o, p = warpgroup_mma_wait(0, deps=[o, p])
        else:
            o, scores = warpgroup_mma_wait(0, deps=[o, scores])
            p = gl.convert_layout(scores.to(gl.bfloat16), operand)
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(o_ptr + row[:, None] * 64 + column[None, :], o)


def build(form):
    signature = {"o_ptr": "*fp32", "steps": "i32", "SECOND": "constexpr"}
    source = GluonASTSource(attend, signature, {"SECOND": form == "second set"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        order = r"commit_group|wait_group\S+\s+\d|\bex2(?=\.approx)|\bcvt(?=\.rn\.bf16)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
