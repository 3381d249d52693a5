"""Every run gives the same bits: here dQ is summed in a kernel of its own, by whoever has the queries.

Builds on transposed_scores; the CUDA kernel orders the additions of its blocks instead. Core Triton can wait for a
counter, but not for a bulk reduction to have written: its compiler waits until the tile was read. So no program could
say that its additions are done.

Seven products for five, as in two_kernels, by wgmma and TMA. General: any lengths, strides that are multiples of 16
bytes; heads that share K and V are summed in the loop.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward.specialization import Twin

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def deterministic(
    q_desc, k_desc, v_desc, do_desc, dk_ptr, dv_ptr, dots, lse_log2, scale, heads, heads_kv, group,
    seq_q, seq_kv, scratch_rows, dk_stride_batch, dk_stride_head, dk_stride_row,
    dv_stride_batch, dv_stride_head, dv_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    batch_head = tl.program_id(0) // key_tiles
    batch = batch_head // heads_kv
    head_kv = batch_head % heads_kv
    kv_start = tl.program_id(0) % key_tiles * BLOCK_N
    key = kv_start + tl.arange(0, BLOCK_N)
    k = k_desc.load([batch, head_kv, kv_start, 0]).reshape((BLOCK_N, HEAD_DIM))
    v = v_desc.load([batch, head_kv, kv_start, 0]).reshape((BLOCK_N, HEAD_DIM))

    scale_log2 = scale * LOG2_E
    dim = tl.arange(0, HEAD_DIM)
    dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(kv_start + seq_q - seq_kv, 0) // BLOCK_M * BLOCK_M
    for head in tl.range(head_kv * group, (head_kv + 1) * group):
        numbers = (batch.to(tl.int64) * heads + head) * scratch_rows
        for start in tl.range(first, seq_q, BLOCK_M):
            row = start + tl.arange(0, BLOCK_M)

            # S^T = K Q^T, dP^T = V dO^T
            q = q_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
            s = tl.dot(k, tl.trans(q))
            do = do_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
            dp = tl.dot(v, tl.trans(do))

            # P = exp2(S - LSE), dS = P (dP - D): 0 where the mask hides a key, or none exists
            p = tl.math.exp2(s * scale_log2 - tl.load(lse_log2 + numbers + row)[None, :])
            if CAUSAL:
                p = tl.where(key[:, None] <= row[None, :] + seq_kv - seq_q, p, 0.0)
            if not EVEN_N:
                p = tl.where(key[:, None] < seq_kv, p, 0.0)
            ds = (p * (dp - tl.load(dots + numbers + row)[None, :])).to(q.dtype)

            # dV += P^T dO, dK += dS^T Q
            dv = tl.dot(p.to(do.dtype), do, dv)
            dk = tl.dot(ds, q, dk)

    dk_rows = dk_ptr + batch.to(tl.int64) * dk_stride_batch + head_kv.to(tl.int64) * dk_stride_head
    dv_rows = dv_ptr + batch.to(tl.int64) * dv_stride_batch + head_kv.to(tl.int64) * dv_stride_head
    row64 = key.to(tl.int64)[:, None]
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows + row64 * dk_stride_row + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows + row64 * dv_stride_row + dim, dv.to(dv_ptr.dtype.element_ty), exists)


@triton.jit
def dq_by_queries(
    q_desc, k_desc, v_desc, do_desc, dq_ptr, dots, lse_log2, scale, heads, group, seq_q, seq_kv, scratch_rows,
    dq_stride_batch, dq_stride_head, dq_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """dQ of BLOCK_M queries."""
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    batch_head = tl.program_id(0) // q_tiles
    batch = batch_head // heads
    head = batch_head % heads
    q_start = (q_tiles - 1 - tl.program_id(0) % q_tiles) * BLOCK_M  # the most keys first
    row = q_start + tl.arange(0, BLOCK_M)
    q = q_desc.load([batch, head, q_start, 0]).reshape((BLOCK_M, HEAD_DIM))
    do = do_desc.load([batch, head, q_start, 0]).reshape((BLOCK_M, HEAD_DIM))
    numbers = batch_head.to(tl.int64) * scratch_rows + row
    lse = tl.load(lse_log2 + numbers)
    dot = tl.load(dots + numbers)

    scale_log2 = scale * LOG2_E
    dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    end = seq_kv
    if CAUSAL:
        end = tl.minimum(q_start + BLOCK_M + seq_kv - seq_q, seq_kv)
    for start in tl.range(0, end, BLOCK_N):
        # S = Q K^T, dP = dO V^T
        k = k_desc.load([batch, head // group, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))
        v = v_desc.load([batch, head // group, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        dp = tl.dot(do, tl.trans(v))

        # dS = P (dP - D): 0 where the mask hides a key, or none exists
        key = start + tl.arange(0, BLOCK_N)
        p = tl.math.exp2(s * scale_log2 - lse[:, None])
        if CAUSAL:
            p = tl.where(key[None, :] <= row[:, None] + seq_kv - seq_q, p, 0.0)
        if not EVEN_N:
            p = tl.where(key[None, :] < seq_kv, p, 0.0)
        ds = p * (dp - dot[:, None])

        # dQ += dS K
        dq = tl.dot(ds.to(k.dtype), k, dq)

    dim = tl.arange(0, HEAD_DIM)
    dq_rows = dq_ptr + batch.to(tl.int64) * dq_stride_batch + head.to(tl.int64) * dq_stride_head
    tl.store(
        dq_rows + row.to(tl.int64)[:, None] * dq_stride_row + dim,
        (dq * scale).to(dq_ptr.dtype.element_ty),
        (row < seq_q)[:, None],
    )


twin = Twin(deterministic, lambda tile: options(tile, num_stages=tile.stages + 1), by_queries=dq_by_queries)
