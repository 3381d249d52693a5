"""Gluon: an attention loop in a cluster of two blocks. Layouts say which block holds which rows."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

FORMS = ("two", "one")


@gluon.jit
def attend(
    o_ptr, steps, ROWS: gl.constexpr, SPLIT: gl.constexpr, BOTH: gl.constexpr, MMA: gl.constexpr, LINES: gl.constexpr
):
    operand: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    at = gl.arange(0, 64, gl.SliceLayout(1, LINES))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, LINES))[None, :]
    q_smem = gl.allocate_shared_memory(gl.float16, [ROWS, 64], SPLIT)
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], BOTH)
    zero = gl.zeros([ROWS, 64], gl.float32, MMA)
    o, row_max = zero, gl.full([ROWS], -1e30, gl.float32, gl.SliceLayout(1, MMA))
    for step in range(steps):
        k_smem.store(gl.load(o_ptr + step * 4096 + at).to(gl.float16))
        s = warpgroup_mma(q_smem, k_smem.permute((1, 0)), zero, use_acc=False)
        new_max = gl.maximum(row_max, gl.max(s, 1))
        p = gl.convert_layout(gl.exp2(s - new_max[:, None]).to(gl.float16), operand)
        o = warpgroup_mma(p, k_smem, o * gl.exp2(row_max - new_max)[:, None])
        row_max = new_max
    row, column = gl.arange(0, ROWS, gl.SliceLayout(1, MMA)), gl.arange(0, 64, gl.SliceLayout(0, MMA))
    gl.store(o_ptr + row[:, None] * 64 + column[None, :], o)


def build(form):
    two = form == "two"
    by_row, both = ({"cga_layout": [[1, 0]]}, {"cga_layout": [[0, 0]]}) if two else ({}, {})
    constants = {
        "ROWS": 128 if two else 64,
        "SPLIT": gl.NVMMASharedLayout(128, 16, 2, **by_row),
        "BOTH": gl.NVMMASharedLayout(128, 16, 2, **both),
        "MMA": gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], **by_row),
        "LINES": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], **both),
    }
    signature = {"o_ptr": "*fp32", "steps": "i32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(attend, signature, constants)
    options = {"num_warps": 4, "num_ctas": 2 if two else 1}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"%cluster_ctarank|\.reqnctapercluster \d+", build(form).asm["ptx"]))
