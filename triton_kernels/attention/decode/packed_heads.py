"""The query heads that share a head of K and V share a tile: every key is read once for all of them.

Builds on general_shapes; changes which rows a tile has: those of all heads of a group, query by query. Row r is query
r // group of head r % group in the group. tl.dot takes no fewer than 16 rows, so that a decode of 4 heads a group fills
4 of them. General: any lengths, strides, groups and head_dim 64, 128 and 256.

Data movement is Triton's: the loads of the next K and V are asynchronous copies, num_stages ahead.
"""

import triton
import triton.language as tl

from triton_kernels.attention.packed_rows import PackedTwin
from triton_kernels.attention.specialization import options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


SIZES = ("heads", "heads_kv", "group", "seq_q", "seq_kv")
"""One program for all of them: lengths grow from call to call."""


@triton.jit(do_not_specialize=SIZES)
def packed_heads(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, heads_kv, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    row_tiles = tl.cdiv(group * seq_q, BLOCK_M)
    batch_head = (tl.program_id(0) // row_tiles).to(tl.int64)
    batch = batch_head // heads_kv
    head_kv = batch_head % heads_kv
    row = (row_tiles - 1 - tl.program_id(0) % row_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)
    exists = row < group * seq_q
    query = row // group
    head = head_kv * group + row % group
    dim = tl.arange(0, HEAD_DIM)
    key = tl.arange(0, BLOCK_N)

    # load Q
    q_rows = q_ptr + batch * q_stride_batch + head * q_stride_head + query.to(tl.int64) * q_stride_row
    q = tl.load(q_rows[:, None] + dim, exists[:, None], 0.0)

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
    if CAUSAL:
        last_key = tl.minimum(query + seq_kv - seq_q, seq_kv - 1)
    end = tl.max(last_key, 0) + 1
    k_rows = k_ptr + batch * k_stride_batch + head_kv * k_stride_head
    v_rows = v_ptr + batch * v_stride_batch + head_kv * v_stride_head
    for start in tl.range(0, end, BLOCK_N):
        visible = start + key < seq_kv
        at = (start + key).to(tl.int64)[:, None]

        # S = Q K^T
        k = tl.load(k_rows + at * k_stride_row + dim, visible[:, None], 0.0)
        s = tl.dot(q, tl.trans(k))
        s = tl.where((start + key)[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max

        # O += P V
        v = tl.load(v_rows + at * v_stride_row + dim, visible[:, None], 0.0)
        o = tl.dot(p.to(v.dtype), v, o * rescale[:, None])

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_rows = o_ptr + batch * o_stride_batch + head * o_stride_head + query.to(tl.int64) * o_stride_row
    tl.store(o_rows[:, None] + dim, o.to(o_ptr.dtype.element_ty), exists[:, None])
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + (batch * heads + head) * seq_q + query, lse, exists)


twin = PackedTwin(packed_heads, lambda tile: options(tile, num_stages=tile.stages + 1))
