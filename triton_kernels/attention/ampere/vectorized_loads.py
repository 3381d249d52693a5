"""16-byte accesses to global memory: the compiler may assume that pointers and strides are multiples of 16.

Builds on scalar; changes only the decorator. The compiler uses the widest access that contiguity and divisibility
allow, and the launcher reads both off the arguments: 16 bytes per thread for Q, K, V and O. Data moves as in scalar.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

CHUNK = tl.constexpr(32)
"""Columns of Q and K per chunk of Q K^T. With the whole head_dim at once, Q stays in registers: thousands of bytes
spill."""


@triton.jit
def _attend(
    o, row_max, row_sum, q_ptrs, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, begin, end,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to (o, row_max, row_sum). MASKED: row i attends only to keys up to last_key[i]."""
    for start in tl.range(begin, end, BLOCK_N):
        # S = Q K^T
        s = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for chunk in tl.range(0, HEAD_DIM, CHUNK):
            q = tl.load(q_ptrs + chunk).to(tl.float32)
            k = tl.load(k_ptrs + start * k_stride_row + chunk).to(tl.float32)
            s = tl.dot(q, tl.trans(k), s, input_precision="ieee")
        s = s * scale
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
        o = o * rescale[:, None]
        v = tl.load(v_ptrs + start * v_stride_row).to(tl.float32)
        o = tl.dot(p, v, o, input_precision="ieee")
    return o, row_max, row_sum


@triton.jit
def vectorized_loads(
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
    chunk = tl.arange(0, CHUNK)
    k_ptrs = k_ptr + batch * k_stride_batch + (head // group) * k_stride_head + key[:, None] * k_stride_row + chunk
    v_ptrs = v_ptr + batch * v_stride_batch + (head // group) * v_stride_head + key[:, None] * v_stride_row + dim

    # load Q: in chunks, inside the loop
    q_ptrs = q_ptr + batch * q_stride_batch + head * q_stride_head + row[:, None] * q_stride_row + chunk

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
        o, row_max, row_sum, q_ptrs, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, 0, full_end,
        HEAD_DIM, BLOCK_M, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q_ptrs, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key, full_end,
            first_last_key + BLOCK_M, HEAD_DIM, BLOCK_M, BLOCK_N, True,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_ptrs = o_ptr + batch * o_stride_batch + head * o_stride_head + row[:, None] * o_stride_row + dim
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty))
    lse = tl.where(row_sum == 0, float("-inf"), row_max + tl.log(total))
    tl.store(lse_ptr + tl.program_id(0).to(tl.int64) * seq_q + row, lse)


twin = Twin(vectorized_loads, lambda tile: options(tile, num_stages=1))
