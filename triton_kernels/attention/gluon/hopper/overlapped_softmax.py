"""Inside a warpgroup the next Q K^T is issued together with this P V, and the softmax runs while P V is in flight.

Builds on producer_consumer; changes the order of products, so the first Q K^T and the last P V are outside the loop.
General: any lengths, strides, grouped heads and head_dim 64, 128 and 256. The source places both waits, which core
Triton cannot. ptxas may still move them: its listing shows what remains of the order.

Where registers allow, the loop carries P in fp32 and converts it to an operand in the next iteration: in 16 bits the
compiler would unpack and repack it. Tiles cut by the mask have a loop of their own.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention.specialization import linear_grid

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)


class Buffers(NamedTuple):
    """What the warps of a block share in shared memory."""

    q_smem: gl.shared_memory_descriptor
    k_smem: gl.shared_memory_descriptor
    v_smem: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor


@gluon.jit
def _produce(loads):
    """Loads Q, then K and V of every iteration, each as soon as its buffer is empty."""
    buffers, q_desc, k_desc, v_desc, batch, head, kv_head, q_start, key_tiles = loads
    wg.load_rows(q_desc, buffers.q_smem, buffers.q_full, 0, batch, head, q_start)
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    for j in range(key_tiles):
        wg.wait_empty(buffers.k_empty, j)
        wg.load(k_desc, buffers.k_smem, buffers.k_full, j, batch, kv_head, j * BLOCK_N)
        wg.wait_empty(buffers.v_empty, j)
        wg.load(v_desc, buffers.v_smem, buffers.v_full, j, batch, kv_head, j * BLOCK_N)


@gluon.jit
def _softmax(s, carried: gl.constexpr, row_max, row_sum, scale_log2):
    """Returns P, the new row_max and row_sum, and the factor for O. row_max and the exponents are in base 2."""
    new_max = gl.maximum(row_max, gl.max(s, 1) * scale_log2)
    rescale = gl.exp2(row_max - new_max)
    p = gl.exp2(s * scale_log2 - new_max[:, None])
    pieces: gl.constexpr = row_sum.type.layout
    sums = gl.sum(p.reshape((wg.ROWS, p.shape[1] // wg.PIECES, wg.PIECES)), 1)
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
    """Computes the 64 rows of O of consumer warpgroup GROUP."""
    buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale_log2 = work
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    scores: gl.constexpr = wg.accumulator(BLOCK_N)
    output: gl.constexpr = wg.accumulator(HEAD_DIM)
    operand: gl.constexpr = gl.DotOperandLayout(0, output, 2)
    element: gl.constexpr = o_ptr.dtype.element_ty
    carried: gl.constexpr = wg.carried(element, HEAD_DIM, BLOCK_N, buffers.q_smem.shape[0])
    first_row = q_start + GROUP * wg.ROWS

    o = gl.zeros((wg.ROWS, HEAD_DIM), gl.float32, output)
    zero = gl.zeros((wg.ROWS, BLOCK_N), gl.float32, scores)
    row_max = gl.full((wg.ROWS,), LOWEST, gl.float32, gl.SliceLayout(1, scores))
    row_sum = gl.zeros((wg.ROWS, wg.PIECES), gl.float32, wg.accumulator(wg.PIECES))
    last_key = gl.full((wg.ROWS,), seq_kv - 1, gl.int32, gl.SliceLayout(1, scores))
    if CAUSAL:
        row = first_row + gl.arange(0, wg.ROWS, gl.SliceLayout(1, scores))
        last_key = gl.minimum(row + seq_kv - seq_q, last_key)

    # prologue: the first Q K^T overlaps with no P V
    q_rows = wg.matrix(buffers.q_smem, GROUP)
    wg.wait_full(buffers.q_full, 0)
    wg.wait_full(buffers.k_full, 0)
    s = warpgroup_mma(q_rows, wg.matrix(buffers.k_smem, 0).permute((1, 0)), zero, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=[s])
    wg.arrive(buffers.k_empty, 0)
    if CAUSAL or not EVEN_N:
        key = gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
        s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
    p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2)

    for j in range(1, gl.maximum(whole_tiles, 1)):
        s, o, p_regs = _issue(p, o, zero, q_rows, buffers, j, element, operand)
        s = warpgroup_mma_wait(1, deps=[s])
        wg.arrive(buffers.k_empty, j)
        p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2)
        o, p_regs = warpgroup_mma_wait(0, deps=[o, p_regs])
        wg.arrive(buffers.v_empty, j - 1)
        o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]
    if CAUSAL or not EVEN_N:
        for j in range(gl.maximum(whole_tiles, 1), key_tiles):
            s, o, p_regs = _issue(p, o, zero, q_rows, buffers, j, element, operand)
            s = warpgroup_mma_wait(1, deps=[s])
            wg.arrive(buffers.k_empty, j)
            key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
            p, row_max, row_sum, rescale = _softmax(s, carried, row_max, row_sum, scale_log2)
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
    row = first_row + gl.arange(0, wg.ROWS, gl.SliceLayout(1, output))
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, output))
    gl.store(o_ptr + row[:, None].to(gl.int64) * o_stride_row + dim[None, :], o.to(element), (row < seq_q)[:, None])
    row = first_row + gl.arange(0, wg.ROWS, gl.SliceLayout(1, scores))
    lse = gl.where(row_sum == 0, float("-inf"), (row_max + gl.log2(total)) * LN_2)
    gl.store(lse_ptr + row, lse, row < seq_q)


@gluon.jit
def overlapped_softmax(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    GROUPS: gl.constexpr = BLOCK_M // wg.ROWS
    q_tiles = (seq_q + BLOCK_M - 1) // BLOCK_M
    heads_total = gl.num_programs(0) // q_tiles
    batch_head, q_tile = wg.longest_first(gl.program_id(0), heads_total, q_tiles, seq_kv, HEAD_DIM)
    batch, head = batch_head // heads, batch_head % heads
    q_start = q_tile * BLOCK_M
    whole_tiles, key_tiles = wg.key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
    o_ptr += batch.to(gl.int64) * o_stride_batch + head.to(gl.int64) * o_stride_head
    lse_ptr += batch_head.to(gl.int64) * seq_q

    q_smem = wg.buffers(q_desc, GROUPS)
    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    q_full = wg.barriers(1, 1)
    k_full = wg.barriers(STAGES, 1)
    v_full = wg.barriers(STAGES, 1)
    k_empty = wg.barriers(STAGES, GROUPS)
    v_empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    buffers = Buffers(q_smem, k_smem, v_smem, q_full, k_full, v_full, k_empty, v_empty)
    work = (buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale * LOG2_E)
    loads = (buffers, q_desc, k_desc, v_desc, batch, head, head // group, q_start, key_tiles)
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, CAUSAL, EVEN_N, 0)), (_produce, (loads,))], [1], [24])
    elif GROUPS == 2:
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


twin = wg.Twin(overlapped_softmax, wg.options, linear_grid)
