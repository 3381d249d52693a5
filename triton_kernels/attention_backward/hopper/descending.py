"""Programs go through the queries from the last one on: those of a head begin at the same tile, and stay together.

Builds on longest_first; changes the order of the tiles of queries. General: any lengths, strides that are multiples of
16 bytes; heads that share K and V are summed in the loops.

With a causal mask each program of a head has its own diagonal, but all see the last queries. Tiles that need no mask
come first, those on the diagonal last. Heads that share K and V take turns at each tile.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import options
from triton_kernels.attention_backward.specialization import Twin

LOG2_E = tl.constexpr(1.4426950408889634)
SECTION_BYTES = tl.constexpr(16 << 20)  # of the sums of dQ of one query head for each head of K and V


@triton.jit
def _add_queries(
    dk, dv, k, v, q_desc, do_desc, dq_sums_desc, dots, lse_log2, heads, first_head, group, scratch_rows, batch, key,
    scale_log2, diagonal, seq_kv, begin, end, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
):  # fmt: skip
    """Adds what queries begin <= i < end give to dK, dV and dQ. CAUSAL: query i sees keys up to i + diagonal. RAGGED:
    keys from seq_kv on do not exist."""
    tiles = tl.cdiv(end - begin, BLOCK_M)
    for i in tl.range(0, tiles * group):
        start = begin + (tiles - 1 - i // group) * BLOCK_M
        head = first_head + i % group
        numbers = (batch.to(tl.int64) * heads + head) * scratch_rows
        row = start + tl.arange(0, BLOCK_M)

        # S^T = K Q^T, dP^T = V dO^T
        q = q_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
        s = tl.dot(k, tl.trans(q))
        do = do_desc.load([batch, head, start, 0]).reshape((BLOCK_M, HEAD_DIM))
        dp = tl.dot(v, tl.trans(do))

        # P = exp2(S - LSE), dS = P (dP - D): 0 where the mask hides a key, or none exists
        p = tl.math.exp2(s * scale_log2 - tl.load(lse_log2 + numbers + row)[None, :])
        if CAUSAL:
            p = tl.where(key[:, None] <= row[None, :] + diagonal, p, 0.0)
        if RAGGED:
            p = tl.where(key[:, None] < seq_kv, p, 0.0)
        ds = (p * (dp - tl.load(dots + numbers + row)[None, :])).to(q.dtype)

        # dV += P^T dO, dK += dS^T Q
        dv = tl.dot(p.to(do.dtype), do, dv)
        dk = tl.dot(ds, q, dk)

        # dQ += dS K
        dq = tl.dot(tl.trans(ds), k)
        dq_sums_desc.atomic_add([numbers.to(tl.int32) + start, 0], dq)
    return dk, dv


@triton.jit
def descending(
    q_desc, k_desc, v_desc, do_desc, dk_ptr, dv_ptr, dq_sums_desc, dots, lse_log2, scale, heads, heads_kv, group,
    seq_q, seq_kv, scratch_rows, dk_stride_batch, dk_stride_head, dk_stride_row,
    dv_stride_batch, dv_stride_head, dv_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    section = 1
    if CAUSAL:
        section = tl.maximum(SECTION_BYTES // 4 // HEAD_DIM // seq_q, 1)
    begin = tl.program_id(0) // (key_tiles * section) * section
    place = tl.program_id(0) - begin * key_tiles
    here = tl.minimum(section, tl.num_programs(0) // key_tiles - begin)  # heads in this section
    kv_start = place // here * BLOCK_N
    batch_head = begin + place % here
    batch = batch_head // heads_kv
    head_kv = batch_head % heads_kv
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
    dk, dv = _add_queries(
        dk, dv, k, v, q_desc, do_desc, dq_sums_desc, dots, lse_log2, heads, head_kv * group, group, scratch_rows, batch,
        key, scale_log2, diagonal, seq_kv, whole, seq_q, HEAD_DIM, BLOCK_M, False, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        dk, dv = _add_queries(
            dk, dv, k, v, q_desc, do_desc, dq_sums_desc, dots, lse_log2, heads, head_kv * group, group, scratch_rows,
            batch, key, scale_log2, diagonal, seq_kv, first, tl.minimum(whole, seq_q), HEAD_DIM, BLOCK_M, CAUSAL,
            not EVEN_N,
        )  # fmt: skip

    dim = tl.arange(0, HEAD_DIM)
    dk_rows = dk_ptr + batch.to(tl.int64) * dk_stride_batch + head_kv.to(tl.int64) * dk_stride_head
    dv_rows = dv_ptr + batch.to(tl.int64) * dv_stride_batch + head_kv.to(tl.int64) * dv_stride_head
    row64 = key.to(tl.int64)[:, None]
    exists = None if EVEN_N else (key < seq_kv)[:, None]
    tl.store(dk_rows + row64 * dk_stride_row + dim, (dk * scale).to(dk_ptr.dtype.element_ty), exists)
    tl.store(dv_rows + row64 * dv_stride_row + dim, dv.to(dv_ptr.dtype.element_ty), exists)


twin = Twin(descending, lambda tile: options(tile, num_stages=tile.stages + 1))
