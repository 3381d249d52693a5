"""K and V arrive by TMA in rings of buffers: the loads of mbarrier_ring in the lean kernel.

Builds on ampere/lean_instructions; changes the loads of K and V and the store of O from pointers to tensor descriptors,
with V, and therefore O, in one piece. General: any lengths, strides, grouped heads and head_dim 64, 128 and 256.

The compiler makes the rings: num_stages sets the number of buffers; each buffer has an mbarrier that is waited for when
it is read, and is freed by a barrier of the whole block. Core Triton cannot request two blocks per multiprocessor
either: how many fit follows from num_warps, num_stages and the registers that ptxas uses. With 4 warps and at most
113 KB of buffers two blocks fit, at 255 registers per thread; with 8 warps they would need `maxnreg`, which limits
every warp alike, to 128. Descriptors bound K, V and O in the sequence: a ragged tile reads zeros and writes nothing
past the end. Q is loaded through pointers, as in tma_loads.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, linear_grid, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""

PIECES = tl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""


@triton.jit
def _attend(
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, last_key, begin_tile, end_tile,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds key tiles end_tile - 1 down to begin_tile to O. MASKED: row i attends only to keys up to last_key[i]."""
    for step in tl.range(0, end_tile - begin_tile):
        start = (end_tile - 1 - step) * BLOCK_N

        # S = Q K^T
        k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        pieces = tl.sum(p.reshape((BLOCK_M, BLOCK_N // PIECES, PIECES)), 1)
        row_sum = row_sum * rescale[:, None] + pieces
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        o = tl.dot(p.to(v.dtype), v, o)
    return o, row_max, row_sum


@triton.jit
def lean_mbarrier_ring(
    q_ptr, k_desc, v_desc, o_desc, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row,
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
    row = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)

    # load Q: the last row is read in place of rows that do not exist
    q_ptr += batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
    q = tl.load(q_ptr + (tl.minimum(row, seq_q - 1)[:, None] * q_stride_row + dim))

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M, PIECES), tl.float32)
    scale_log2 = scale * LOG2_E
    # Tiles in which every row attends to all keys need no mask.
    last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
    full_tiles = seq_kv // BLOCK_N
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    if CAUSAL:
        last_key = tl.minimum(row + seq_kv - seq_q, last_key)
        first_last_key = q_tile * BLOCK_M + seq_kv - seq_q
        full_tiles = tl.maximum(first_last_key + 1, 0) // BLOCK_N
        key_tiles = tl.cdiv(tl.minimum(tl.maximum(first_last_key + BLOCK_M, 0), seq_kv), BLOCK_N)
    if CAUSAL or not EVEN_N:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, full_tiles, key_tiles,
            HEAD_DIM, BLOCK_M, BLOCK_N, True,
        )  # fmt: skip
    o, row_max, row_sum = _attend(
        o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, 0, full_tiles,
        HEAD_DIM, BLOCK_M, BLOCK_N, False,
    )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    row_sum = tl.sum(row_sum, 1)
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_desc.store([batch, head, q_tile * BLOCK_M, 0], o.to(o_desc.dtype).reshape((1, 1, BLOCK_M, HEAD_DIM)))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


twin = Twin(lean_mbarrier_ring, lambda tile: options(tile, num_stages=tile.stages + 1), linear_grid)
