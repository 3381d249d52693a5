"""Core Triton's roles with any number of stages: inline PTX invalidates the barriers that nobody uses.

Builds on hopper/producer_consumer, core Triton's twin; adds one call before its loop. This is an escape hatch and no
rung's twin, because the language has no name for these barriers, nor for the memory in which they lie.

For each stage the compiler makes an mbarrier that no warp waits for, and gives it the memory in which K's first stage
begins. Its other barriers have memory of their own. PTX asks for mbarrier.inval before the memory of a barrier holds
anything else; the compiler leaves it out. Without it O is NaN from three stages on, and with two while other processes
use the GPU. Here the first thread of the block, which is the producer's, invalidates them after they were made and
before K is loaded. Their addresses are an assumption about the compiler, which a test holds (test_hatches.py).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import triton
import triton.language as tl

from triton_kernels.attention import specialization
from triton_kernels.attention.specialization import DESCRIPTORS_BYTES, linear_grid, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""

INVALIDATE = tl.constexpr("""{
.reg .pred first;
.reg .b32 thread, barrier;
mov.u32 thread, %tid.x;
setp.eq.u32 first, thread, 0;
mov.b32 barrier, global_smem;
add.s32 barrier, barrier, $2;
@first mbarrier.inval.shared::cta.b64 [barrier];
mov.b32 $0, $1;
}""")
"""Invalidates the barrier that is $2 bytes after the start of the block's shared memory; passes $1 on."""


@triton.jit
def _invalidate_unused(number, STAGES: tl.constexpr):
    """Returns `number`, which must be used after this: so the loop that it bounds starts after this."""
    for stage in tl.static_range(STAGES):
        number = tl.inline_asm_elementwise(INVALIDATE, "=r,r,r", [number, stage * 8], tl.int32, is_pure=False, pack=1)
    return number


@triton.jit
def producer_consumer(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = tl.num_programs(0) // q_tiles
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
    first = tl.program_id(0) // (section_heads * q_tiles) * section_heads
    count = tl.minimum(section_heads, heads_total - first)
    rest = tl.program_id(0) - first * q_tiles
    q_tile = q_tiles - 1 - rest // count
    batch_head = first + rest % count
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // group
    row = (q_tile.to(tl.int64) * BLOCK_M).to(tl.int32) + tl.arange(0, BLOCK_M)  # no descriptor's coordinate: see above

    # load Q: rows that do not exist are zero
    q_ptr += batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
    k_ptr += batch.to(tl.int64) * k_stride_batch + kv_head.to(tl.int64) * k_stride_head
    v_ptr += batch.to(tl.int64) * v_stride_batch + kv_head.to(tl.int64) * v_stride_head
    o_ptr += batch.to(tl.int64) * o_stride_batch + head.to(tl.int64) * o_stride_head
    q_desc = tl.make_tensor_descriptor(q_ptr, [seq_q, HEAD_DIM], [q_stride_row, 1], [BLOCK_M, HEAD_DIM])
    k_desc = tl.make_tensor_descriptor(k_ptr, [seq_kv, HEAD_DIM], [k_stride_row, 1], [BLOCK_N, HEAD_DIM])
    v_desc = tl.make_tensor_descriptor(v_ptr, [seq_kv, HEAD_DIM], [v_stride_row, 1], [BLOCK_N, HEAD_DIM])
    o_desc = tl.make_tensor_descriptor(o_ptr, [seq_q, HEAD_DIM], [o_stride_row, 1], [BLOCK_M, HEAD_DIM])
    q = q_desc.load([q_tile * BLOCK_M, 0])

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    if CAUSAL:
        last_key = tl.minimum(row + seq_kv - seq_q, last_key)
        end = tl.minimum(tl.maximum(q_tile * BLOCK_M + seq_kv - seq_q + BLOCK_M, 0), seq_kv)
        key_tiles = tl.cdiv(end, BLOCK_N)
    key_tiles = _invalidate_unused(key_tiles, STAGES)
    for step in tl.range(0, key_tiles, warp_specialize=True):
        start = (key_tiles - 1 - step) * BLOCK_N

        # S = Q K^T
        k = k_desc.load([start, 0])
        s = tl.dot(q, tl.trans(k))
        if CAUSAL or not EVEN_N:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = v_desc.load([start, 0])
        o = tl.dot(p.to(v.dtype), v, o)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_desc.store([q_tile * BLOCK_M, 0], o.to(o_desc.dtype))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


def _options(tile):
    return {**options(tile, num_stages=tile.stages), "num_warps": max(tile.warps // 2, 4)}


def _refine(arguments, stages):
    rows = {f"{name}_stride_row": arguments[f"{name}_stride_row"] or arguments["HEAD_DIM"] for name in "qkvo"}
    return {**arguments, **rows, "STAGES": stages}


def _descriptors_bytes(problem):
    return DESCRIPTORS_BYTES * triton.cdiv(problem.seq_q, 128) * problem.heads * problem.batch


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` whose kernel takes STAGES."""

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> specialization.Specialization:
        return self.at(tile).specialize(problem, strides, tile, arch)

    def launch(self, *tensors: Any, tile: Any, **rest: Any) -> Any:
        return self.at(tile).launch(*tensors, tile=tile, **rest)

    def at(self, tile: Any) -> specialization.Twin:
        """Returns the plain twin for one tile."""
        refine = partial(_refine, stages=tile.stages)
        return specialization.Twin(self.kernel, self.options, self.grid, refine, self.descriptors_bytes)


twin = Twin(producer_consumer, _options, linear_grid, descriptors_bytes=_descriptors_bytes)
