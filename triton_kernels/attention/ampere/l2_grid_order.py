"""Consecutive programs share K and V: the grid is (query block, head, batch), and the query block runs fastest.

Builds on batched_m_tiles; changes which program computes which block. Data moves as in cp_async_pipeline.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _attend(
    o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
    begin, end, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to both halves of O. MASKED: row i attends only to keys up to last_key[i]."""
    for start in tl.range(begin, end, BLOCK_N):
        # S = Q K^T
        k = tl.load(k_ptrs + start * k_stride_row)
        s = tl.dot(q, tl.trans(k))
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

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
        v_left = tl.load(v_ptrs + start * v_stride_row)
        if HEAD_DIM > 64:
            v_right = tl.load(v_ptrs + start * v_stride_row + HEAD_DIM // 2)
        p = p.to(v_left.dtype)
        o_left = tl.dot(p, v_left, o_left)
        if HEAD_DIM > 64:
            o_right = tl.dot(p, v_right, o_right)
    return o_left, o_right, row_max, row_sum


@triton.jit
def l2_grid_order(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    key = tl.arange(0, BLOCK_N)
    dim = tl.arange(0, HEAD_DIM)
    left = tl.arange(0, HEAD_DIM // 2 if HEAD_DIM > 64 else HEAD_DIM)
    k_ptrs = k_ptr + batch * k_stride_batch + (head // group) * k_stride_head + key[:, None] * k_stride_row + dim
    v_ptrs = v_ptr + batch * v_stride_batch + (head // group) * v_stride_head + key[:, None] * v_stride_row + left

    # load Q
    q = tl.load(q_ptr + batch * q_stride_batch + head * q_stride_head + row[:, None] * q_stride_row + dim)

    o_left = tl.zeros((BLOCK_M, left.shape[0]), tl.float32)
    o_right = o_left
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = row + seq_kv - seq_q
    full_end = seq_kv
    if CAUSAL:
        # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
        first_last_key = tl.program_id(0) * BLOCK_M + seq_kv - seq_q
        full_end = tl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
    o_left, o_right, row_max, row_sum = _attend(
        o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
        0, full_end, HEAD_DIM, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o_left, o_right, row_max, row_sum = _attend(
            o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale_log2, last_key,
            full_end, first_last_key + BLOCK_M, HEAD_DIM, BLOCK_N, True,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o_left = o_left * (1.0 / total)[:, None]
    o_ptrs = o_ptr + batch * o_stride_batch + head * o_stride_head + row[:, None] * o_stride_row + left
    tl.store(o_ptrs, o_left.to(o_ptr.dtype.element_ty))
    if HEAD_DIM > 64:
        o_right = o_right * (1.0 / total)[:, None]
        tl.store(o_ptrs + HEAD_DIM // 2, o_right.to(o_ptr.dtype.element_ty))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + (batch * heads + head) * seq_q + row, lse)


def _grid(q, tile):
    return triton.cdiv(q.shape[2], tile.block_m), q.shape[1], q.shape[0]


twin = Twin(l2_grid_order, lambda tile: options(tile, num_stages=tile.stages + 1), _grid)
