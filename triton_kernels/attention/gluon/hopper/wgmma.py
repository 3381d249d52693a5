"""Warpgroup products: one wgmma multiplies 64 query rows by all keys of a tile, and reads K and V where TMA put them.

Builds on tma/mbarrier_ring; changes the instruction of both products. General: any lengths, strides, grouped heads and
head_dim 64, 128 and 256. The source states instruction, layouts and waits; core Triton derives all three from tl.dot.

Every product is waited for at once, so while a warpgroup is in its softmax only the other one uses the tensor cores.
All warps run one program, and any of them may still be reading a buffer, so a barrier of the block precedes each load
into a buffer that was read.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention.specialization import linear_grid, options

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def wgmma(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    q_tiles = (seq_q + BLOCK_M - 1) // BLOCK_M
    heads_total = gl.num_programs(0) // q_tiles
    batch_head, q_tile = wg.longest_first(gl.program_id(0), heads_total, q_tiles, seq_kv, HEAD_DIM)
    batch, head = batch_head // heads, batch_head % heads
    kv_head = head // group
    q_start = q_tile * BLOCK_M
    whole_tiles, key_tiles = wg.key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
    o_ptr += batch.to(gl.int64) * o_stride_batch + head.to(gl.int64) * o_stride_head
    lse_ptr += batch_head.to(gl.int64) * seq_q
    scale_log2 = scale * LOG2_E

    scores: gl.constexpr = wg.accumulator(BLOCK_N, gl.num_warps())
    output: gl.constexpr = wg.accumulator(HEAD_DIM, gl.num_warps())
    operand: gl.constexpr = gl.DotOperandLayout(0, output, 2)
    element: gl.constexpr = o_ptr.dtype.element_ty
    q_smem = wg.buffers(q_desc, 1)
    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    q_full = wg.barriers(1, 1)
    k_full = wg.barriers(STAGES, 1)
    v_full = wg.barriers(STAGES, 1)
    fence_async_shared()

    # load Q, then the first STAGES tiles of K and V
    wg.load(q_desc, q_smem, q_full, 0, batch, head, q_start)
    for j in gl.static_range(STAGES):
        wg.load(k_desc, k_smem, k_full, j, batch, kv_head, j * BLOCK_N, j < key_tiles)
        wg.load(v_desc, v_smem, v_full, j, batch, kv_head, j * BLOCK_N, j < key_tiles)

    o = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, output)
    zero = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, scores)
    row_max = gl.full((BLOCK_M,), LOWEST, gl.float32, gl.SliceLayout(1, scores))
    row_sum = gl.zeros((BLOCK_M,), gl.float32, gl.SliceLayout(1, scores))
    last_key = gl.full((BLOCK_M,), seq_kv - 1, gl.int32, gl.SliceLayout(1, scores))
    if CAUSAL:
        row = q_start + gl.arange(0, BLOCK_M, gl.SliceLayout(1, scores))
        last_key = gl.minimum(row + seq_kv - seq_q, last_key)

    wg.wait_full(q_full, 0)
    for j in range(key_tiles):
        # S = Q K^T
        wg.wait_full(k_full, j)
        k_rows = wg.matrix(k_smem, j)
        s = warpgroup_mma(wg.matrix(q_smem, 0), k_rows.permute((1, 0)), zero, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=[s])
        wg.block_barrier()  # all warps have read K
        further = j + STAGES
        wg.load(k_desc, k_smem, k_full, further, batch, kv_head, further * BLOCK_N, further < key_tiles)
        if (CAUSAL or not EVEN_N) and j >= whole_tiles:
            key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = gl.maximum(row_max, gl.max(s, 1) * scale_log2)
        rescale = gl.exp2(row_max - new_max)
        p = gl.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + gl.sum(p, 1)
        row_max = new_max
        o = o * gl.convert_layout(rescale, gl.SliceLayout(1, output))[:, None]

        # O += P V
        p_regs = gl.convert_layout(p.to(element), operand, assert_trivial=True)
        wg.wait_full(v_full, j)
        o = warpgroup_mma(p_regs, wg.matrix(v_smem, j), o, is_async=True)
        o = warpgroup_mma_wait(0, deps=[o])
        wg.block_barrier()  # all warps have read V
        wg.load(v_desc, v_smem, v_full, further, batch, kv_head, further * BLOCK_N, further < key_tiles)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = gl.where(row_sum == 0, 1.0, row_sum)
    o = o * gl.convert_layout(1.0 / total, gl.SliceLayout(1, output))[:, None]
    row = q_start + gl.arange(0, BLOCK_M, gl.SliceLayout(1, output))
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, output))
    gl.store(o_ptr + row[:, None].to(gl.int64) * o_stride_row + dim[None, :], o.to(element), (row < seq_q)[:, None])
    row = q_start + gl.arange(0, BLOCK_M, gl.SliceLayout(1, scores))
    lse = gl.where(row_sum == 0, float("-inf"), (row_max + gl.log2(total)) * LN_2)
    gl.store(lse_ptr + row, lse, row < seq_q)


twin = wg.Twin(wgmma, lambda tile: options(tile, num_stages=1), linear_grid, query_rows=None)
