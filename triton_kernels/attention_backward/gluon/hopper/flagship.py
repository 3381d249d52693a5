"""The techniques of the ladder that pay in Gluon, and the end of a step under the next one's products.

Builds on longest_first; changes the order of queries, when a step ends, which problems have a mask, and who works out
where a tile is. General: any lengths, strides that are multiples of 16 bytes; heads that share K and V are summed in
the loop. Core Triton's twin has no roles.

With a causal mask the queries are taken from the last one on, as in descending: all programs of a head begin at the
same tile and stay together, so that L2 holds the sums of dQ that they add to. The barriers around the arrival that ends
a step stand behind S and dP of the next step, which run meanwhile. A problem without a causal mask whose keys fill
their tiles has no branch for a mask: there the branch costs more than it gains.
The warp that loads also works out where a tile of keys is, so that the others divide nothing.
Fences are those of overlapped. That for dQ is still before the next step's products: behind them it would crash the
assembler, and the barrier before the arrival is after both.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention_backward import gluon_warpgroups as backward

LOG2_E = gl.constexpr(1.4426950408889634)


class Sizes(NamedTuple):
    """What all of the program's tiles have in common; `blocks` are the tiles of keys of all heads."""

    blocks: gl.tensor
    heads: gl.tensor
    heads_kv: gl.tensor
    group: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor
    scratch_rows: gl.tensor


class Queue(NamedTuple):
    """Two places for a tile of keys: its first key, or -1 after the last tile, and its head of K and V."""

    kv_start: gl.shared_memory_descriptor
    batch_head: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor


@gluon.jit
def _put(queue, block, kv_start, batch_head):
    """Called by one warp: passes on the program's tile `block` (counted from 0)."""
    wg.wait_empty(queue.empty, block)
    one: gl.constexpr = wg.one_number(1)
    queue.kv_start.index(block % 2).store(gl.full((1,), kv_start, gl.int32, one))
    queue.batch_head.index(block % 2).store(gl.full((1,), batch_head, gl.int32, one))
    wg.arrive(queue.full, block)


@gluon.jit
def _take(queue, block, WARPS: gl.constexpr):
    """Called by a partition of so many warps: the first key and the head of the program's tile `block`."""
    wg.wait_full(queue.full, block)
    one: gl.constexpr = wg.one_number(WARPS)
    kv_start = gl.max(queue.kv_start.index(block % 2).load(one), 0)
    batch_head = gl.max(queue.batch_head.index(block % 2).load(one), 0)
    wg.arrive(queue.empty, block)
    return kv_start, batch_head


@gluon.jit
def _tile(kv_start, batch_head, sizes, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """The batch, the head of K and V, the first query and the last tile's first of those that a tile of keys goes
    through."""
    first = 0
    if CAUSAL:
        first = gl.maximum(kv_start + sizes.seq_q - sizes.seq_kv, 0) // BLOCK_M * BLOCK_M
    last = (sizes.seq_q - 1) // BLOCK_M * BLOCK_M
    return batch_head // sizes.heads_kv, batch_head % sizes.heads_kv, first, last


@gluon.jit
def _produce(loads, sizes, queue, kv_empty, counter, CAUSAL: gl.constexpr):
    """Takes the numbers of the program's tiles of keys, passes the tiles on and loads for each of them."""
    buffers, k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc = loads
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    key_tiles = (sizes.seq_kv + BLOCK_N - 1) // BLOCK_N
    number = gl.program_id(0)
    block = 0
    step = 0
    while number < sizes.blocks:
        place = backward.longest_first(number, sizes.blocks, sizes.seq_q, sizes.seq_kv, HEAD_DIM, BLOCK_N, CAUSAL)
        batch_head = place // key_tiles
        kv_start = (place - batch_head * key_tiles) * BLOCK_N
        _put(queue, block, kv_start, batch_head)
        batch, head_kv, first, last = _tile(kv_start, batch_head, sizes, BLOCK_M, CAUSAL)
        wg.wait_empty(kv_empty, block)
        full = buffers.kv_full.index(0)
        mbarrier.expect(full, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
        wg.load_async(k_desc, [batch, head_kv, kv_start, 0], full, buffers.k_smem.index(0))
        wg.load_async(v_desc, [batch, head_kv, kv_start, 0], full, buffers.v_smem.index(0))
        for head in range(head_kv * sizes.group, (head_kv + 1) * sizes.group):
            numbers = (batch * sizes.heads + head) * sizes.scratch_rows
            for passed in range(0, last - first + 1, BLOCK_M):
                start = last - passed if CAUSAL else passed
                wg.wait_empty(buffers.done, step)
                backward._load_queries(
                    q_desc, buffers.q_smem, lse_desc, buffers.lse_smem, buffers.q_full, step, batch, head, start,
                    numbers + start,
                )  # fmt: skip
                backward._load_queries(
                    do_desc, buffers.do_smem, dots_desc, buffers.dots_smem, buffers.do_full, step, batch, head, start,
                    numbers + start,
                )  # fmt: skip
                step += 1
        block += 1
        number = wg.take_number(counter, sizes.blocks)
    _put(queue, block, -1, 0)


@gluon.jit
def _reduce(sums, sizes, queue, CAUSAL: gl.constexpr):
    """Adds dQ of all of the program's tiles of keys."""
    buffers, dq_desc = sums
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    block = 0
    step = 0
    kv_start, batch_head = _take(queue, block, 1)
    while kv_start >= 0:
        batch, head_kv, first, last = _tile(kv_start, batch_head, sizes, BLOCK_M, CAUSAL)
        for head in range(head_kv * sizes.group, (head_kv + 1) * sizes.group):
            numbers = (batch * sizes.heads + head) * sizes.scratch_rows
            for passed in range(0, last - first + 1, BLOCK_M):
                start = last - passed if CAUSAL else passed
                wg.wait_full(buffers.done, step)
                row = (numbers + start) // BLOCK_M * (backward.TILE // backward.TILE_ROW)
                backward.add_async(dq_desc, [row, 0], buffers.dq_smem)
                tma.store_wait(0)
                wg.arrive(buffers.dq_empty, step)
                step += 1
        block += 1
        kv_start, batch_head = _take(queue, block, 1)


@gluon.jit
def _end(done, step, pred):
    """If pred holds, tells the other warps that the step before `step` has ended: Q and dO may be replaced, and dQ may
    be added."""
    mbarrier.arrive(done.index((step + done.shape[0] - 1) % done.shape[0]), count=1, pred=pred)


@gluon.jit
def _consume(work, sizes, queue, kv_empty, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr):
    """Computes dK and dV of the keys of the program's tiles, and what they add to every tile of dQ."""
    buffers, dk_ptr, dv_ptr, dk_strides, dv_strides, scale = work
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.q_smem.shape[4]
    DV_UNDER_DS: gl.constexpr = BLOCK_M == 64  # the registers do not hold P of 128 queries in 32 and in 16 bits
    scores: gl.constexpr = backward.accumulator(BLOCK_N, BLOCK_M)
    gradient: gl.constexpr = backward.accumulator(BLOCK_N, HEAD_DIM)
    operand: gl.constexpr = gl.DotOperandLayout(0, gradient, 2)
    element: gl.constexpr = buffers.q_smem.dtype
    key = gl.arange(0, BLOCK_N, gl.SliceLayout(1, scores))
    column = gl.arange(0, BLOCK_M, gl.SliceLayout(0, scores))
    scale_log2 = scale * LOG2_E

    zero = gl.zeros((BLOCK_N, BLOCK_M), gl.float32, scores)
    dq_zero = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, backward.accumulator(BLOCK_M, HEAD_DIM))
    k = wg.matrix(buffers.k_smem, 0)
    v = wg.matrix(buffers.v_smem, 0)
    block = 0
    begin = 0
    kv_start, batch_head = _take(queue, block, 8)
    while kv_start >= 0:
        batch, head_kv, first, last = _tile(kv_start, batch_head, sizes, BLOCK_M, CAUSAL)
        keys = sizes.seq_kv - kv_start  # from the tile's first on
        diagonal = keys - sizes.seq_q  # a query sees as many keys as its row, this and 1
        dk = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
        dv = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
        wg.wait_full(buffers.kv_full, block)
        q_start = last
        steps = ((last - first) // BLOCK_M + 1) * sizes.group
        for step in range(begin, begin + steps):
            # S^T = K Q^T, dP^T = V dO^T
            q = wg.matrix(buffers.q_smem, step)
            do = wg.matrix(buffers.do_smem, step)
            wg.wait_full(buffers.q_full, step)
            s = warpgroup_mma(k, q.permute((1, 0)), zero, use_acc=False, is_async=True)
            wg.wait_full(buffers.do_full, step)
            dp = warpgroup_mma(v, do.permute((1, 0)), zero, use_acc=False, is_async=True)
            _end(buffers.done, step, step > begin)
            s = warpgroup_mma_wait(1, deps=[s])

            # P = exp2(S - LSE): 0 where the mask hides a key, or none exists
            lse = buffers.lse_smem.index(step % buffers.lse_smem.shape[0]).load(gl.SliceLayout(0, scores))
            p = gl.exp2(s * scale_log2 - lse[None, :])
            if CAUSAL or not EVEN_N:
                seen = gl.minimum(keys, q_start + diagonal + 1) if CAUSAL else keys  # by the first query
                if seen < BLOCK_N:
                    if CAUSAL:
                        p = gl.where(key[:, None] < gl.minimum(q_start + diagonal + 1 + column, keys)[None, :], p, 0.0)
                    else:
                        p = gl.where((key < keys)[:, None], p, 0.0)
            dp = warpgroup_mma_wait(0, deps=[dp])

            # dV += P^T dO
            p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
            if DV_UNDER_DS:
                dv = warpgroup_mma(p_regs, do, dv, is_async=True)

            # dS = P (dP - D)
            dots = buffers.dots_smem.index(step % buffers.dots_smem.shape[0]).load(gl.SliceLayout(0, scores))
            ds = (p * (dp - dots[None, :])).to(element)
            if not DV_UNDER_DS:
                dv = warpgroup_mma(p_regs, do, dv, is_async=True)
            buffers.ds_smem.store(ds)
            fence_async_shared()

            # dQ = dS K, dK += dS^T Q
            dq = warpgroup_mma(buffers.ds_smem.permute((1, 0)), k, dq_zero, use_acc=False, is_async=True)
            ds_regs = gl.convert_layout(ds, operand, assert_trivial=True)
            dk = warpgroup_mma(ds_regs, q, dk, is_async=True)
            dv, p_regs, dq = warpgroup_mma_wait(1, deps=[dv, p_regs, dq])
            backward.put_dq(buffers, dq, step)
            dk, ds_regs = warpgroup_mma_wait(0, deps=[dk, ds_regs])
            fence_async_shared()
            q_start = gl.where(q_start > first, q_start - BLOCK_M, last)
        _end(buffers.done, begin + steps, True)
        wg.arrive(kv_empty, block)

        # epilogue
        dk_head = dk_ptr + batch.to(gl.int64) * dk_strides[0] + head_kv.to(gl.int64) * dk_strides[1]
        backward.store_keys(dk * scale, dk_head, dk_strides[2], kv_start, sizes.seq_kv)
        dv_head = dv_ptr + batch.to(gl.int64) * dv_strides[0] + head_kv.to(gl.int64) * dv_strides[1]
        backward.store_keys(dv, dv_head, dv_strides[2], kv_start, sizes.seq_kv)
        begin += steps
        block += 1
        kv_start, batch_head = _take(queue, block, 8)


@gluon.jit
def flagship(
    q_desc, k_desc, v_desc, do_desc, lse_desc, dots_desc, dq_desc, dk_ptr, dv_ptr, counter, scale, batches, heads,
    heads_kv, group, seq_q, seq_kv, scratch_rows, dk_stride_batch, dk_stride_head, dk_stride_row,
    dv_stride_batch, dv_stride_head, dv_stride_row,
    BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    buffers = backward.allocate(k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc, dq_desc, STAGES)
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    queue = Queue(
        gl.allocate_shared_memory(gl.int32, [2, 1], layout), gl.allocate_shared_memory(gl.int32, [2, 1], layout),
        wg.barriers(2, 1), wg.barriers(2, 2),
    )  # fmt: skip
    kv_empty = wg.barriers(1, 1)
    blocks = (seq_kv + BLOCK_N - 1) // BLOCK_N * heads_kv * batches
    sizes = Sizes(blocks, heads, heads_kv, group, seq_q, seq_kv, scratch_rows)
    dk_strides = (dk_stride_batch, dk_stride_head, dk_stride_row)
    dv_strides = (dv_stride_batch, dv_stride_head, dv_stride_row)
    work = (buffers, dk_ptr, dv_ptr, dk_strides, dv_strides, scale)
    loads = (buffers, k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc)
    sums = (buffers, dq_desc)
    gl.warp_specialize(
        [
            (_consume, (work, sizes, queue, kv_empty, CAUSAL, EVEN_N)),
            (_produce, (loads, sizes, queue, kv_empty, counter, CAUSAL)),
            (_reduce, (sums, sizes, queue, CAUSAL)),
        ],
        [1, 1],
        [24, 24],
    )


twin = backward.Twin(flagship, backward.options)
