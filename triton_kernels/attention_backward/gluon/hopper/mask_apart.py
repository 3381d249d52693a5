"""The mask is a branch that whole tiles do not take, and that keeps the exponentials under dP.

Builds on overlapped; changes the mask: without the branch the assembler moves most exponentials behind the wait for dP.
General: any lengths, strides that are multiples of 16 bytes; heads that share K and V are summed in the loop.

Fences are those of overlapped.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention_backward import gluon_warpgroups as backward

LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def _consume(work, CAUSAL: gl.constexpr):
    """Computes dK and dV of the block's keys, and what they add to every tile of dQ."""
    buffers, sizes, dk_ptr, dv_ptr, dk_stride_row, dv_stride_row, scale = work
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.q_smem.shape[4]
    DV_UNDER_DS: gl.constexpr = BLOCK_M == 64  # the registers do not hold P of 128 queries in 32 and in 16 bits
    scores: gl.constexpr = backward.accumulator(BLOCK_N, BLOCK_M)
    gradient: gl.constexpr = backward.accumulator(BLOCK_N, HEAD_DIM)
    operand: gl.constexpr = gl.DotOperandLayout(0, gradient, 2)
    element: gl.constexpr = buffers.q_smem.dtype
    key = sizes.kv_start + gl.arange(0, BLOCK_N, gl.SliceLayout(1, scores))
    column = gl.arange(0, BLOCK_M, gl.SliceLayout(0, scores))
    diagonal = sizes.seq_kv - sizes.seq_q
    scale_log2 = scale * LOG2_E

    zero = gl.zeros((BLOCK_N, BLOCK_M), gl.float32, scores)
    dq_zero = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, backward.accumulator(BLOCK_M, HEAD_DIM))
    dk = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
    dv = gl.zeros((BLOCK_N, HEAD_DIM), gl.float32, gradient)
    wg.wait_full(buffers.kv_full, 0)
    k = wg.matrix(buffers.k_smem, 0)
    v = wg.matrix(buffers.v_smem, 0)
    tiles = (sizes.seq_q - sizes.first + BLOCK_M - 1) // BLOCK_M
    q_start = sizes.first
    for step in range(tiles * (sizes.last_head - sizes.head)):
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

    # epilogue
    backward.store_keys(dk * scale, dk_ptr, dk_stride_row, sizes.kv_start, sizes.seq_kv)
    backward.store_keys(dv, dv_ptr, dv_stride_row, sizes.kv_start, sizes.seq_kv)


@gluon.jit
def mask_apart(
    q_desc, k_desc, v_desc, do_desc, lse_desc, dots_desc, dq_desc, dk_ptr, dv_ptr, scale, heads, heads_kv, group,
    seq_q, seq_kv, scratch_rows, dk_stride_batch, dk_stride_head, dk_stride_row,
    dv_stride_batch, dv_stride_head, dv_stride_row,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    sizes = backward.sizes(
        gl.program_id(0), heads, heads_kv, group, seq_q, seq_kv, scratch_rows, BLOCK_M, BLOCK_N, CAUSAL
    )
    dk_ptr += sizes.batch.to(gl.int64) * dk_stride_batch + sizes.head_kv.to(gl.int64) * dk_stride_head
    dv_ptr += sizes.batch.to(gl.int64) * dv_stride_batch + sizes.head_kv.to(gl.int64) * dv_stride_head
    buffers = backward.allocate(k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc, dq_desc, STAGES)
    work = (buffers, sizes, dk_ptr, dv_ptr, dk_stride_row, dv_stride_row, scale)
    loads = (buffers, k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc)
    sums = (buffers, dq_desc)
    gl.warp_specialize(
        [(_consume, (work, CAUSAL)), (backward.produce, (loads, sizes)), (backward.reduce, (sums, sizes))],
        [1, 1],
        [24, 24],
    )


twin = backward.Twin(mask_apart, backward.options)
