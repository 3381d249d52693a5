"""Persistent programs: as many as the GPU runs at once; each takes tile after tile from a counter, longest first.

Builds on overlapped_softmax; changes the launch and puts a loop around the program. General: any lengths, strides,
grouped heads and head_dim 64, 128 and 256.

Tiles are numbered in the order of the parent's launch. A program's first tile is its own number; the others come from
an atomic counter in the workspace. One number is taken for every tile, and the program that takes the last resets the
counter to zero. The launch assumes 8 math warps per multiprocessor. The next tile's Q, K and V are not loaded during
the end of this one: the compiler fills and drains the pipeline of the inner loop for each tile. (With
`tl.range(flatten=True)`, and as many steps in every tile, it loads the next tile's K and V ahead; so it does in one
loop by hand over the steps of all tiles. The probe tiles_flat has both. With roles a producer loads it: lasting_roles.)
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, options, persistent_grid

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

HIGHEST = tl.constexpr(3.0e38)
"""No score is larger."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""

PIECES = tl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""


@triton.jit
def _attend_masked(
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, last_key, begin_tile, end_tile,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Adds key tiles end_tile - 1 down to begin_tile to O, unpipelined. Row i attends only to keys up to last_key[i].

    num_stages is 1: with a product in flight where the two loops meet, ptxas would serialize every wgmma.
    """
    for step in tl.range(0, end_tile - begin_tile, num_stages=1):
        start = (end_tile - 1 - step) * BLOCK_N

        # S = Q K^T
        k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))
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
def _attend(
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, tiles,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Adds key tiles `tiles - 1` down to 0 to O, at least one, all of them unmasked."""
    # S = Q K^T of the first tile.
    # The minimum with HIGHEST changes no score. Without it the loop would keep the buffer of this K occupied.
    k = k_desc.load([batch, kv_head, (tiles - 1) * BLOCK_N, 0]).reshape((BLOCK_N, HEAD_DIM))
    s = tl.minimum(tl.dot(q, tl.trans(k)), HIGHEST, propagate_nan=tl.PropagateNan.ALL)
    first_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
    rescale = tl.math.exp2(row_max - first_max)
    row_sum = row_sum * rescale[:, None]
    row_max = first_max
    o = o * rescale[:, None]
    # While all scores of a row are -inf, the next are relative to 0, and may be lower: relative to LOWEST they would
    # lose their digits.
    floor = tl.where(row_max > LOWEST, 0.0, LOWEST)
    row_max = tl.where(row_max > LOWEST, row_max, 0.0)
    # The loop carries P as int16: if it carried bf16, the product would read P from shared memory.
    p_bits = tl.zeros((BLOCK_M, BLOCK_N), tl.int16)
    for step in tl.range(0, tiles):
        tile = tiles - 1 - step

        # O += P V of the previous tile; in the first iteration P is zero
        v = v_desc.load([batch, kv_head, tl.minimum(tile + 1, tiles - 1) * BLOCK_N, 0]).reshape((BLOCK_N, HEAD_DIM))
        o = tl.dot(p_bits.to(v.dtype, bitcast=True), v, o)

        # S = Q K^T of the next tile; before it, this tile's scores move to `above`, relative to the maximum so far
        above = s * scale_log2 - row_max[:, None]
        k = k_desc.load([batch, kv_head, tl.maximum(tile - 1, 0) * BLOCK_N, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        rise = tl.maximum(tl.max(above, 1), floor)
        rescale = tl.math.exp2(tl.minimum(-rise, 0.0))
        p = tl.math.exp2(above - rise[:, None])
        pieces = tl.sum(p.reshape((BLOCK_M, BLOCK_N // PIECES, PIECES)), 1)
        row_sum = row_sum * rescale[:, None] + pieces
        row_max += tl.where(rise > LOWEST, rise, 0.0)
        floor = tl.where(rise > LOWEST, 0.0, floor)
        o = o * rescale[:, None]
        p_bits = p.to(v.dtype).to(tl.int16, bitcast=True)
    v = v_desc.load([batch, kv_head, 0, 0]).reshape((BLOCK_N, HEAD_DIM))
    o = tl.dot(p_bits.to(v.dtype, bitcast=True), v, o)
    return o, row_max, row_sum


@triton.jit
def persistent(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, counter, scale, batches, heads, group, seq_q, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = batches * heads
    numbers = heads_total * q_tiles
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
    scale_log2 = scale * LOG2_E

    number = tl.program_id(0)
    while number < numbers:
        first = number // (section_heads * q_tiles) * section_heads
        count = tl.minimum(section_heads, heads_total - first)
        rest = number - first * q_tiles
        q_tile = q_tiles - 1 - rest // count
        batch_head = first + rest % count
        batch = batch_head // heads
        head = batch_head % heads
        row = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)

        # load Q: rows that do not exist are zero
        q = q_desc.load([batch, head, q_tile * BLOCK_M, 0]).reshape((BLOCK_M, HEAD_DIM))

        o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
        row_sum = tl.zeros((BLOCK_M, PIECES), tl.float32)
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
            o, row_max, row_sum = _attend_masked(
                o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, full_tiles,
                key_tiles, HEAD_DIM, BLOCK_M, BLOCK_N,
            )  # fmt: skip
        if full_tiles > 0:
            o, row_max, row_sum = _attend(
                o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, full_tiles,
                HEAD_DIM, BLOCK_M, BLOCK_N,
            )  # fmt: skip

        # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
        total = tl.sum(row_sum, 1)
        divisor = tl.where(total == 0, 1.0, total)
        o = o * (1.0 / divisor)[:, None]
        o_desc.store([batch, head, q_tile * BLOCK_M, 0], o.to(o_desc.dtype).reshape((1, 1, BLOCK_M, HEAD_DIM)))
        lse = tl.where(total == 0, float("-inf"), (row_max + tl.math.log2(divisor)) * LN_2)
        tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)

        taken = tl.atomic_add(counter, 1, sem="relaxed")
        if taken == numbers - 1:
            tl.store(counter, 0)
        number = taken + tl.num_programs(0)


twin = Twin(persistent, lambda tile: options(tile, num_stages=tile.stages), persistent_grid)
