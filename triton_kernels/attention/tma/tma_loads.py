"""K and V arrive by the tensor memory accelerator: one instruction loads a tile and completes on an mbarrier.

Builds on ampere/exp2_softmax; changes the loads of K and V from pointers to tensor descriptors, with V, and therefore
O, in one piece, because one instruction copies a whole tile. With fewer rows than head_dim, P then crosses shared
memory, as in wmma.

K and V go global -> shared memory into tile.stages buffers each. Every buffer has its own mbarrier, on which all warps
wait, so V may still be arriving during Q K^T. There is no empty barrier: a barrier of the whole block frees a buffer
before one thread refills it. The host makes the descriptors: made in the kernel, they would cost every program
workspace memory and a fence. Q is loaded once, through pointers.
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
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, last_key, begin, end,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to (o, row_max, row_sum). MASKED: row i attends only to keys up to last_key[i]."""
    for start in tl.range(begin, end, BLOCK_N):
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
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        o = tl.dot(p.to(v.dtype), v, o)
    return o, row_max, row_sum


@triton.jit
def tma_loads(
    q_ptr, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)

    # load Q
    q_ptr += batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
    q = tl.load(q_ptr + row[:, None] * q_stride_row + dim)

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = row + seq_kv - seq_q
    full_end = seq_kv
    if CAUSAL:
        # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
        first_last_key = tl.program_id(1) * BLOCK_M + seq_kv - seq_q
        full_end = tl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
    o, row_max, row_sum = _attend(
        o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, 0, full_end,
        HEAD_DIM, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, full_end,
            first_last_key + BLOCK_M, HEAD_DIM, BLOCK_N, True,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_ptr += batch.to(tl.int64) * o_stride_batch + head.to(tl.int64) * o_stride_head
    tl.store(o_ptr + row[:, None] * o_stride_row + dim, o.to(o_ptr.dtype.element_ty))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + tl.program_id(0).to(tl.int64) * seq_q + row, lse)


twin = Twin(tma_loads, lambda tile: options(tile, num_stages=tile.stages + 1))
