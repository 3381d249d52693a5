"""The techniques of the ladder that pay in Gluon. Builds on head_by_head and own_diagonal, whose files explain them.
General: any lengths, strides, grouped heads and head_dim 64, 128 and 256.

One block per multiprocessor takes tile after tile from a counter. One producer warp loads Q, K and V. Two or three math
warpgroups take turns at issuing the next Q K^T with the previous P V, and stop at their own diagonals. O leaves by TMA
from the buffer of Q. Where that pays, maxima are of three integers, as in integer_max. The CUDA twin has more: a
rescale of O that each warp skips if none of its rows has a new maximum. In Gluon an if statement is for all warps of a
partition; one in gl.map_elementwise is for a thread, as in thread_rescale.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_kernels.attention import gluon_pipeline as pipeline
from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention.specialization import persistent_grid

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def _softmax(s, carried: gl.constexpr, row_max, row_sum, scale_log2, pin, k_empty, j, INTEGERS: gl.constexpr):
    """Returns P, the new row_max and row_sum, and the factor for O. row_max and the exponents are in base 2. INTEGERS:
    no row_max is negative.

    Releases K of tile j when the row maxima are known.
    """
    largest = gl.max(s.to(gl.int32, bitcast=True), 1).to(gl.float32, bitcast=True) if INTEGERS else gl.max(s, 1)
    new_max = gl.maximum(row_max, largest * scale_log2)
    pin.store(new_max)
    wg.arrive(k_empty, j)
    rescale = gl.exp2(row_max - new_max)
    p = gl.exp2(s * scale_log2 - new_max[:, None])
    pieces: gl.constexpr = row_sum.type.layout
    sums = gl.sum(p.reshape((wg.ROWS, p.shape[1] // wg.PIECES, wg.PIECES)), 1)
    row_sum *= gl.convert_layout(rescale, gl.SliceLayout(1, pieces), assert_trivial=True)[:, None]
    row_sum += gl.convert_layout(sums, pieces, assert_trivial=True)
    return p.to(carried), new_max, row_sum, rescale


@gluon.jit
def _issue(p, o, zero, q_rows, buffers, step, element: gl.constexpr, operand: gl.constexpr):
    """Issues S = Q K^T of `step` and O += P V of the step before; returns both, and P, which is still being read."""
    p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
    wg.wait_full(buffers.k_full, step)
    s = warpgroup_mma(q_rows, wg.matrix(buffers.k_smem, step).permute((1, 0)), zero, use_acc=False, is_async=True)
    wg.wait_full(buffers.v_full, step - 1)
    o = warpgroup_mma(p_regs, wg.matrix(buffers.v_smem, step - 1), o, is_async=True)
    return s, o, p_regs


@gluon.jit
def _consume(work, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, INTEGERS: gl.constexpr, GROUP: gl.constexpr):
    """Computes the 64 rows of O of consumer warpgroup GROUP, tile after tile."""
    buffers, sizes, o_desc, lse_ptr, scale_log2 = work
    GROUPS: gl.constexpr = buffers.turns.shape[0]
    Q_BUFFERS: gl.constexpr = buffers.q_full.shape[0]
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    scores: gl.constexpr = wg.accumulator(BLOCK_N)
    output: gl.constexpr = wg.accumulator(HEAD_DIM)
    operand: gl.constexpr = gl.DotOperandLayout(0, output, 2)
    element: gl.constexpr = o_desc.dtype
    carried: gl.constexpr = wg.carried(element, HEAD_DIM, BLOCK_N, GROUPS)
    pin = buffers.pins.index(GROUP)
    zero = gl.zeros((wg.ROWS, BLOCK_N), gl.float32, scores)
    q_tiles = (sizes.seq_q + GROUPS * wg.ROWS - 1) // (GROUPS * wg.ROWS)
    tile = 0
    step = 0  # the ring position of this tile's first K and V
    turn = 0
    number = wg.take(buffers.queue, tile)
    while number < sizes.heads_total * q_tiles:
        batch_head, q_tile = wg.head_by_head(number, sizes.heads_total, q_tiles, sizes.seq_kv, HEAD_DIM, CAUSAL)
        q_start = q_tile * GROUPS * wg.ROWS
        first_row = q_start + GROUP * wg.ROWS
        whole_tiles, key_tiles = wg.key_tiles(q_start, GROUPS * wg.ROWS, sizes.seq_q, sizes.seq_kv, BLOCK_N, CAUSAL)
        _, own_tiles = wg.key_tiles(first_row, wg.ROWS, sizes.seq_q, sizes.seq_kv, BLOCK_N, CAUSAL)
        last_key = gl.full((wg.ROWS,), sizes.seq_kv - 1, gl.int32, gl.SliceLayout(1, scores))
        if CAUSAL:
            row = first_row + gl.arange(0, wg.ROWS, gl.SliceLayout(1, scores))
            last_key = gl.minimum(row + sizes.seq_kv - sizes.seq_q, last_key)
        o = gl.zeros((wg.ROWS, HEAD_DIM), gl.float32, output)
        row_max = gl.full((wg.ROWS,), LOWEST, gl.float32, gl.SliceLayout(1, scores))
        row_sum = gl.zeros((wg.ROWS, wg.PIECES), gl.float32, wg.accumulator(wg.PIECES))

        # prologue: the first Q K^T overlaps with no P V
        q_rows = wg.matrix(buffers.q_smem, tile % Q_BUFFERS * GROUPS + GROUP)
        wg.wait_full(buffers.q_full, tile)
        wg.wait_full(buffers.k_full, step)
        s = warpgroup_mma(q_rows, wg.matrix(buffers.k_smem, step).permute((1, 0)), zero, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=[s])
        if Q_BUFFERS > 1 and tile > 0:
            pipeline.hand_back(buffers.q_empty, tile - 1)
        if CAUSAL or not EVEN_N:
            key = gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
        p, row_max, row_sum, rescale = _softmax(
            s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, step, False
        )

        first = 1
        if INTEGERS:  # integers only once no row maximum is negative
            while (first < whole_tiles) & (gl.min(row_max, 0) < 0):
                wg.wait_turn(buffers.turns, turn, GROUP)
                s, o, p_regs = _issue(p, o, zero, q_rows, buffers, step + first, element, operand)
                wg.pass_turn(buffers.turns, GROUP)
                turn += 1
                s = warpgroup_mma_wait(1, deps=[s])
                p, row_max, row_sum, rescale = _softmax(
                    s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, step + first, False
                )
                o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
                wg.arrive(buffers.v_empty, step + first - 1)
                o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]
                first += 1
        for j in range(first, gl.maximum(whole_tiles, 1)):
            wg.wait_turn(buffers.turns, turn, GROUP)
            s, o, p_regs = _issue(p, o, zero, q_rows, buffers, step + j, element, operand)
            wg.pass_turn(buffers.turns, GROUP)
            turn += 1
            s = warpgroup_mma_wait(1, deps=[s])
            p, row_max, row_sum, rescale = _softmax(
                s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, step + j, INTEGERS
            )
            o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
            wg.arrive(buffers.v_empty, step + j - 1)
            o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]
        if CAUSAL or not EVEN_N:
            for j in range(gl.maximum(whole_tiles, 1), own_tiles):
                s, o, p_regs = _issue(p, o, zero, q_rows, buffers, step + j, element, operand)
                s = warpgroup_mma_wait(1, deps=[s])
                key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
                s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
                p, row_max, row_sum, rescale = _softmax(
                    s, carried, row_max, row_sum, scale_log2, pin, buffers.k_empty, step + j, False
                )
                o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
                wg.arrive(buffers.v_empty, step + j - 1)
                o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]

        # the last P V overlaps with no Q K^T
        p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
        wg.wait_full(buffers.v_full, step + own_tiles - 1)
        o = warpgroup_mma(p_regs, wg.matrix(buffers.v_smem, step + own_tiles - 1), o, is_async=True)
        for skipped in range(step + own_tiles, step + key_tiles):
            wg.wait_full(buffers.k_full, skipped)
            wg.arrive(buffers.k_empty, skipped)
        o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
        wg.arrive(buffers.v_empty, step + own_tiles - 1)
        for skipped in range(step + own_tiles, step + key_tiles):
            wg.wait_full(buffers.v_full, skipped)
            wg.arrive(buffers.v_empty, skipped)
        step += key_tiles

        # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
        total = gl.convert_layout(gl.sum(row_sum, 1), gl.SliceLayout(1, scores))
        divisor = gl.where(total == 0, 1.0, total)
        o = o * gl.convert_layout(1.0 / divisor, gl.SliceLayout(1, output))[:, None]
        q_rows.store(o.to(element))
        fence_async_shared()
        o_smem = buffers.q_smem.index(tile % Q_BUFFERS * GROUPS + GROUP)
        wg.store_async(o_desc, [batch_head // sizes.heads, batch_head % sizes.heads, first_row, 0], o_smem)
        row = first_row + gl.arange(0, wg.ROWS, gl.SliceLayout(1, scores))
        lse = gl.where(total == 0, float("-inf"), (row_max + gl.log2(divisor)) * LN_2)
        gl.store(lse_ptr + batch_head.to(gl.int64) * sizes.seq_q + row, lse, row < sizes.seq_q)
        if Q_BUFFERS == 1:
            pipeline.hand_back(buffers.q_empty, tile)
        tile += 1
        number = wg.take(buffers.queue, tile)
    tma.store_wait(0)


@gluon.jit
def flagship(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, counter, scale, batches, heads, group, seq_q, seq_kv,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr,
    STAGES: gl.constexpr, Q_BUFFERS: gl.constexpr,
):  # fmt: skip
    GROUPS: gl.constexpr = BLOCK_M // wg.ROWS
    INTEGERS: gl.constexpr = GROUPS == 2 and BLOCK_N == 128 and (HEAD_DIM == 64 or (HEAD_DIM == 128 and not CAUSAL))
    buffers = pipeline.allocate(q_desc, k_desc, v_desc, GROUPS, STAGES, Q_BUFFERS)
    sizes = pipeline.Sizes(batches * heads, heads, group, seq_q, seq_kv)
    work = (buffers, sizes, o_desc, lse_ptr, scale * LOG2_E)
    loads = (buffers, sizes, q_desc, k_desc, v_desc, counter)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consume, (work, CAUSAL, EVEN_N, INTEGERS, 0)),
                (_consume, (work, CAUSAL, EVEN_N, INTEGERS, 1)),
                (pipeline.produce, (loads, True, CAUSAL)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (work, CAUSAL, EVEN_N, INTEGERS, 0)),
                (_consume, (work, CAUSAL, EVEN_N, INTEGERS, 1)),
                (_consume, (work, CAUSAL, EVEN_N, INTEGERS, 2)),
                (pipeline.produce, (loads, True, CAUSAL)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


twin = wg.Twin(flagship, wg.options, persistent_grid)
