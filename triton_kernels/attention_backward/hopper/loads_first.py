"""Both tiles of a step are loaded before its products, and the kernel of dQ computes D.

Builds on deterministic; changes when tiles are loaded, which kernel comes first, and the tile of dQ with head_dim 64. A
wait for a tile is a loop in the machine code: no exponential can pass one that stands between S and dP, to run under
dP. General: any lengths, strides that are multiples of 16 bytes; heads that share K and V are summed in the loops.

With head_dim 128 the sum of dP starts from -D: the registers of the sum hold it. With head_dim 64 that takes more
registers than it frees, because a step has twice as many queries; for the same reason LSE is loaded behind S there.
The kernel of dQ comes first and computes D, because it has the queries, so that no third kernel reads dO.
"""

from dataclasses import replace

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward import specialization

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _add_queries(
    dk, dv, k, v, q_desc, do_desc, dots, lse_log2, numbers, batch, head, key, scale_log2, diagonal, seq_kv, begin, end,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Adds what queries begin <= i < end give to dK and dV. CAUSAL: query i sees keys up to i + diagonal. RAGGED: keys
    from seq_kv on do not exist."""
    for start in tl.range(begin, end, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)

        q = q_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
        do = do_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
        if HEAD_DIM == 128:
            lse = tl.load(lse_log2 + numbers + row)
            dot = tl.load(dots + numbers + row)

        # S^T = K Q^T, P = exp2(S - LSE): 0 where the mask hides a key, or none exists
        s = tl.dot(k, tl.trans(q))
        if HEAD_DIM != 128:
            lse = tl.load(lse_log2 + numbers + row)
        p = tl.math.exp2(s * scale_log2 - lse[None, :])
        if CAUSAL:
            p = tl.where(key[:, None] <= row[None, :] + diagonal, p, 0.0)
        if RAGGED:
            p = tl.where(key[:, None] < seq_kv, p, 0.0)

        # dP^T = V dO^T, dV += P^T dO
        if HEAD_DIM == 128:
            dp_less_dot = tl.dot(v, tl.trans(do), tl.broadcast_to(-dot[None, :], (BLOCK_N, BLOCK_M)))
            dv = tl.dot(p.to(do.dtype), do, dv)
        else:
            dp = tl.dot(v, tl.trans(do))
            dv = tl.dot(p.to(do.dtype), do, dv)
            dp_less_dot = dp - tl.load(dots + numbers + row)[None, :]

        # dS = P (dP - D), dK += dS^T Q
        dk = tl.dot((p * dp_less_dot).to(q.dtype), q, dk)
    return dk, dv


@triton.jit
def loads_first(
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
    dk = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    # Tiles from the first query that sees a key on; from `whole` on they need no mask.
    first = 0
    whole = 0
    diagonal = seq_kv - seq_q
    if CAUSAL:
        first = tl.maximum(kv_start - diagonal, 0) // BLOCK_M * BLOCK_M
        whole = tl.cdiv(tl.maximum(kv_start + BLOCK_N - 1 - diagonal, 0), BLOCK_M) * BLOCK_M
    if not EVEN_N:
        whole = tl.where(kv_start + BLOCK_N > seq_kv, seq_q, whole)
    for head in tl.range(head_kv * group, (head_kv + 1) * group):
        numbers = (batch.to(tl.int64) * heads + head) * scratch_rows
        if CAUSAL or not EVEN_N:
            dk, dv = _add_queries(
                dk, dv, k, v, q_desc, do_desc, dots, lse_log2, numbers, batch, head, key, scale_log2, diagonal, seq_kv,
                first, tl.minimum(whole, seq_q), HEAD_DIM, BLOCK_M, BLOCK_N, CAUSAL, not EVEN_N,
            )  # fmt: skip
        dk, dv = _add_queries(
            dk, dv, k, v, q_desc, do_desc, dots, lse_log2, numbers, batch, head, key, scale_log2, diagonal, seq_kv,
            whole, seq_q, HEAD_DIM, BLOCK_M, BLOCK_N, False, False,
        )  # fmt: skip

    dim = tl.arange(0, HEAD_DIM)
    dk_rows = dk_ptr + batch.to(tl.int64) * dk_stride_batch + head_kv.to(tl.int64) * dk_stride_head
    dv_rows = dv_ptr + batch.to(tl.int64) * dv_stride_batch + head_kv.to(tl.int64) * dv_stride_head
    row64 = key.to(tl.int64)[:, None]
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows + row64 * dk_stride_row + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows + row64 * dv_stride_row + dim, dv.to(dv_ptr.dtype.element_ty), exists)


@triton.jit
def _add_keys(
    dq, q, do, lse, dot, k_desc, v_desc, batch, head_kv, row, scale_log2, diagonal, seq_kv, begin, end,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Adds what keys begin <= i < end give to dQ. CAUSAL and RAGGED as above."""
    for start in tl.range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k = k_desc.load([batch, head_kv, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        v = v_desc.load([batch, head_kv, start, 0]).reshape((BLOCK_N, HEAD_DIM))

        # S = Q K^T, P = exp2(S - LSE): 0 where the mask hides a key, or none exists
        s = tl.dot(q, tl.trans(k))
        p = tl.math.exp2(s * scale_log2 - lse[:, None])
        if CAUSAL:
            p = tl.where(key[None, :] <= row[:, None] + diagonal, p, 0.0)
        if RAGGED:
            p = tl.where(key[None, :] < seq_kv, p, 0.0)

        # dP = dO V^T, dS = P (dP - D), dQ += dS K
        dp = tl.dot(do, tl.trans(v))
        ds = p * (dp - dot[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


@triton.jit
def dq_by_queries(
    q_desc, k_desc, v_desc, do_desc, o_ptr, lse_ptr, dq_ptr, dots, lse_log2, scale, heads, group,
    seq_q, seq_kv, scratch_rows, o_stride_batch, o_stride_head, o_stride_row,
    dq_stride_batch, dq_stride_head, dq_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """dQ of BLOCK_M queries, and for the other kernel their D and LSE in base 2, which is +inf for rows that see no key
    or do not exist."""
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    batch_head = tl.program_id(0) // q_tiles
    batch = batch_head // heads
    head = batch_head % heads
    q_start = (q_tiles - 1 - tl.program_id(0) % q_tiles) * BLOCK_M  # the most keys first
    row = q_start + tl.arange(0, BLOCK_M)
    row64 = row.to(tl.int64)[:, None]
    dim = tl.arange(0, HEAD_DIM)
    exists = row < seq_q
    q = q_desc.load([batch, head, q_start, 0]).reshape((BLOCK_M, HEAD_DIM))
    do = do_desc.load([batch, head, q_start, 0]).reshape((BLOCK_M, HEAD_DIM))
    o_rows = o_ptr + batch.to(tl.int64) * o_stride_batch + head.to(tl.int64) * o_stride_head
    o = tl.load(o_rows + row64 * o_stride_row + dim, exists[:, None], 0.0)
    dot = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    lse = tl.load(lse_ptr + batch_head.to(tl.int64) * seq_q + row, exists, -float("inf"))
    lse = tl.where(lse == -float("inf"), float("inf"), lse * LOG2_E)
    numbers = batch_head.to(tl.int64) * scratch_rows + row
    tl.store(dots + numbers, dot)
    tl.store(lse_log2 + numbers, lse)

    scale_log2 = scale * LOG2_E
    dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    # Tiles up to the last key that a query sees; those before `whole` need no mask.
    end = seq_kv
    whole = seq_kv // BLOCK_N * BLOCK_N
    diagonal = seq_kv - seq_q
    if CAUSAL:
        end = tl.minimum(q_start + BLOCK_M + diagonal, seq_kv)
        whole = tl.minimum(tl.maximum(q_start + 1 + diagonal, 0) // BLOCK_N * BLOCK_N, whole)
    dq = _add_keys(
        dq, q, do, lse, dot, k_desc, v_desc, batch, head // group, row, scale_log2, diagonal, seq_kv, 0, whole,
        HEAD_DIM, BLOCK_N, False, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        dq = _add_keys(
            dq, q, do, lse, dot, k_desc, v_desc, batch, head // group, row, scale_log2, diagonal, seq_kv, whole, end,
            HEAD_DIM, BLOCK_N, CAUSAL, not EVEN_N,
        )  # fmt: skip

    dq_rows = dq_ptr + batch.to(tl.int64) * dq_stride_batch + head.to(tl.int64) * dq_stride_head
    tl.store(dq_rows + row64 * dq_stride_row + dim, (dq * scale).to(dq_ptr.dtype.element_ty), exists[:, None])


class TwoTiles(specialization.Twin):
    """A twin whose kernel of dQ comes first and has a tile of its own."""

    def launch(self, q, k, v, o, do, lse, dq, dk, dv, *, scale, causal, tile, workspace):
        tensors = {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
        parts = specialization.scratch(q, workspace)
        dq_tile = replace(tile, block_m=128, block_n=64, stages=2, warps=4 if q.shape[3] == 64 else 8)
        of_queries = specialization.arguments(tensors, parts, scale, causal, dq_tile)
        programs = triton.cdiv(q.shape[2], dq_tile.block_m) * q.shape[0] * q.shape[1]
        named = specialization._named(self.by_queries, of_queries)
        self.by_queries[(programs,)](**named, **self.options(dq_tile))
        of_keys = specialization.arguments(tensors, parts, scale, causal, tile)
        programs = triton.cdiv(k.shape[2], tile.block_n) * k.shape[0] * k.shape[1]
        return self.kernel[(programs,)](**specialization._named(self.kernel, of_keys), **self.options(tile))


twin = TwoTiles(loads_first, lambda tile: options(tile, num_stages=tile.stages + 1), by_queries=dq_by_queries)
