"""Two blocks of a cluster share K and V: one loads a tile, and multicast brings it to both.

Builds on pinned_maxima; a program is a pair of blocks. Full attention only, any lengths, strides, grouped heads and
head_dim 64, 128 and 256. In the CUDA twin each block loads half of the rows for both; here the first block loads
whatever both hold.

Layouts say which block holds what: 64 of each warpgroup's 128 query rows, and all of K and V. Each block has its own
full barriers. An empty barrier belongs to the pair: it lies in the first block, which alone waits for it, and completes
when the consumer warpgroups of both blocks have released the buffer. So the second block's producer waits until its own
buffer was full before it expects the next bytes there. Gluon has barriers of a pair since Triton 3.8: in 3.7, which has
multicast, a block can arrive only at its own.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention import specialization

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)


PAIR = gl.constexpr(2 * 64)
"""Query rows of a warpgroup, over both blocks."""

IN_BOTH = gl.constexpr([[0, 0, 0, 0]])
"""Offset of the second block's part of a 4-dimensional tile: none, both blocks hold all of it."""

BY_ROWS = gl.constexpr([[0, 0, 1, 0]])
"""The same for a tile of which the second block holds the second half of the rows."""


class Buffers(NamedTuple):
    """What the warps of a pair of blocks share in shared memory."""

    q_smem: gl.shared_memory_descriptor
    k_smem: gl.shared_memory_descriptor
    v_smem: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    turns: gl.shared_memory_descriptor
    pins: gl.shared_memory_descriptor


@gluon.constexpr_function
def accumulator(columns):
    """The register layout of a product: each block has half of a warpgroup's rows."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16], cga_layout=[[1, 0]])


@gluon.jit
def barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """NUMBER mbarriers in each block; a phase completes after ARRIVALS arrivals of that block."""
    ring = gl.allocate_shared_memory(gl.int64, [NUMBER, 2], mbarrier.MBarrierLayout.multicta(2))
    for i in gl.static_range(NUMBER):
        mbarrier.init(ring.index(i), count=ARRIVALS)
    return ring


@gluon.jit
def barriers_of_both(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """NUMBER mbarriers for the pair of blocks; a phase completes after ARRIVALS arrivals of each block."""
    ring = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout.multicta(2, two_cta=True))
    for i in gl.static_range(NUMBER):
        mbarrier.init(ring.index(i), count=ARRIVALS)
    return ring


@gluon.jit
def _load_for_both(desc, smem, full, empty, step, batch, head):
    """Loads the rows of K or V for `step` into both blocks' buffers, when both blocks have released them."""
    stages: gl.constexpr = smem.shape[0]
    rows: gl.constexpr = smem.shape[3]
    wg.wait_empty(empty, step)
    if step >= stages:
        wg.wait_full(full, step - stages)
    at = step % stages
    mbarrier.expect(full.index(at), desc.block_type.nbytes)
    tma.async_load(desc, [batch, head, step * rows, 0], full.index(at), smem.index(at), multicast=True)


@gluon.jit
def _produce(loads):
    """Loads Q, then in every iteration K and the previous iteration's V, each as soon as its buffer is empty."""
    buffers, q_desc, k_desc, v_desc, batch, head, kv_head, q_start, key_tiles = loads
    GROUPS: gl.constexpr = buffers.q_smem.shape[0]
    mbarrier.expect(buffers.q_full.index(0), GROUPS * q_desc.block_type.nbytes // 2)
    for group in gl.static_range(GROUPS):
        rows = [batch, head, q_start + group * PAIR, 0]
        tma.async_load(q_desc, rows, buffers.q_full.index(0), buffers.q_smem.index(group))
    for j in range(key_tiles + 1):
        if j < key_tiles:
            _load_for_both(k_desc, buffers.k_smem, buffers.k_full, buffers.k_empty, j, batch, kv_head)
        if j > 0:
            _load_for_both(v_desc, buffers.v_smem, buffers.v_full, buffers.v_empty, j - 1, batch, kv_head)


@gluon.jit
def _softmax(s, carried: gl.constexpr, row_max, row_sum, scale_log2, pin, k_empty, j):
    """Returns P, the new row_max and row_sum, and the factor for O. row_max and the exponents are in base 2.

    Releases K of tile j when the row maxima are known.
    """
    new_max = gl.maximum(row_max, gl.max(s, 1) * scale_log2)
    pin.store(new_max)
    wg.arrive(k_empty, j)
    rescale = gl.exp2(row_max - new_max)
    p = gl.exp2(s * scale_log2 - new_max[:, None])
    pieces: gl.constexpr = row_sum.type.layout
    sums = gl.sum(p.reshape((PAIR, p.shape[1] // wg.PIECES, wg.PIECES)), 1)
    row_sum *= gl.convert_layout(rescale, gl.SliceLayout(1, pieces), assert_trivial=True)[:, None]
    row_sum += gl.convert_layout(sums, pieces, assert_trivial=True)
    return p.to(carried), new_max, row_sum, rescale


@gluon.jit
def _issue(p, o, zero, q_rows, buffers, j, element: gl.constexpr, operand: gl.constexpr):
    """Issues S = Q K^T of tile j and O += P V of the tile before; returns both, and P, which is still being read."""
    p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
    wg.wait_full(buffers.k_full, j)
    s = warpgroup_mma(q_rows, wg.matrix(buffers.k_smem, j).permute((1, 0)), zero, use_acc=False, is_async=True)
    wg.wait_full(buffers.v_full, j - 1)
    o = warpgroup_mma(p_regs, wg.matrix(buffers.v_smem, j - 1), o, is_async=True)
    return s, o, p_regs


@gluon.jit
def _consume(work, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, GROUP: gl.constexpr):
    """Computes the 128 rows of O of consumer warpgroup GROUP, 64 in each block."""
    buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale_log2 = work
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    scores: gl.constexpr = accumulator(BLOCK_N)
    output: gl.constexpr = accumulator(HEAD_DIM)
    operand: gl.constexpr = gl.DotOperandLayout(0, output, 2)
    element: gl.constexpr = o_ptr.dtype.element_ty
    carried: gl.constexpr = wg.carried(element, HEAD_DIM, BLOCK_N, buffers.q_smem.shape[0])
    first_row = q_start + GROUP * PAIR

    pin = buffers.pins.index(GROUP)
    o = gl.zeros((PAIR, HEAD_DIM), gl.float32, output)
    zero = gl.zeros((PAIR, BLOCK_N), gl.float32, scores)
    row_max = gl.full((PAIR,), LOWEST, gl.float32, gl.SliceLayout(1, scores))
    row_sum = gl.zeros((PAIR, wg.PIECES), gl.float32, accumulator(wg.PIECES))
    last_key = gl.full((PAIR,), seq_kv - 1, gl.int32, gl.SliceLayout(1, scores))
    if CAUSAL:
        row = first_row + gl.arange(0, PAIR, gl.SliceLayout(1, scores))
        last_key = gl.minimum(row + seq_kv - seq_q, last_key)

    # prologue: the first Q K^T overlaps with no P V
    q_rows = wg.matrix(buffers.q_smem, GROUP)
    wg.wait_full(buffers.q_full, 0)
    wg.wait_full(buffers.k_full, 0)
    s = warpgroup_mma(q_rows, wg.matrix(buffers.k_smem, 0).permute((1, 0)), zero, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=[s])
    if CAUSAL or not EVEN_N:
        key = gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
        s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
    p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, 0)

    for j in range(1, gl.maximum(whole_tiles, 1)):
        wg.wait_turn(buffers.turns, j - 1, GROUP)
        s, o, p_regs = _issue(p, o, zero, q_rows, buffers, j, element, operand)
        wg.pass_turn(buffers.turns, GROUP)
        s = warpgroup_mma_wait(1, deps=[s])
        p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, j)
        o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
        wg.arrive(buffers.v_empty, j - 1)
        o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]
    if CAUSAL or not EVEN_N:
        for j in range(gl.maximum(whole_tiles, 1), key_tiles):
            s, o, p_regs = _issue(p, o, zero, q_rows, buffers, j, element, operand)
            s = warpgroup_mma_wait(1, deps=[s])
            key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
            p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, j)
            o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
            wg.arrive(buffers.v_empty, j - 1)
            o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]

    # the last P V overlaps with no Q K^T
    p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
    wg.wait_full(buffers.v_full, key_tiles - 1)
    o = warpgroup_mma(p_regs, wg.matrix(buffers.v_smem, key_tiles - 1), o, is_async=True)
    o = warpgroup_mma_wait(0, deps=[o])

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    row_sum = gl.convert_layout(gl.sum(row_sum, 1), gl.SliceLayout(1, scores))
    total = gl.where(row_sum == 0, 1.0, row_sum)
    o = o * gl.convert_layout(1.0 / total, gl.SliceLayout(1, output))[:, None]
    row = first_row + gl.arange(0, PAIR, gl.SliceLayout(1, output))
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, output))
    gl.store(o_ptr + row[:, None].to(gl.int64) * o_stride_row + dim[None, :], o.to(element), (row < seq_q)[:, None])
    row = first_row + gl.arange(0, PAIR, gl.SliceLayout(1, scores))
    lse = gl.where(row_sum == 0, float("-inf"), (row_max + gl.log2(total)) * LN_2)
    gl.store(lse_ptr + row, lse, row < seq_q)


@gluon.jit
def cluster_multicast(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    GROUPS: gl.constexpr = 2 * BLOCK_M // PAIR
    q_tiles = (seq_q + 2 * BLOCK_M - 1) // (2 * BLOCK_M)
    heads_total = gl.num_programs(0) // q_tiles
    batch_head, q_tile = wg.longest_first(gl.program_id(0), heads_total, q_tiles, seq_kv, HEAD_DIM)
    batch, head = batch_head // heads, batch_head % heads
    q_start = q_tile * 2 * BLOCK_M
    whole_tiles, key_tiles = wg.key_tiles(q_start, 2 * BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
    o_ptr += batch.to(gl.int64) * o_stride_batch + head.to(gl.int64) * o_stride_head
    lse_ptr += batch_head.to(gl.int64) * seq_q

    q_smem = wg.buffers(q_desc, GROUPS)
    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    q_full = barriers(1, 1)
    k_full = barriers(STAGES, 1)
    v_full = barriers(STAGES, 1)
    k_empty = barriers_of_both(STAGES, GROUPS)
    v_empty = barriers_of_both(STAGES, GROUPS)
    turns = barriers(GROUPS, 1)
    by_rows: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[1]])
    pins = gl.allocate_shared_memory(gl.float32, [GROUPS, PAIR], by_rows)
    fence_async_shared()

    buffers = Buffers(q_smem, k_smem, v_smem, q_full, k_full, v_full, k_empty, v_empty, turns, pins)
    work = (buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale * LOG2_E)
    loads = (buffers, q_desc, k_desc, v_desc, batch, head, head // group, q_start, key_tiles)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consume, (work, CAUSAL, EVEN_N, 0)),
                (_consume, (work, CAUSAL, EVEN_N, 1)),
                (_produce, (loads,)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (work, CAUSAL, EVEN_N, 0)),
                (_consume, (work, CAUSAL, EVEN_N, 1)),
                (_consume, (work, CAUSAL, EVEN_N, 2)),
                (_produce, (loads,)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )
    hopper.cluster.barrier()  # no block exits before the other has released its last buffer


def pairs_grid(q, tile):
    """A one-dimensional grid: one program for each pair of query blocks of each head."""
    return (-(-q.shape[2] // (2 * tile.block_m)) * q.shape[1] * q.shape[0],)


def options(tile):
    return {**wg.options(tile), "num_ctas": 2}


class PairTwin(wg.Twin):
    """A twin whose descriptors say which part of a tile each block of a pair holds."""

    def at(self, tile):
        plain = super().at(tile)

        def refine(arguments):
            refined = plain.refine(arguments)
            for name, parts in (("q_desc", BY_ROWS), ("k_desc", IN_BOTH), ("v_desc", IN_BOTH)):
                whole = refined[name]
                layout = gl.NVMMASharedLayout(128, 16, rank=4, cga_layout=parts.value)
                refined[name] = TensorDescriptor(whole.base, whole.shape, whole.strides, whole.block_shape, layout)
            return refined

        return specialization.Twin(self.kernel, self.options, self.grid, refine)


twin = PairTwin(cluster_multicast, options, pairs_grid, query_rows=PAIR.value)
