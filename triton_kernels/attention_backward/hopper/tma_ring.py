"""Tiles come by TMA into a ring of buffers: the kernel loads through tensor descriptors made on the host.

Builds on wgmma; changes how K, V, Q and dO are loaded. General: any lengths, strides that are multiples of 16 bytes;
heads that share K and V are summed in the loop. Rows that do not exist are zeros, without a test in the kernel.

Barriers and buffers are the compiler's: num_stages tiles of Q and dO. All warps wait for a tile, and one thread asks
for the next one; LSE and D of its rows are ordinary loads.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward.specialization import Twin

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def tma_ring(
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

            # S = Q K^T, dP = dO V^T
            q = q_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
            s = tl.dot(q, tl.trans(k))
            do = do_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
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

    dk_rows = dk_ptr + batch.to(tl.int64) * dk_stride_batch + head_kv.to(tl.int64) * dk_stride_head
    dv_rows = dv_ptr + batch.to(tl.int64) * dv_stride_batch + head_kv.to(tl.int64) * dv_stride_head
    row64 = key.to(tl.int64)[:, None]
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows + row64 * dk_stride_row + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows + row64 * dv_stride_row + dim, dv.to(dv_ptr.dtype.element_ty), exists)


twin = Twin(tma_ring, lambda tile: options(tile, num_stages=tile.stages + 1))
