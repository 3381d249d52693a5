"""Gluon: attention with roles. A TMA producer, wgmma consumers, mbarriers, register counts, P V in flight."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

FORMS = ("64", "128", "waits at once", "no roles")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def produce(q_desc, k_desc, v_desc, q_smem, k_smem, v_smem, full, empty, tiles, KEYS: gl.constexpr):
    """`full` and `empty` have one mbarrier for each of two stages of K and V; the third of `full` is for Q."""
    mbarrier.expect(full.index(2), 64 * 128 * 2)
    load_async(q_desc, [0, 0], full.index(2), q_smem)
    for tile in range(tiles):
        stage, phase = tile % 2, (tile // 2) & 1
        mbarrier.wait(empty.index(stage), phase ^ 1)
        mbarrier.expect(full.index(stage), 2 * KEYS * 128 * 2)
        load_async(k_desc, [tile * KEYS, 0], full.index(stage), k_smem.index(stage))
        load_async(v_desc, [tile * KEYS, 0], full.index(stage), v_smem.index(stage))


@gluon.jit
def consume(o_ptr, q_smem, k_smem, v_smem, full, empty, tiles, KEYS: gl.constexpr, AT_ONCE: gl.constexpr):
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    output: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, output, 2)
    o, zero = gl.zeros([64, 128], gl.float32, output), gl.zeros([64, KEYS], gl.float32, scores)
    row_max = gl.full([64], -1e30, gl.float32, gl.SliceLayout(1, scores))
    p = gl.convert_layout(zero.to(gl.float16), operand)
    mbarrier.wait(full.index(2), 0)
    for tile in range(tiles - 1):
        stage, next_stage = tile % 2, (tile + 1) % 2
        mbarrier.wait(full.index(next_stage), ((tile + 1) // 2) & 1)
        s = warpgroup_mma(q_smem, k_smem.index(next_stage).permute((1, 0)), zero, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v_smem.index(stage), o, is_async=True)
        if AT_ONCE:
            s, o = warpgroup_mma_wait(0, deps=[s, o])
        else:  # P V stays in flight during the softmax
            s = warpgroup_mma_wait(1, deps=[s])
        new_max = gl.maximum(row_max, gl.max(s, 1))
        rescale = gl.exp2(row_max - new_max)
        p = gl.convert_layout(gl.exp2(s - new_max[:, None]).to(gl.float16), operand)
        row_max = new_max
        o = warpgroup_mma_wait(0, deps=[o])
        mbarrier.arrive(empty.index(stage), count=1)
        o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]
    row, column = gl.arange(0, 64, gl.SliceLayout(1, output)), gl.arange(0, 128, gl.SliceLayout(0, output))
    gl.store(o_ptr + row[:, None] * 128 + column[None, :], o)


@gluon.jit
def default(o_ptr):
    pass


@gluon.jit
def attention(q_desc, k_desc, v_desc, o_ptr, tiles, KEYS: gl.constexpr, ROLES: gl.constexpr, AT_ONCE: gl.constexpr):
    q_smem = gl.allocate_shared_memory(gl.float16, [64, 128], q_desc.layout)
    k_smem = gl.allocate_shared_memory(gl.float16, [2, KEYS, 128], k_desc.layout)
    v_smem = gl.allocate_shared_memory(gl.float16, [2, KEYS, 128], v_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=1)
    mbarrier.init(full.index(2), count=1)
    fence_async_shared()
    if ROLES:
        gl.warp_specialize(
            [
                (default, (o_ptr,)),
                (consume, (o_ptr, q_smem, k_smem, v_smem, full, empty, tiles, KEYS, AT_ONCE)),
                (produce, (q_desc, k_desc, v_desc, q_smem, k_smem, v_smem, full, empty, tiles, KEYS)),
            ],
            [4, 1],
            [232, 24],
        )
    else:
        mbarrier.expect(full.index(2), 64 * 128 * 2)
        load_async(q_desc, [0, 0], full.index(2), q_smem)
        consume(o_ptr, q_smem, k_smem, v_smem, full, empty, tiles, KEYS, AT_ONCE)


def build(form):
    keys = 128 if form == "128" else 64
    constants = {"KEYS": keys, "ROLES": form != "no roles", "AT_ONCE": form == "waits at once"}
    layout = gl.NVMMASharedLayout(128, 16, 2)
    boxes = {name: f"tensordesc<fp16[{rows},128],{layout!r}>" for name, rows in
             (("q_desc", 64), ("k_desc", keys), ("v_desc", keys))}  # fmt: skip
    signature = {**boxes, "o_ptr": "*fp32", "tiles": "i32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(attention, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


SHOWN = {
    "ttgir": r"partition\d?\(.*num_warps\(\d\)",
    "ptx": r"wgmma\.wait_group\S+\s+\d+|setmaxnreg\S+\s+\d+|mbarrier\.arrive\S*|wgmma\.mma_async\S* \{[^}\n]*\}, ?\{",
    "sass": r"UTMALDG\S*",
}

if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, "warps", kernel.metadata.num_warps)
        for text, pattern in SHOWN.items():
            print(*dict.fromkeys(re.findall(pattern, kernel.asm[text])), sep="\n")
