"""Nothing but what attention needs: keys walked backwards, constant strides, short addresses, a row sum in pieces.

Builds on general_shapes; changes what a step executes; with one buffer K and V are awaited together. General: any
lengths, strides, grouped heads and head_dim 64, 128 and 256.

Tiles that the diagonal or the end of the sequence cuts come first, in a loop of their own; the other loop tests
nothing. Row strides of packed storage are compile-time constants, other strides take the general build. K and V are
addressed by 32-bit offsets inside one head, formed in the step: pointers to them would fill the registers. The sum of a
row stays in PIECES until the epilogue: summed into as many columns as a fragment of the mma has, it needs no shuffles.
O is rescaled in every step: the branch of the rungs before, which parts the waits of one buffer, is left out.
"""

import triton
import triton.language as tl

from triton_kernels.specialization import Twin, linear_grid, options

LOWEST = tl.constexpr(-3.0e38)
"""Start of the running row max: finite, so that a row that sees no key yet never computes -inf minus -inf."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""K and V of the heads that run side by side: well inside the 40 to 60 MB of L2 of an A100, H100 or H200."""

PIECES = tl.constexpr(8)
"""Partial sums of a row: the columns of an mma fragment, two to a lane."""


@triton.jit
def _attend(
    o_left, o_right, row_max, row_sum, q, k_ptr, v_ptr, k_stride_row, v_stride_row, scale_log2, last_key,
    seq_kv, begin_tile, end_tile, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Key tiles end_tile - 1 down to begin_tile into both halves of O.

    CAUSAL: row i sees only the keys up to last_key[i]. RAGGED: keys from seq_kv on do not exist; the last one
    is read in their place.
    """
    dim = tl.arange(0, HEAD_DIM)
    left = tl.arange(0, HEAD_DIM // 2 if HEAD_DIM > 64 else HEAD_DIM)
    for step in tl.range(0, end_tile - begin_tile):
        key = (end_tile - 1 - step) * BLOCK_N + tl.arange(0, BLOCK_N)
        kv_row = tl.minimum(key, seq_kv - 1) if RAGGED else key

        # S = Q K^T
        k = tl.load(k_ptr + (kv_row[:, None] * k_stride_row + dim))
        s = tl.dot(q, tl.trans(k))
        if CAUSAL:
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
        if RAGGED:
            s = tl.where((key < seq_kv)[None, :], s, float("-inf"))

        # online softmax: row_max and the exponents count in powers of two
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        pieces = tl.sum(p.reshape((BLOCK_M, BLOCK_N // PIECES, PIECES)), 1)
        row_sum = row_sum * rescale[:, None] + pieces
        row_max = new_max

        # O += P V
        o_left = o_left * rescale[:, None]
        v_left = tl.load(v_ptr + (kv_row[:, None] * v_stride_row + left))
        if HEAD_DIM > 64:
            o_right = o_right * rescale[:, None]
            v_right = tl.load(v_ptr + (kv_row[:, None] * v_stride_row + left + HEAD_DIM // 2))
        p = p.to(v_left.dtype)
        o_left = tl.dot(p, v_left, o_left)
        if HEAD_DIM > 64:
            o_right = tl.dot(p, v_right, o_right)
    return o_left, o_right, row_max, row_sum


@triton.jit
def lean_instructions(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = tl.num_programs(0) // q_tiles
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 do not interpret maximum here
    first = tl.program_id(0) // (section_heads * q_tiles) * section_heads
    count = tl.minimum(section_heads, heads_total - first)
    rest = tl.program_id(0) - first * q_tiles
    q_tile = q_tiles - 1 - rest // count
    batch_head = (first + rest % count).to(tl.int64)
    batch = batch_head // heads
    head = batch_head % heads
    row = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)
    left = tl.arange(0, HEAD_DIM // 2 if HEAD_DIM > 64 else HEAD_DIM)
    k_ptr += batch * k_stride_batch + (head // group) * k_stride_head
    v_ptr += batch * v_stride_batch + (head // group) * v_stride_head

    # load Q
    q_ptr += batch * q_stride_batch + head * q_stride_head
    q_row = row if EVEN_M else tl.minimum(row, seq_q - 1)
    q = tl.load(q_ptr + (q_row[:, None] * q_stride_row + dim))

    o_left = tl.zeros((BLOCK_M, left.shape[0]), tl.float32)
    o_right = o_left
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M, PIECES), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = row + seq_kv - seq_q
    # Tiles that every row sees whole need no mask.
    full_tiles = seq_kv // BLOCK_N
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    if CAUSAL:
        first_last_key = q_tile * BLOCK_M + seq_kv - seq_q
        full_tiles = tl.maximum(first_last_key + 1, 0) // BLOCK_N
        key_tiles = tl.cdiv(tl.minimum(tl.maximum(first_last_key + BLOCK_M, 0), seq_kv), BLOCK_N)
    if CAUSAL or not EVEN_N:
        o_left, o_right, row_max, row_sum = _attend(
            o_left, o_right, row_max, row_sum, q, k_ptr, v_ptr, k_stride_row, v_stride_row, scale_log2, last_key,
            seq_kv, full_tiles, key_tiles, HEAD_DIM, BLOCK_M, BLOCK_N, CAUSAL, not EVEN_N,
        )  # fmt: skip
    o_left, o_right, row_max, row_sum = _attend(
        o_left, o_right, row_max, row_sum, q, k_ptr, v_ptr, k_stride_row, v_stride_row, scale_log2, last_key,
        seq_kv, 0, full_tiles, HEAD_DIM, BLOCK_M, BLOCK_N, False, False,
    )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    row_sum = tl.sum(row_sum, 1)
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o_left = o_left * (1.0 / total)[:, None]
    o_ptr += batch * o_stride_batch + head * o_stride_head
    o_ptrs = o_ptr + (row[:, None] * o_stride_row + left)
    exists = row < seq_q
    o_exists = None if EVEN_M else exists[:, None]
    tl.store(o_ptrs, o_left.to(o_ptr.dtype.element_ty), o_exists)
    if HEAD_DIM > 64:
        o_right = o_right * (1.0 / total)[:, None]
        tl.store(o_ptrs + HEAD_DIM // 2, o_right.to(o_ptr.dtype.element_ty), o_exists)
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head * seq_q + row, lse, None if EVEN_M else exists)


def _refine(arguments):
    """Fixes the row strides of packed storage."""
    head_dim, heads = arguments["HEAD_DIM"], arguments["heads"]
    packed_rows = {"q": heads, "k": heads // arguments["group"], "v": heads // arguments["group"], "o": heads}
    fixed = {}
    for name, heads_in_row in packed_rows.items():
        stride = arguments[f"{name}_stride_row"]
        if stride in (head_dim, head_dim * heads_in_row):
            fixed[f"{name}_stride_row"] = tl.constexpr(stride)
    return {**arguments, **fixed}


twin = Twin(lean_instructions, lambda tile: options(tile, num_stages=tile.stages + 1), linear_grid, _refine)
