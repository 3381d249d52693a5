"""Blocks stay and take tiles of keys from a counter, longest first: K and V come while dK and dV are stored.

Builds on mask_apart; changes who takes which keys, and when. General: any lengths, strides that are multiples of 16
bytes; heads that share K and V are summed in the loop. The programs of core Triton's twin do not stay: they have no
warp that loads the next K and V while the others store.

The warp that loads passes the numbers of the program's tiles to the others, through a queue in shared memory. With a
causal mask the first keys are seen by all queries and the last by few. Heads go in sections, small enough that L2 holds
their sums of dQ; in a section the longest tiles of all heads come first, so that programs end together.
Fences are those of overlapped; the queue is written and read by threads alone.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention_backward import gluon_warpgroups as backward

LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def _sizes(number, order, buffers, CAUSAL: gl.constexpr):
    """Of the tile of keys that comes as number `number`."""
    blocks, heads, heads_kv, group, seq_q, seq_kv, scratch_rows = order
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    block = backward.longest_first(number, blocks, seq_q, seq_kv, HEAD_DIM, BLOCK_N, CAUSAL)
    return backward.sizes(block, heads, heads_kv, group, seq_q, seq_kv, scratch_rows, BLOCK_M, BLOCK_N, CAUSAL)


@gluon.jit
def _produce(loads, order, queue, kv_empty, counter, CAUSAL: gl.constexpr):
    """Takes the numbers of the program's tiles of keys and loads for each of them."""
    number = gl.program_id(0)
    block = 0
    step = 0
    while number < order[0]:
        wg.put(queue, block, number)
        wg.wait_empty(kv_empty, block)
        step = backward.produce_block(loads, _sizes(number, order, loads[0], CAUSAL), step)
        block += 1
        number = wg.take_number(counter, order[0])
    wg.put(queue, block, number)


@gluon.jit
def _reduce(sums, order, queue, CAUSAL: gl.constexpr):
    """Adds dQ of all of the program's tiles of keys."""
    block = 0
    step = 0
    number = backward.take(queue, block, 1)
    while number < order[0]:
        step = backward.reduce_block(sums, _sizes(number, order, sums[0], CAUSAL), step)
        block += 1
        number = backward.take(queue, block, 1)


@gluon.jit
def _consume(work, order, queue, kv_empty, CAUSAL: gl.constexpr):
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
    column = gl.arange(0, BLOCK_M, gl.SliceLayout(0, scores))
    scale_log2 = scale * LOG2_E

    zero = gl.zeros((BLOCK_N, BLOCK_M), gl.float32, scores)
    dq_zero = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, backward.accumulator(BLOCK_M, HEAD_DIM))
    k = wg.matrix(buffers.k_smem, 0)
    v = wg.matrix(buffers.v_smem, 0)
    block = 0
    begin = 0
    number = backward.take(queue, block, 8)
    while number < order[0]:
        sizes = _sizes(number, order, buffers, CAUSAL)
        key = sizes.kv_start + gl.arange(0, BLOCK_N, gl.SliceLayout(1, scores))
        diagonal = sizes.seq_kv - sizes.seq_q
        dk = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
        dv = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
        wg.wait_full(buffers.kv_full, block)
        tiles = (sizes.seq_q - sizes.first + BLOCK_M - 1) // BLOCK_M
        q_start = sizes.first
        steps = tiles * (sizes.last_head - sizes.head)
        for step in range(begin, begin + steps):
            # S^T = K Q^T, dP^T = V dO^T
            q = wg.matrix(buffers.q_smem, step)
            do = wg.matrix(buffers.do_smem, step)
            wg.wait_full(buffers.q_full, step)
            s = warpgroup_mma(k, q.permute((1, 0)), zero, use_acc=False, is_async=True)
            wg.wait_full(buffers.do_full, step)
            dp = warpgroup_mma(v, do.permute((1, 0)), zero, use_acc=False, is_async=True)
            s = warpgroup_mma_wait(1, deps=[s])

            # P = exp2(S - LSE): 0 where the mask hides a key, or none exists
            lse = buffers.lse_smem.index(step % buffers.lse_smem.shape[0]).load(gl.SliceLayout(0, scores))
            p = gl.exp2(s * scale_log2 - lse[None, :])
            hides = sizes.kv_start + BLOCK_N > sizes.seq_kv
            if CAUSAL:
                hides = hides | (sizes.kv_start + BLOCK_N - 1 > q_start + diagonal)
            if hides:
                shown = key[:, None] < sizes.seq_kv
                if CAUSAL:
                    shown = shown & (key[:, None] <= q_start + diagonal + column[None, :])
                p = gl.where(shown, p, 0.0)
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
            wg.arrive(buffers.done, step)
            q_start = gl.where(q_start + BLOCK_M < sizes.seq_q, q_start + BLOCK_M, sizes.first)
        wg.arrive(kv_empty, block)

        # epilogue
        dk_head = dk_ptr + sizes.batch.to(gl.int64) * dk_strides[0] + sizes.head_kv.to(gl.int64) * dk_strides[1]
        backward.store_keys(dk * scale, dk_head, dk_strides[2], sizes.kv_start, sizes.seq_kv)
        dv_head = dv_ptr + sizes.batch.to(gl.int64) * dv_strides[0] + sizes.head_kv.to(gl.int64) * dv_strides[1]
        backward.store_keys(dv, dv_head, dv_strides[2], sizes.kv_start, sizes.seq_kv)
        begin += steps
        block += 1
        number = backward.take(queue, block, 8)


@gluon.jit
def longest_first(
    q_desc, k_desc, v_desc, do_desc, lse_desc, dots_desc, dq_desc, dk_ptr, dv_ptr, counter, scale, batches, heads,
    heads_kv, group, seq_q, seq_kv, scratch_rows, dk_stride_batch, dk_stride_head, dk_stride_row,
    dv_stride_batch, dv_stride_head, dv_stride_row,
    BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    buffers = backward.allocate(k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc, dq_desc, STAGES)
    queue = wg.tile_queue(2)
    kv_empty = wg.barriers(1, 1)
    blocks = (seq_kv + BLOCK_N - 1) // BLOCK_N * heads_kv * batches
    order = (blocks, heads, heads_kv, group, seq_q, seq_kv, scratch_rows)
    dk_strides = (dk_stride_batch, dk_stride_head, dk_stride_row)
    dv_strides = (dv_stride_batch, dv_stride_head, dv_stride_row)
    work = (buffers, dk_ptr, dv_ptr, dk_strides, dv_strides, scale)
    loads = (buffers, k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc)
    sums = (buffers, dq_desc)
    gl.warp_specialize(
        [
            (_consume, (work, order, queue, kv_empty, CAUSAL)),
            (_produce, (loads, order, queue, kv_empty, counter, CAUSAL)),
            (_reduce, (sums, order, queue, CAUSAL)),
        ],
        [1, 1],
        [24, 24],
    )


twin = backward.Twin(longest_first, backward.options)
