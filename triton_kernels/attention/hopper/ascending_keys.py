"""Behind the diagonal keys ascend: programs that begin at about the same time read the same K and V.

Builds on flagship; changes the order of the key tiles that need no mask. General: any lengths, strides, grouped heads
and head_dim 64, 128 and 256.

With a causal mask each tile of queries begins at its diagonal, and in flagship it goes down from there: two programs of
one head that begin together are at different keys all the time. Here each goes from its diagonal to key 0 and up, so
that L2 can deliver one tile to several programs at once. Without a mask all tiles go down from the same key in flagship
already, and nothing is gained.
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

LAST_ROWS = tl.constexpr(2**15)
"""How many rows of queries are dealt out last, longest tiles first: one to two waves of the blocks of an H200, by how
many of them share a multiprocessor."""

PIECES = tl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""


@triton.jit
def _attend(
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, last_key, tile,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, INTEGERS: tl.constexpr,
):  # fmt: skip
    """Adds a key tile to O. MASKED: row i attends only to keys up to last_key[i]. INTEGERS: no row_max is negative."""
    start = tile * BLOCK_N

    # S = Q K^T
    k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
    s = tl.dot(q, tl.trans(k))
    if MASKED:
        key = start + tl.arange(0, BLOCK_N)
        s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

    # online softmax in base 2: row_max and the exponents are scaled by log2(e)
    largest = tl.max(s.to(tl.int32, bitcast=True), 1).to(tl.float32, bitcast=True) if INTEGERS else tl.max(s, 1)
    new_max = tl.maximum(row_max, largest * scale_log2)
    rescale = tl.math.exp2(row_max - new_max)
    p = tl.math.exp2(s * scale_log2 - new_max[:, None])
    pieces = tl.sum(p.reshape((BLOCK_M, BLOCK_N // PIECES, PIECES)), 1)
    row_sum = row_sum * rescale[:, None] + pieces

    # O += P V
    o = o * rescale[:, None]
    v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
    o = tl.dot(p.to(v.dtype), v, o)
    return o, new_max, row_sum


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
def _sections(number, heads_total, q_tiles, seq_kv, HEAD_DIM: tl.constexpr):
    """Returns (batch * heads + head, q_tile) of a tile's number: longest first, in sections of heads."""
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
    first = number // (section_heads * q_tiles) * section_heads
    count = tl.minimum(section_heads, heads_total - first)
    rest = number - first * q_tiles
    return first + rest % count, q_tiles - 1 - rest // count


@triton.jit
def ascending_keys(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, scale, heads, group, seq_q, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
    HEAD_BY_HEAD: tl.constexpr, INTEGERS: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = tl.num_programs(0) // q_tiles
    if HEAD_BY_HEAD:
        batch_head, q_tile = _head_by_head(tl.program_id(0), heads_total, q_tiles, BLOCK_M, CAUSAL)
    else:
        batch_head, q_tile = _sections(tl.program_id(0), heads_total, q_tiles, seq_kv, HEAD_DIM)
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
    if INTEGERS:
        left = key_tiles
        # Masked tiles, and further ones until no row maximum is negative.
        while (left > full_tiles) | ((left > 0) & (tl.min(row_max, 0) < 0)):
            left -= 1
            o, row_max, row_sum = _attend(
                o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, left,
                HEAD_DIM, BLOCK_M, BLOCK_N, CAUSAL or not EVEN_N, False,
            )  # fmt: skip
    else:
        left = full_tiles
        if CAUSAL or not EVEN_N:
            for step in tl.range(0, key_tiles - left):
                o, row_max, row_sum = _attend(
                    o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key,
                    key_tiles - 1 - step, HEAD_DIM, BLOCK_M, BLOCK_N, True, False,
                )  # fmt: skip
    for step in tl.range(0, left):
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, step,
            HEAD_DIM, BLOCK_M, BLOCK_N, False, INTEGERS,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    row_sum = tl.sum(row_sum, 1)
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_desc.store([batch, head, q_tile * BLOCK_M, 0], o.to(o_desc.dtype).reshape((1, 1, BLOCK_M, HEAD_DIM)))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


def paying(arguments):
    """Adds the techniques that pay for these arguments. A sequence below 2048 keys is short."""
    head_dim, causal, short = arguments["HEAD_DIM"], arguments["CAUSAL"], arguments["seq_kv"] < 2048
    in_sections = head_dim == 256 and not short if causal else head_dim == 64 and short
    return arguments | {"HEAD_BY_HEAD": not in_sections, "INTEGERS": head_dim == 64 and not (causal and short)}


twin = Twin(ascending_keys, lambda tile: options(tile, num_stages=tile.stages), linear_grid, paying)
