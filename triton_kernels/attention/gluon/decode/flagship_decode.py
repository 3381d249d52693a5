"""Warps divide the keys of a tile: in the loop no warp waits for the maximum of another.

Builds on core Triton's kv_rings; changes which keys a warp has, and says what core Triton leaves to its compiler. The
first tiles of K and V are on their way before Q is read. The layout of the products names the warps that divide keys
and those that divide rows, so that a tile of K or V is read from shared memory as it lies. After the loop warps leave
what they have in shared memory, over K and V, and a thread adds up a column of all of them. In the join of several
parts a warp has whole rows.

A barrier of the block precedes each load into buffers that were read, and a fence, because TMA writes through another
proxy.
"""

from dataclasses import dataclass, replace
from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention.packed_rows import PackedTwin
from triton_kernels.attention.specialization import describe, options

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

COUNTERS = gl.constexpr(1024)
"""Of tiles, at the start of the workspace."""

MAX_PARTS = gl.constexpr(64)
LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)

SIZES = ("batches", "heads", "heads_kv", "group", "seq_q", "seq_kv", "parts")
"""One program for all of them: lengths grow from call to call."""


@gluon.jit
def join(
    partial, partial_lse, of_row, exists, parts, by_row: gl.constexpr, HEAD_DIM: gl.constexpr, AT_ONCE: gl.constexpr
):
    """Joins the parts of a tile's rows, whose first lie at `of_row`: O, normalized, and its log2-sum-exp2."""
    BLOCK_M: gl.constexpr = exists.shape[0]
    WARPS: gl.constexpr = gl.num_warps()
    of_lse: gl.constexpr = gl.BlockedLayout([1, MAX_PARTS // 32], [1, 32], [WARPS, 1], [1, 0])
    of_o: gl.constexpr = gl.BlockedLayout([1, AT_ONCE, HEAD_DIM // 32], [1, 1, 32], [WARPS, 1, 1], [2, 1, 0])

    part = gl.arange(0, MAX_PARTS, gl.SliceLayout(0, of_lse))[None, :]
    at = gl.convert_layout(of_row, gl.SliceLayout(1, of_lse))[:, None] + part
    known = gl.convert_layout(exists, gl.SliceLayout(1, of_lse))[:, None] & (part < parts)
    lse = gl.load(partial_lse + at, known, float("-inf"), cache_modifier=".cg")
    largest = gl.max(lse, 1)
    base = gl.where(largest == float("-inf"), 0.0, largest)
    total = gl.sum(gl.exp2(lse - base[:, None]), 1)
    divisor = gl.where(total == 0, 1.0, total)
    whole_lse = gl.where(total == 0, float("-inf"), base + gl.log2(divisor))

    rows: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, of_o))
    base = gl.expand_dims(gl.convert_layout(base, rows), 1)
    first = gl.expand_dims(gl.convert_layout(of_row, rows), 1)
    there = gl.expand_dims(gl.convert_layout(exists, rows), 1)
    some = gl.expand_dims(gl.arange(0, AT_ONCE, gl.SliceLayout(0, gl.SliceLayout(2, of_o))), 0)
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, gl.SliceLayout(1, of_o)))
    dim = gl.expand_dims(gl.expand_dims(dim, 0), 1)
    o = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, gl.SliceLayout(1, of_o))
    for begin in range(0, parts, AT_ONCE):
        place = first + begin + some
        mask = there & (begin + some < parts)
        weight = gl.exp2(gl.load(partial_lse + place, mask, float("-inf"), cache_modifier=".cg") - base)
        o_some = gl.load(
            partial + gl.expand_dims(place * HEAD_DIM, 2) + dim, gl.expand_dims(mask, 2), 0.0, cache_modifier=".cg"
        )
        o += gl.sum(gl.expand_dims(weight, 2) * o_some, 1)
    divisor = gl.convert_layout(divisor, gl.SliceLayout(1, by_row))
    o = gl.convert_layout(o, by_row, assert_trivial=True) / divisor[:, None]
    return o, gl.convert_layout(whole_lse, gl.SliceLayout(1, by_row))


@gluon.jit(do_not_specialize=SIZES)
def flagship_decode(
    q_ptr, k_desc, v_desc, o_ptr, lse_ptr, counter, scale, batches, heads, heads_kv, group, seq_q, seq_kv, parts,
    q_stride_batch, q_stride_head, q_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    KEY_WARPS: gl.constexpr, AT_ONCE: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    row_tiles = (group * seq_q + BLOCK_M - 1) // BLOCK_M
    batch_head = gl.program_id(0) // row_tiles
    batch = batch_head // heads_kv
    head_kv = batch_head % heads_kv
    first_row = (row_tiles - 1 - gl.program_id(0) % row_tiles) * BLOCK_M

    # keys from warp to warp, then rows; the last dimension of a product stays in a warp
    WARPS: gl.constexpr = gl.num_warps()
    WARP_KEYS: gl.constexpr = BLOCK_N // KEY_WARPS
    LANE_COLUMNS: gl.constexpr = HEAD_DIM // 32
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [KEY_WARPS, WARPS // KEY_WARPS, 1], [1, 16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    mma_rows: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, mma))
    # a warp has whole rows: of Q and O, and of what the warps that divided the keys leave
    by_row: gl.constexpr = gl.BlockedLayout([1, LANE_COLUMNS], [1, 32], [WARPS, 1], [1, 0])
    by_warp: gl.constexpr = gl.BlockedLayout([KEY_WARPS, 1, LANE_COLUMNS], [1, 1, 32], [1, WARPS, 1], [2, 1, 0])
    element: gl.constexpr = o_ptr.dtype.element_ty

    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    k_full = wg.barriers(STAGES, 1)
    v_full = wg.barriers(STAGES, 1)
    fence_async_shared()

    # This program's part of the keys, in whole tiles; the last parts may have none.
    unmasked, end = seq_kv, seq_kv
    if CAUSAL:
        unmasked = gl.minimum(first_row // group + seq_kv - seq_q + 1, seq_kv)
        end = gl.minimum((first_row + BLOCK_M - 1) // group + seq_kv - seq_q + 1, seq_kv)
    part_keys = (((gl.maximum(end, 0) + BLOCK_N - 1) // BLOCK_N + parts - 1) // parts) * BLOCK_N
    first = gl.program_id(1) * part_keys
    tiles = (gl.maximum(gl.minimum(first + part_keys, end) - first, 0) + BLOCK_N - 1) // BLOCK_N

    # load K and V of the first STAGES tiles, then Q
    for i in gl.static_range(STAGES):
        wg.load(k_desc, k_smem, k_full, i, batch, head_kv, first + i * BLOCK_N, i < tiles)
        wg.load(v_desc, v_smem, v_full, i, batch, head_kv, first + i * BLOCK_N, i < tiles)
    row = first_row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, by_row))
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, by_row))
    q_rows = q_ptr + batch.to(gl.int64) * q_stride_batch
    q_rows += (head_kv * group + row % group).to(gl.int64) * q_stride_head + (row // group).to(gl.int64) * q_stride_row
    q = gl.load(q_rows[:, None] + dim[None, :], (row < group * seq_q)[:, None], 0.0)
    q = gl.expand_dims(gl.convert_layout(q, gl.SliceLayout(0, left)), 0)
    q_regs, _ = gl.broadcast(q, gl.zeros((KEY_WARPS, BLOCK_M, HEAD_DIM), element, left))

    o = gl.zeros((KEY_WARPS, BLOCK_M, HEAD_DIM), gl.float32, mma)
    zero = gl.zeros((KEY_WARPS, BLOCK_M, WARP_KEYS), gl.float32, mma)
    row_max = gl.full((KEY_WARPS, BLOCK_M), LOWEST, gl.float32, gl.SliceLayout(2, mma))
    row_sum = gl.zeros((KEY_WARPS, BLOCK_M), gl.float32, gl.SliceLayout(2, mma))
    scale_log2 = scale * LOG2_E
    last_key = gl.full((BLOCK_M,), seq_kv - 1, gl.int32, mma_rows)
    if CAUSAL:
        query = (first_row + gl.arange(0, BLOCK_M, mma_rows)) // group
        last_key = gl.minimum(query + seq_kv - seq_q, seq_kv - 1)
    last_key = gl.expand_dims(gl.expand_dims(last_key, 0), 2)
    warp_key = gl.arange(0, KEY_WARPS, gl.SliceLayout(1, gl.SliceLayout(2, mma))) * WARP_KEYS
    key = gl.arange(0, WARP_KEYS, gl.SliceLayout(0, gl.SliceLayout(1, mma)))
    key = gl.expand_dims(gl.expand_dims(warp_key, 1), 2) + gl.expand_dims(gl.expand_dims(key, 0), 1)

    for i in range(tiles):
        start = first + i * BLOCK_N
        # S = Q K^T
        wg.wait_full(k_full, i)
        k = wg.matrix(k_smem, i).reshape((KEY_WARPS, WARP_KEYS, HEAD_DIM))
        s = mma_v2(q_regs, k.permute((0, 2, 1)).load(right), zero)
        if start + BLOCK_N > unmasked:
            s = gl.where(start + key <= last_key, s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = gl.maximum(row_max, gl.max(s, 2) * scale_log2)
        rescale = gl.exp2(row_max - new_max)
        p = gl.exp2(s * scale_log2 - gl.expand_dims(new_max, 2))
        row_sum = row_sum * rescale + gl.sum(p, 2)
        row_max = new_max
        o = o * gl.expand_dims(rescale, 2)

        # O += P V
        wg.wait_full(v_full, i)
        v = wg.matrix(v_smem, i).reshape((KEY_WARPS, WARP_KEYS, HEAD_DIM))
        p_regs = gl.convert_layout(p.to(element), left, assert_trivial=True)
        o = mma_v2(p_regs, v.load(right), o)

        fence_async_shared()
        wg.block_barrier()  # every warp has read K and V
        ahead = i + STAGES
        wg.load(k_desc, k_smem, k_full, ahead, batch, head_kv, first + ahead * BLOCK_N, ahead < tiles)
        wg.load(v_desc, v_smem, v_full, ahead, batch, head_kv, first + ahead * BLOCK_N, ahead < tiles)

    # join the warps that divided the keys: O, normalized, and its log2-sum-exp2
    largest = gl.max(row_max, 0)
    weight = gl.exp2(row_max - gl.expand_dims(largest, 0))
    row_sum = gl.sum(row_sum * weight, 0)
    # a row that sees no key has row_sum 0, so O = 0 and log2-sum-exp2 = -inf
    total = gl.where(row_sum == 0, 1.0, row_sum)
    weight = weight * gl.expand_dims(1.0 / total, 0)
    lse = gl.where(row_sum == 0, float("-inf"), largest + gl.log2(total))
    lse = gl.convert_layout(lse, gl.SliceLayout(1, by_row))
    of_warps = gl.allocate_shared_memory(
        gl.float32, (KEY_WARPS, BLOCK_M, HEAD_DIM), gl.SwizzledSharedLayout(8, 1, 4, [2, 1, 0])
    )
    of_warps.store(o * gl.expand_dims(weight, 2))
    wg.block_barrier()
    o = gl.convert_layout(gl.sum(of_warps.load(by_warp), 0), by_row, assert_trivial=True)

    exists = row < group * seq_q
    head = head_kv * group + row % group
    place = (batch.to(gl.int64) * heads + head) * seq_q + row // group
    o_rows = o_ptr + batch.to(gl.int64) * o_stride_batch
    o_rows += head.to(gl.int64) * o_stride_head + (row // group).to(gl.int64) * o_stride_row
    if parts > 1:
        rows = batches.to(gl.int64) * heads * seq_q
        partial = (counter + COUNTERS).to(gl.pointer_type(gl.float32), bitcast=True)
        partial_lse = partial + rows * parts * HEAD_DIM
        at = place * parts + gl.program_id(1)
        gl.store(partial + (at * HEAD_DIM)[:, None] + dim[None, :], o, exists[:, None])
        gl.store(partial_lse + at, lse, exists)
        # The last program of the tile joins: its atomic orders what the others wrote before theirs.
        wg.block_barrier()
        taken = gl.atomic_add(counter + gl.program_id(0), 1, sem="acq_rel", scope="gpu")
        if taken == parts - 1:
            wg.block_barrier()
            joined, joined_lse = join(partial, partial_lse, place * parts, exists, parts, by_row, HEAD_DIM, AT_ONCE)
            gl.store(o_rows[:, None] + dim[None, :], joined.to(element), exists[:, None])
            gl.store(lse_ptr + place, joined_lse * LN_2, exists)
            gl.store(counter + gl.program_id(0), 0)
    else:
        gl.store(o_rows[:, None] + dim[None, :], o.to(element), exists[:, None])
        gl.store(lse_ptr + place, lse * LN_2, exists)


@dataclass(frozen=True)
class GluonTwin(PackedTwin):
    """A PackedTwin whose descriptors carry the layout of the buffers, and whose kernel takes STAGES."""

    def _counted(self, heads_kv: int, seq_kv: int, tile: Any) -> PackedTwin:
        counted = super()._counted(heads_kv, seq_kv, tile)

        def refine(offered: dict[str, Any]) -> dict[str, Any]:
            given = describe(counted.refine(offered), {"k": "BLOCK_N", "v": "BLOCK_N"})
            for name in ("k_desc", "v_desc"):
                one = given[name]
                given[name] = TensorDescriptor(one.base, one.shape, one.strides, one.block_shape, wg.LAYOUT)
            return given | {"STAGES": tile.stages}

        return replace(counted, refine=refine)


twin = GluonTwin(flagship_decode, lambda tile: options(tile, num_stages=1), splits=True)
