"""Two kernels: one has a tile of keys and sums dK and dV over the queries, one has queries and sums dQ over the keys.

The first rung. Both compute S and dP anew, so there are seven products where five would do; no sum crosses programs, so
every run gives the same bits. General: any lengths and strides; heads that share K and V are summed in the loop.

P^T and dS^T are transposed operands of products: the compiler passes them through shared memory. It also loads the next
tiles ahead, by asynchronous copies, num_stages deep.
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
def two_kernels(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, dots, lse_log2, scale, heads, heads_kv, group, seq_q, seq_kv,
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

    dim = tl.arange(0, HEAD_DIM)
    dk_rows = dk_ptr + batch * dk_stride_batch + head_kv * dk_stride_head + row64 * dk_stride_row
    dv_rows = dv_ptr + batch * dv_stride_batch + head_kv * dv_stride_head + row64 * dv_stride_row
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows[:, None] + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows[:, None] + dim, dv.to(dv_ptr.dtype.element_ty), exists)


@triton.jit
def dq_by_queries(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dots, lse_log2, scale, heads, group, seq_q, seq_kv, scratch_rows,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, do_stride_batch, do_stride_head, do_stride_row,
    dq_stride_batch, dq_stride_head, dq_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """dQ of BLOCK_M queries."""
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    batch_head = (tl.program_id(0) // q_tiles).to(tl.int64)
    batch = batch_head // heads
    head = batch_head % heads
    q_start = (q_tiles - 1 - tl.program_id(0) % q_tiles) * BLOCK_M  # the most keys first
    row = q_start + tl.arange(0, BLOCK_M)
    row64 = row.to(tl.int64)
    q = _load(
        q_ptr + batch * q_stride_batch + head * q_stride_head + row64 * q_stride_row, row < seq_q, HEAD_DIM, False
    )
    do = _load(
        do_ptr + batch * do_stride_batch + head * do_stride_head + row64 * do_stride_row, row < seq_q, HEAD_DIM, False
    )
    numbers = batch_head * scratch_rows + row
    lse = tl.load(lse_log2 + numbers)
    dot = tl.load(dots + numbers)

    k_rows = k_ptr + batch * k_stride_batch + head // group * k_stride_head
    v_rows = v_ptr + batch * v_stride_batch + head // group * v_stride_head
    scale_log2 = scale * LOG2_E
    dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    end = seq_kv
    if CAUSAL:
        end = tl.minimum(q_start + BLOCK_M + seq_kv - seq_q, seq_kv)
    for start in tl.range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)

        # S = Q K^T, dP = dO V^T
        k = _load(k_rows + key.to(tl.int64) * k_stride_row, key < seq_kv, HEAD_DIM, False)
        s = tl.dot(q, tl.trans(k))
        v = _load(v_rows + key.to(tl.int64) * v_stride_row, key < seq_kv, HEAD_DIM, False)
        dp = tl.dot(do, tl.trans(v))

        # dS = P (dP - D): 0 where the mask hides a key, or none exists
        visible = key[None, :] < seq_kv
        if CAUSAL:
            visible = visible & (key[None, :] <= row[:, None] + seq_kv - seq_q)
        p = tl.where(visible, tl.math.exp2(s * scale_log2 - lse[:, None]), 0.0)
        ds = p * (dp - dot[:, None])

        # dQ += dS K
        dq = tl.dot(ds.to(k.dtype), k, dq)

    dq_rows = dq_ptr + batch * dq_stride_batch + head * dq_stride_head + row64 * dq_stride_row
    dim = tl.arange(0, HEAD_DIM)
    tl.store(dq_rows[:, None] + dim, (dq * scale).to(dq_ptr.dtype.element_ty), (row < seq_q)[:, None])


twin = Twin(two_kernels, lambda tile: options(tile, num_stages=tile.stages), by_queries=dq_by_queries)
