"""Warps share query rows: S is computed transposed, which makes Triton arrange the warps in a grid of rows and columns.

Builds on direct_rescale; changes S = Q K^T into the transpose of K Q^T, with O in one piece.

Core Triton has no option for the arrangement of warps. Triton 3.6 lays all warps along one dimension if one product
feeds the other directly. It does not recognize the chain through a transposition, and then takes a roughly square grid:
of 8 warps at 64x64, S has 4 along its rows and 2 along the keys, as in the CUDA twin, and O has 2 along the rows and 4
along the columns. With wgmma, each of two warpgroups computes all of S. Warps that share rows exchange row maxima and
row sums through shared memory, in code that the compiler generates, and P crosses it on its way to the second product.
K and V move as in wmma.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""


@triton.jit
def _attend(
    o, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, begin, end,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to (o, row_max, row_sum). MASKED: row i attends only to keys up to last_key[i]."""
    for start in tl.range(begin, end, BLOCK_N):
        # S = Q K^T
        k = tl.load(k_ptrs + start * k_stride_row)
        s = tl.trans(tl.dot(k, tl.trans(q))) * scale
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax: the new row maximum first, then one exponential and no second multiply
        new_max = tl.maximum(row_max, tl.max(s, 1))
        rescale = tl.exp(row_max - new_max)
        p = tl.exp(s - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = tl.load(v_ptrs + start * v_stride_row)
        o = tl.dot(p.to(v.dtype), v, o)
    return o, row_max, row_sum


@triton.jit
def split_warp_pairs(
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
    k_ptrs = k_ptr + batch * k_stride_batch + (head // group) * k_stride_head + key[:, None] * k_stride_row + dim
    v_ptrs = v_ptr + batch * v_stride_batch + (head // group) * v_stride_head + key[:, None] * v_stride_row + dim

    # load Q
    q = tl.load(q_ptr + batch * q_stride_batch + head * q_stride_head + row[:, None] * q_stride_row + dim)

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    last_key = row + seq_kv - seq_q
    full_end = seq_kv
    if CAUSAL:
        # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
        first_last_key = tl.program_id(1) * BLOCK_M + seq_kv - seq_q
        full_end = tl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
    o, row_max, row_sum = _attend(
        o, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, 0, full_end,
        BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, full_end,
            first_last_key + BLOCK_M, BLOCK_N, True,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_ptrs = o_ptr + batch * o_stride_batch + head * o_stride_head + row[:, None] * o_stride_row + dim
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty))
    lse = tl.where(row_sum == 0, float("-inf"), row_max + tl.log(total))
    tl.store(lse_ptr + tl.program_id(0).to(tl.int64) * seq_q + row, lse)


twin = Twin(split_warp_pairs, lambda tile: options(tile, num_stages=1))
