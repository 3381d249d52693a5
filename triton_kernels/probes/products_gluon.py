"""Gluon: where products are issued and waited for. O is rescaled between two; two are in flight at a tile's end."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

FORMS = ("late", "early", "fused")


@gluon.jit
def softmax(s, row_max, operand: gl.constexpr):
    new_max = gl.maximum(row_max, gl.max(s, 1))
    p = gl.convert_layout(gl.exp2(s - new_max[:, None]).to(gl.float16), operand)
    return p, gl.exp2(row_max - new_max), new_max


@gluon.jit
def attend(o_ptr, steps, tiles, FORM: gl.constexpr):
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    q_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared).permute((1, 0))
    v_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    zero = gl.zeros([64, 64], gl.float32, layout)
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    s = warpgroup_mma(q_smem, k_smem, zero, use_acc=False)
    for tile in range(tiles):
        o, row_max = zero, gl.full([64], -1e30, gl.float32, gl.SliceLayout(1, layout))
        p, rescale, row_max = softmax(s, row_max, operand)
        for _ in range(steps):
            s = warpgroup_mma(q_smem, k_smem, zero, use_acc=False, is_async=True)
            if FORM == "early":  # while Q K^T is in flight, before P V is issued
                o = o * rescale[:, None]
            o = warpgroup_mma(p, v_smem, o, is_async=True)
            s = warpgroup_mma_wait(1, deps=[s])
            p, rescale, row_max = softmax(s, row_max, operand)
            o = warpgroup_mma_wait(0, deps=[o])
            if FORM != "early":
                o = o * rescale[:, None]
        if FORM == "fused":  # the next tile's first product and this tile's last are in flight together
            s = warpgroup_mma(q_smem, k_smem, zero, use_acc=False, is_async=True)
            o = warpgroup_mma(p, v_smem, o, is_async=True)
            s = warpgroup_mma_wait(1, deps=[s])
            o = warpgroup_mma_wait(0, deps=[o])
        else:
            o = warpgroup_mma(p, v_smem, o)
            s = warpgroup_mma(q_smem, k_smem, zero, use_acc=False)
        gl.store(o_ptr + tile * 4096 + row[:, None] * 64 + column[None, :], o)


def build(form):
    signature = {"o_ptr": "*fp32", "steps": "i32", "tiles": "i32", "FORM": "constexpr"}
    source = GluonASTSource(attend, signature, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        order = r"commit_group|wait_group\S+\s+\d|\bex2(?=\.approx)|\bmul(?=\.\S*f32)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
