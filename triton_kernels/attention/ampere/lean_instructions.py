"""Only the instructions that attention needs: keys walked backwards, constant strides, short addresses, split row sums.

Builds on general_shapes; changes what an iteration executes. General: any lengths, strides, grouped heads and
head_dim 64, 128 and 256.

Tiles cut by the diagonal or by the end of the sequence come first, in a loop of their own, so the other loop has no
mask. Row strides of packed storage are compile-time constants; other strides take the general build. K and V are
addressed by 32-bit offsets inside one head, computed in each iteration, because tensors of pointers would fill the
registers. A row sum is kept as PIECES partial sums until the epilogue: with as many pieces as an mma fragment has
columns, summing needs no shuffles. O is rescaled in every iteration: the branch around the rescale, which separates the
waits for K and V, is gone, so with one buffer the program waits for both together.
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
    o_left, o_right, row_max, row_sum, q, k_ptr, v_ptr, k_stride_row, v_stride_row, scale_log2, last_key,
    seq_kv, begin_tile, end_tile, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Adds key tiles end_tile - 1 down to begin_tile to both halves of O.

    CAUSAL: row i attends only to keys up to last_key[i]. RAGGED: keys from seq_kv on do not exist; the last key is read
    in their place, and they are masked.
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

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
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
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
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
    # Tiles in which every row attends to all keys need no mask.
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
    """Makes the row strides of packed storage compile-time constants."""
    head_dim, heads = arguments["HEAD_DIM"], arguments["heads"]
    packed_rows = {"q": heads, "k": heads // arguments["group"], "v": heads // arguments["group"], "o": heads}
    fixed = {}
    for name, heads_in_row in packed_rows.items():
        stride = arguments[f"{name}_stride_row"]
        if stride in (head_dim, head_dim * heads_in_row):
            fixed[f"{name}_stride_row"] = tl.constexpr(stride)
    return {**arguments, **fixed}


twin = Twin(lean_instructions, lambda tile: options(tile, num_stages=tile.stages + 1), linear_grid, _refine)
