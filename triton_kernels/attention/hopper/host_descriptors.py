"""Roles with only one descriptor made by the kernel, that of Q: room for a second stage of K and V at head_dim 256.

Builds on producer_consumer; changes the descriptors and the store of O. General: any lengths, strides, grouped heads
and head_dim 64, 128 and 256.

A descriptor made by the kernel is written to memory and fenced in every program. The compiler also makes roles if those
of K and V come from the host, and if O has none and is stored through pointers; Q's must be the kernel's own. O then
needs no shared memory of its own. At head_dim 256 with tiles of 128x64 that is 64 KB, the size of a second stage of K
and V, which does not fit in producer_consumer.

The mask compares the same range of columns in every iteration with the last key of each row, counted from the tile.
As in producer_consumer the first row is made by way of 64 bits, and barriers that nobody uses lie where K is loaded:
beside other processes O may be wrong.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import DESCRIPTORS_BYTES, Twin, linear_grid, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""


@triton.jit
def host_descriptors(
    q_ptr, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
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
    row = (q_tile.to(tl.int64) * BLOCK_M).to(tl.int32) + tl.arange(0, BLOCK_M)  # no descriptor's coordinate

    # load Q: rows that do not exist are zero
    q_ptr += batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
    o_ptr += batch.to(tl.int64) * o_stride_batch + head.to(tl.int64) * o_stride_head
    q_desc = tl.make_tensor_descriptor(q_ptr, [seq_q, HEAD_DIM], [q_stride_row, 1], [BLOCK_M, HEAD_DIM])
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
    for step in tl.range(0, key_tiles, warp_specialize=True):
        start = (key_tiles - 1 - step) * BLOCK_N

        # S = Q K^T
        k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))
        if CAUSAL or not EVEN_N:
            limit = last_key - start
            s = tl.where(tl.arange(0, BLOCK_N)[None, :] <= limit[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        o = tl.dot(p.to(v.dtype), v, o)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_ptrs = o_ptr + row.to(tl.int64)[:, None] * o_stride_row + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), row[:, None] < seq_q)
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


def _options(tile):
    return {**options(tile, num_stages=tile.stages), "num_warps": max(tile.warps // 2, 4)}


def _refine(arguments):
    rows = {f"{name}_stride_row": arguments[f"{name}_stride_row"] or arguments["HEAD_DIM"] for name in "qo"}
    return {**arguments, **rows}


def _descriptors_bytes(problem):
    return DESCRIPTORS_BYTES * triton.cdiv(problem.seq_q, 128) * problem.heads * problem.batch


twin = Twin(host_descriptors, _options, linear_grid, _refine, _descriptors_bytes)
