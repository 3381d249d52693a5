"""Transposed scores: a row for each key, so that P and dS are in the registers that dV and dK take as left operands.

Builds on tma_ring; changes which operand comes first in S and dP. General: any lengths, strides that are multiples of
16 bytes; heads that share K and V are summed in the loop.

The compiler leaves left operands in registers by itself once the program is written so. dS^T passes through shared
memory for dQ, whose rows are queries.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward.specialization import Twin

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def transposed_scores(
    q_desc, k_desc, v_desc, do_desc, dk_ptr, dv_ptr, dq_sums, dots, lse_log2, scale, heads, heads_kv, group,
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

            # dQ += dS K
            dq = tl.dot(tl.trans(ds), k)
            tl.atomic_add(dq_sums + (numbers + row)[:, None] * HEAD_DIM + dim, dq, sem="relaxed")

    dk_rows = dk_ptr + batch.to(tl.int64) * dk_stride_batch + head_kv.to(tl.int64) * dk_stride_head
    dv_rows = dv_ptr + batch.to(tl.int64) * dv_stride_batch + head_kv.to(tl.int64) * dv_stride_head
    row64 = key.to(tl.int64)[:, None]
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows + row64 * dk_stride_row + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows + row64 * dv_stride_row + dim, dv.to(dv_ptr.dtype.element_ty), exists)


twin = Twin(transposed_scores, lambda tile: options(tile, num_stages=tile.stages + 1))
