"""Scores never leave registers: O and V are split into two halves of head_dim, so each warp owns whole rows of S and O.

Builds on mma_ldmatrix; at head_dim 128 changes O += P V from one product into two, over the left and the right columns
of V.

Core Triton does not let the source place the scores; the shapes of the products decide. For mma.sync, Triton 3.6 lays
out the warps of two chained products along the rows only if the second product has at least as many rows as columns.
With 64 rows and head_dim 128, one whole O would put the warps along the columns, and row maxima, row sums and P would
cross shared memory, as in wmma. Two halves of 64 columns keep the warps along the rows: each warp reduces its own rows
by shuffles, and the fragments of S become those of P. One product keeps scores in registers as well at head_dim 64
(where `left` is all of O), with more rows, or with wgmma. Otherwise data moves as in wmma.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""


@triton.jit
def _attend(
    o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
    begin, end, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to both halves of O. MASKED: row i attends only to keys up to last_key[i]."""
    for start in tl.range(begin, end, BLOCK_N):
        # S = Q K^T
        k = tl.load(k_ptrs + start * k_stride_row)
        s = tl.dot(q, tl.trans(k)) * scale
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax: relative to the tile's own maximum first, then a second multiply
        tile_max = tl.maximum(tl.max(s, 1), LOWEST)
        p = tl.exp(s - tile_max[:, None])
        new_max = tl.maximum(row_max, tile_max)
        rescale = tl.exp(row_max - new_max)
        p = p * tl.exp(tile_max - new_max)[:, None]
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        o_left = o_left * rescale[:, None]
        v_left = tl.load(v_ptrs + start * v_stride_row)
        if HEAD_DIM > 64:
            o_right = o_right * rescale[:, None]
            v_right = tl.load(v_ptrs + start * v_stride_row + HEAD_DIM // 2)
        p = p.to(v_left.dtype)
        o_left = tl.dot(p, v_left, o_left)
        if HEAD_DIM > 64:
            o_right = tl.dot(p, v_right, o_right)
    return o_left, o_right, row_max, row_sum


@triton.jit
def register_softmax(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // heads).to(tl.int64)
    head = (tl.program_id(0) % heads).to(tl.int64)
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
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
    last_key = row + seq_kv - seq_q
    full_end = seq_kv
    if CAUSAL:
        # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
        first_last_key = tl.program_id(1) * BLOCK_M + seq_kv - seq_q
        full_end = tl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
    o_left, o_right, row_max, row_sum = _attend(
        o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
        0, full_end, HEAD_DIM, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o_left, o_right, row_max, row_sum = _attend(
            o_left, o_right, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
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
    lse = tl.where(row_sum == 0, float("-inf"), row_max + tl.log(total))
    tl.store(lse_ptr + tl.program_id(0).to(tl.int64) * seq_q + row, lse)


twin = Twin(register_softmax, lambda tile: options(tile, num_stages=1))
