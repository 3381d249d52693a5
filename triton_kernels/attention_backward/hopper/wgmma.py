"""Warpgroup products: where the compiler may, it turns the same products into wgmma.

Builds on vector_atomics; changes the instruction of all products. General: any lengths and strides; heads that share K
and V are summed in the loop.

The kernel does not name it. It is one_kernel's, word for word: there a switch of the compiler asks for mma.sync
(DISABLE_MMA_V3), and without it the compiler makes wgmma of products of 64 rows and more.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward.specialization import Twin

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _load(rows, exists, HEAD_DIM: tl.constexpr, EVEN: tl.constexpr):
    """A tile; rows that do not exist are read as zeros."""
    ptrs = rows[:, None] + tl.arange(0, HEAD_DIM)
    return tl.load(ptrs) if EVEN else tl.load(ptrs, exists[:, None], 0.0)


@triton.jit
def wgmma(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, dq_sums, dots, lse_log2, scale, heads, heads_kv, group, seq_q, seq_kv,
    scratch_rows, q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, do_stride_batch, do_stride_head, do_stride_row,
    dk_stride_batch, dk_stride_head, dk_stride_row, dv_stride_batch, dv_stride_head, dv_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    batch_head = (tl.program_id(0) // key_tiles).to(tl.int64)
    batch = batch_head // heads_kv
    head_kv = batch_head % heads_kv
    kv_start = tl.program_id(0) % key_tiles * BLOCK_N
    key = kv_start + tl.arange(0, BLOCK_N)
    row64 = key.to(tl.int64)
    k = _load(
        k_ptr + batch * k_stride_batch + head_kv * k_stride_head + row64 * k_stride_row, key < seq_kv, HEAD_DIM, EVEN_N
    )
    v = _load(
        v_ptr + batch * v_stride_batch + head_kv * v_stride_head + row64 * v_stride_row, key < seq_kv, HEAD_DIM, EVEN_N
    )

    scale_log2 = scale * LOG2_E
    dim = tl.arange(0, HEAD_DIM)
    dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(kv_start + seq_q - seq_kv, 0) // BLOCK_M * BLOCK_M
    for head in tl.range(head_kv * group, (head_kv + 1) * group):
        q_rows = q_ptr + batch * q_stride_batch + head * q_stride_head
        do_rows = do_ptr + batch * do_stride_batch + head * do_stride_head
        numbers = (batch * heads + head) * scratch_rows
        for start in tl.range(first, seq_q, BLOCK_M):
            row = start + tl.arange(0, BLOCK_M)

            # S = Q K^T, dP = dO V^T
            q = _load(q_rows + row.to(tl.int64) * q_stride_row, row < seq_q, HEAD_DIM, EVEN_M)
            s = tl.dot(q, tl.trans(k))
            do = _load(do_rows + row.to(tl.int64) * do_stride_row, row < seq_q, HEAD_DIM, EVEN_M)
            dp = tl.dot(do, tl.trans(v))

            # P = exp2(S - LSE), dS = P (dP - D): 0 where the mask hides a key, or none exists
            p = tl.math.exp2(s * scale_log2 - tl.load(lse_log2 + numbers + row)[:, None])
            if CAUSAL:
                p = tl.where(key[None, :] <= row[:, None] + seq_kv - seq_q, p, 0.0)
            if not EVEN_N:
                p = tl.where(key[None, :] < seq_kv, p, 0.0)
            ds = p * (dp - tl.load(dots + numbers + row)[:, None])

            # dV += P^T dO, dK += dS^T Q
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
            dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)

            # dQ += dS K
            dq = tl.dot(ds.to(k.dtype), k)
            tl.atomic_add(dq_sums + (numbers + row)[:, None] * HEAD_DIM + dim, dq, sem="relaxed")

    dk_rows = dk_ptr + batch * dk_stride_batch + head_kv * dk_stride_head + row64 * dk_stride_row
    dv_rows = dv_ptr + batch * dv_stride_batch + head_kv * dv_stride_head + row64 * dv_stride_row
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows[:, None] + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows[:, None] + dim, dv.to(dv_ptr.dtype.element_ty), exists)


twin = Twin(wgmma, lambda tile: options(tile, num_stages=tile.stages))
