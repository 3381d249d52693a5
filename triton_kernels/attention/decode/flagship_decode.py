"""Warps divide the keys of a tile: in the loop no warp waits for the maximum of another.

Builds on kv_rings; changes which keys a warp has. A dot with a batch gives each warp 16 rows and a part of the keys,
with maxima, sums and O of its own; after the loop they are joined.
"""

import triton
import triton.language as tl

from triton_kernels.attention.packed_rows import PackedTwin
from triton_kernels.attention.specialization import options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

COUNTERS = tl.constexpr(1024)
"""Of tiles, at the start of the workspace."""

MAX_PARTS = tl.constexpr(64)
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


SIZES = ("batches", "heads", "heads_kv", "group", "seq_q", "seq_kv", "parts")
"""One program for all of them: lengths grow from call to call."""


@triton.jit
def for_row_warps(tile, ROW_WARPS: tl.constexpr):
    """A tile of K or V, (key warps, keys, head_dim), for warps with rows of their own: (warps, keys, head_dim)."""
    KEY_WARPS: tl.constexpr = tile.shape[0]
    tile = tl.broadcast_to(tile[:, None], (KEY_WARPS, ROW_WARPS, tile.shape[1], tile.shape[2]))
    return tile.reshape(KEY_WARPS * ROW_WARPS, tile.shape[2], tile.shape[3])


@triton.jit
def add_warps(o):
    """The sum of (warps, rows, head_dim) over warps, by halves: tl.sum would store the warps of a column side by side,
    and lanes, which have columns, would meet in two banks."""
    for _ in tl.static_range(5):  # for up to 32 warps
        if o.shape[0] > 1:
            halves = o.reshape(2, o.shape[0] // 2, o.shape[1], o.shape[2])
            one, other = tl.split(tl.permute(halves, (1, 2, 3, 0)))
            o = one + other
    return o.reshape(o.shape[1], o.shape[2])


@triton.jit(do_not_specialize=SIZES)
def flagship_decode(
    q_ptr, k_desc, v_desc, o_ptr, lse_ptr, counter, scale, batches, heads, heads_kv, group, seq_q, seq_kv, parts,
    q_stride_batch, q_stride_head, q_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, KEY_WARPS: tl.constexpr,
    AT_ONCE: tl.constexpr, CAUSAL: tl.constexpr,
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
    ROW_WARPS: tl.constexpr = BLOCK_M // 16
    WARPS: tl.constexpr = KEY_WARPS * ROW_WARPS
    WARP_KEYS: tl.constexpr = BLOCK_N // KEY_WARPS
    key = (tl.arange(0, WARPS) // ROW_WARPS * WARP_KEYS)[:, None, None] + tl.arange(0, WARP_KEYS)

    # load Q
    q_rows = q_ptr + batch * q_stride_batch + head * q_stride_head + query.to(tl.int64) * q_stride_row
    q = tl.load(q_rows[:, None] + dim, exists[:, None], 0.0)
    q = tl.broadcast_to(q[None], (KEY_WARPS, BLOCK_M, HEAD_DIM)).reshape(WARPS, 16, HEAD_DIM)

    o = tl.zeros((WARPS, 16, HEAD_DIM), tl.float32)
    row_max = tl.full((WARPS, 16), LOWEST, tl.float32)
    row_sum = tl.zeros((WARPS, 16), tl.float32)
    scale_log2 = scale * LOG2_E
    last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
    if CAUSAL:
        last_key = tl.minimum(query + seq_kv - seq_q, seq_kv - 1)
    end = tl.max(last_key, 0) + 1
    last_key = tl.broadcast_to(last_key[None], (KEY_WARPS, BLOCK_M)).reshape(WARPS, 16, 1)
    # This program's part of the keys, in whole tiles; the last parts may have none.
    part_keys = tl.cdiv(tl.cdiv(tl.maximum(end, 0), BLOCK_N), parts) * BLOCK_N
    first = tl.program_id(1) * part_keys
    for start in tl.range(first, tl.minimum(first + part_keys, end), BLOCK_N):
        # S = Q K^T
        k = k_desc.load([batch.to(tl.int32), head_kv.to(tl.int32), start, 0]).reshape(KEY_WARPS, WARP_KEYS, HEAD_DIM)
        s = tl.dot(q, tl.permute(for_row_warps(k, ROW_WARPS), (0, 2, 1)))
        s = tl.where(start + key <= last_key, s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = tl.maximum(row_max, tl.max(s, 2) * scale_log2)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_log2 - new_max[:, :, None])
        row_sum = row_sum * rescale + tl.sum(p, 2)
        row_max = new_max

        # O += P V
        v = v_desc.load([batch.to(tl.int32), head_kv.to(tl.int32), start, 0]).reshape(KEY_WARPS, WARP_KEYS, HEAD_DIM)
        o = tl.dot(p.to(v.dtype), for_row_warps(v, ROW_WARPS), o * rescale[:, :, None])

    # join the warps that divided the keys
    o, row_sum = o.reshape(KEY_WARPS, BLOCK_M, HEAD_DIM), row_sum.reshape(KEY_WARPS, BLOCK_M)
    row_max = row_max.reshape(KEY_WARPS, BLOCK_M)
    largest_max = tl.max(row_max, 0)
    warp_weights = tl.math.exp2(row_max - largest_max)
    o = add_warps(o * warp_weights[:, :, None])
    row_sum = tl.sum(row_sum * warp_weights, 0)
    row_max = largest_max

    # O, normalized; a row that sees no key has row_sum 0, so O = 0 and log2-sum-exp2 = -inf
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    lse = tl.where(row_sum == 0, float("-inf"), row_max + tl.math.log2(total))
    place = (batch * heads + head) * seq_q + query
    o_rows = o_ptr + batch * o_stride_batch + head * o_stride_head + query.to(tl.int64) * o_stride_row
    if parts > 1:
        rows = tl.cast(batches, tl.int64) * heads * seq_q
        partial = (counter + COUNTERS).to(tl.pointer_type(tl.float32), bitcast=True)
        partial_lse = partial + rows * parts * HEAD_DIM
        at = place * parts + tl.program_id(1)
        tl.store(partial + at[:, None] * HEAD_DIM + dim, o, exists[:, None])
        tl.store(partial_lse + at, lse, exists)
        # The last program of the tile joins: its atomic orders what the others wrote before theirs.
        tl.debug_barrier()
        taken = tl.atomic_add(counter + tl.program_id(0), 1, sem="acq_rel", scope="gpu")
        if taken == parts - 1:
            tl.debug_barrier()
            part = tl.arange(0, MAX_PARTS)
            of_row = (place * parts)[:, None]
            others = tl.load(
                partial_lse + of_row + part, exists[:, None] & (part < parts), float("-inf"), cache_modifier=".cg"
            )
            largest = tl.max(others, 1)
            base = tl.where(largest == float("-inf"), 0.0, largest)
            total = tl.sum(tl.math.exp2(others - base[:, None]), 1)
            o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
            for start in range(0, parts, AT_ONCE):
                some = start + tl.arange(0, AT_ONCE)
                there = exists[:, None] & (some < parts)
                o_parts = partial + (of_row + some)[:, :, None] * HEAD_DIM + dim
                o_some = tl.load(o_parts, there[:, :, None], 0.0, cache_modifier=".cg")
                weights = tl.load(partial_lse + of_row + some, there, float("-inf"), cache_modifier=".cg")
                o += tl.sum(tl.math.exp2(weights - base[:, None])[:, :, None] * o_some, 1)
            divisor = tl.where(total == 0, 1.0, total)
            tl.store(o_rows[:, None] + dim, (o / divisor[:, None]).to(o_ptr.dtype.element_ty), exists[:, None])
            lse = tl.where(total == 0, float("-inf"), base + tl.math.log2(divisor))
            tl.store(lse_ptr + place, lse * LN_2, exists)
            tl.store(counter + tl.program_id(0), 0)
    else:
        tl.store(o_rows[:, None] + dim, o.to(o_ptr.dtype.element_ty), exists[:, None])
        tl.store(lse_ptr + place, lse * LN_2, exists)


twin = PackedTwin(flagship_decode, lambda tile: options(tile, num_stages=tile.stages + 1), splits=True)
