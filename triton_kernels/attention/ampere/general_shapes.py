"""Any lengths and any strides: rows past the end of a sequence are read as zeros, masked, and not written.

Builds on longest_first; changes how a tile may be cut: by the end of a sequence, not only by the diagonal. General: any
lengths, strides, grouped heads and head_dim 64, 128 and 256.

EVEN_M and EVEN_N are constants of the program: whether the tile divides seq_q and seq_kv. If it does, the program
contains no test for ragged tiles and costs what longest_first does. If it does not, the tiles cut by the end of the
keys are handled in the second loop, with those cut by the diagonal. Triton specializes on each stride by itself; the
kernel assumes nothing about them.
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


@triton.jit
def _load(ptrs, exists, RAGGED: tl.constexpr):
    """Loads a tile. RAGGED: rows past the end of the sequence are read as zeros."""
    return tl.load(ptrs, exists[:, None], 0.0) if RAGGED else tl.load(ptrs)


@triton.jit
def _attend(
    o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
    seq_kv, begin, end, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to both halves of O.

    CAUSAL: row i attends only to keys up to last_key[i]. RAGGED: keys from seq_kv on do not exist and are masked.
    """
    for start in tl.range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        exists = key < seq_kv

        # S = Q K^T
        k = _load(k_ptrs + start * k_stride_row, exists, RAGGED)
        s = tl.dot(q, tl.trans(k))
        if CAUSAL:
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
        if RAGGED:
            s = tl.where(exists[None, :], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        if start > 0:
            o_left = o_left * rescale[:, None]
            if HEAD_DIM > 64:
                o_right = o_right * rescale[:, None]
        v_left = _load(v_ptrs + start * v_stride_row, exists, RAGGED)
        if HEAD_DIM > 64:
            v_right = _load(v_ptrs + start * v_stride_row + HEAD_DIM // 2, exists, RAGGED)
        p = p.to(v_left.dtype)
        o_left = tl.dot(p, v_left, o_left)
        if HEAD_DIM > 64:
            o_right = tl.dot(p, v_right, o_right)
    return o_left, o_right, row_max, row_sum


@triton.jit
def general_shapes(
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
    key = tl.arange(0, BLOCK_N)
    dim = tl.arange(0, HEAD_DIM)
    left = tl.arange(0, HEAD_DIM // 2 if HEAD_DIM > 64 else HEAD_DIM)
    k_ptrs = k_ptr + batch * k_stride_batch + (head // group) * k_stride_head + key[:, None] * k_stride_row + dim
    v_ptrs = v_ptr + batch * v_stride_batch + (head // group) * v_stride_head + key[:, None] * v_stride_row + left

    # load Q
    row_exists = row < seq_q
    q_ptrs = q_ptr + batch * q_stride_batch + head * q_stride_head + row[:, None] * q_stride_row + dim
    q = _load(q_ptrs, row_exists, not EVEN_M)

    o_left = tl.zeros((BLOCK_M, left.shape[0]), tl.float32)
    o_right = o_left
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = row + seq_kv - seq_q
    # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
    full_end = seq_kv // BLOCK_N * BLOCK_N
    end = seq_kv
    if CAUSAL:
        first_last_key = q_tile * BLOCK_M + seq_kv - seq_q
        full_end = tl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
        end = tl.minimum(first_last_key + BLOCK_M, seq_kv)
    o_left, o_right, row_max, row_sum = _attend(
        o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
        seq_kv, 0, full_end, HEAD_DIM, BLOCK_N, False, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        o_left, o_right, row_max, row_sum = _attend(
            o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
            seq_kv, full_end, end, HEAD_DIM, BLOCK_N, CAUSAL, not EVEN_N,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o_left = o_left * (1.0 / total)[:, None]
    o_ptrs = o_ptr + batch * o_stride_batch + head * o_stride_head + row[:, None] * o_stride_row + left
    o_exists = None if EVEN_M else row_exists[:, None]
    tl.store(o_ptrs, o_left.to(o_ptr.dtype.element_ty), o_exists)
    if HEAD_DIM > 64:
        o_right = o_right * (1.0 / total)[:, None]
        tl.store(o_ptrs + HEAD_DIM // 2, o_right.to(o_ptr.dtype.element_ty), o_exists)
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head * seq_q + row, lse, None if EVEN_M else row_exists)


twin = Twin(general_shapes, lambda tile: options(tile, num_stages=tile.stages + 1), linear_grid)
