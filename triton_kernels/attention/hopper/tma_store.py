"""O leaves by TMA while the next tile begins: persistent programs in a loop by tl.range with two stages.

Builds on head_by_head; changes the launch and puts a loop around the program. General: any lengths, strides, grouped
heads and head_dim 64, 128 and 256.

Core Triton stores O through a descriptor since the first rung of this ladder, which the compiler turns into stmatrix
and a TMA store. Without a loop over tiles, or in a while loop of Triton up to 3.8, the program waits for that store. In
a tl.range loop with two stages the compiler gives O a buffer of its own and waits before the next store. The programs
take every nth tile; such a loop with a counter compiles too (probe stored_later). `maxnreg` leaves registers for as
many as are launched on a multiprocessor; at head_dim 256 its shared memory holds fewer.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, linear_grid, multiprocessors, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
LAST_ROWS = tl.constexpr(2**15)
"""How many rows of queries are dealt out last, longest tiles first: one to two waves of the blocks of an H200, by how
many of them share a multiprocessor."""

PIECES = tl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""

MATH_WARPS = 12
"""Of a multiprocessor: one block of eight, or three of four."""

REGISTERS = 65536
"""Of a multiprocessor, in 32-bit words."""


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
def _head_by_head(number, heads_total, q_tiles, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr):
    """Returns (batch * heads + head, q_tile) of a tile's number: head after head, the last q_tile of each head first.

    With a causal mask the last heads are taken together, longest tiles first, so that short tiles fill the end.
    """
    batch_head = number // q_tiles
    place = number % q_tiles
    if CAUSAL:
        last_heads = tl.minimum(tl.cdiv(LAST_ROWS // BLOCK_M, q_tiles), heads_total)
        rest = number - (heads_total - last_heads) * q_tiles
        if rest >= 0:
            batch_head = heads_total - last_heads + rest % last_heads
            place = rest // last_heads
    return batch_head, q_tiles - 1 - place


@triton.jit
def tma_store(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, scale, batches, heads, group, seq_q, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = batches * heads
    for number in tl.range(tl.program_id(0), heads_total * q_tiles, tl.num_programs(0), num_stages=2):
        batch_head, q_tile = _head_by_head(number, heads_total, q_tiles, BLOCK_M, CAUSAL)
        batch = batch_head // heads
        head = batch_head % heads
        row = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)

        # load Q: rows that do not exist are zero
        q = q_desc.load([batch, head, q_tile * BLOCK_M, 0]).reshape((BLOCK_M, HEAD_DIM))

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
                o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, full_tiles,
                key_tiles, HEAD_DIM, BLOCK_M, BLOCK_N, True,
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


def programs(tile):
    """How many share a multiprocessor."""
    return max(MATH_WARPS // tile.warps, 1)


def persistent_grid(q, tile):
    """As many programs as the GPU runs at once, but no more than tiles."""
    return (min(*linear_grid(q, tile), multiprocessors(q) * programs(tile)),)


def two_stages(tile):
    """Compile options: each thread gets its share of the registers, a multiple of 8 below 256."""
    share = REGISTERS // (programs(tile) * tile.warps * 32) // 8 * 8
    return options(tile, num_stages=tile.stages) | {"maxnreg": min(share, 255)}


twin = Twin(tma_store, two_stages, persistent_grid)
