"""Registers by role: the producer gives its registers to eight consumer warps, in two warpgroups.

Builds on warp_specialized; changes the registers of the roles, and the rows of a block to what two warpgroups of 240
registers per thread can hold. Each warpgroup is a role of its own. General: any lengths, strides, grouped heads and
head_dim 64, 128 and 256. In core Triton the source cannot set the registers of a role.

Before it arrives, a warpgroup now waits only for its own four warps.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

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
    wg.load(q_desc, buffers.q_smem, buffers.q_full, 0, batch, head, q_start)
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    for j in range(key_tiles):
        wg.wait_empty(buffers.k_empty, j)
        wg.load(k_desc, buffers.k_smem, buffers.k_full, j, batch, kv_head, j * BLOCK_N)
        wg.wait_empty(buffers.v_empty, j)
        wg.load(v_desc, buffers.v_smem, buffers.v_full, j, batch, kv_head, j * BLOCK_N)


@gluon.jit
def _consume(work, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, GROUP: gl.constexpr):
    """Computes the rows of O of warpgroup GROUP: half of the block's."""
    buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale_log2 = work
    ROWS: gl.constexpr = buffers.q_smem.shape[3] // 2
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    element: gl.constexpr = o_ptr.dtype.element_ty

    o = gl.zeros((ROWS, HEAD_DIM), gl.float32, mma)
    zero = gl.zeros((ROWS, BLOCK_N), gl.float32, mma)
    row_max = gl.full((ROWS,), LOWEST, gl.float32, gl.SliceLayout(1, mma))
    row_sum = gl.zeros((ROWS,), gl.float32, gl.SliceLayout(1, mma))
    row = q_start + GROUP * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, mma))
    last_key = gl.full((ROWS,), seq_kv - 1, gl.int32, gl.SliceLayout(1, mma))
    if CAUSAL:
        last_key = gl.minimum(row + seq_kv - seq_q, last_key)

    wg.wait_full(buffers.q_full, 0)
    for j in range(key_tiles):
        # S = Q K^T
        wg.wait_full(buffers.k_full, j)
        q_regs = wg.matrix(buffers.q_smem, 0).slice(GROUP * ROWS, ROWS).load(left)
        k_regs = wg.matrix(buffers.k_smem, j).permute((1, 0)).load(right)
        s = mma_v2(q_regs, k_regs, zero)
        fence_async_shared()  # otherwise TMA, in the async proxy, may overwrite what ldmatrix still reads
        wg.arrive(buffers.k_empty, j)
        if (CAUSAL or not EVEN_N) and j >= whole_tiles:
            key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, mma))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = gl.maximum(row_max, gl.max(s, 1) * scale_log2)
        rescale = gl.exp2(row_max - new_max)
        p = gl.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + gl.sum(p, 1)
        row_max = new_max
        o = o * rescale[:, None]

        # O += P V
        p_regs = gl.convert_layout(p.to(element), left, assert_trivial=True)
        wg.wait_full(buffers.v_full, j)
        v_regs = wg.matrix(buffers.v_smem, j).load(right)
        o = mma_v2(p_regs, v_regs, o)
        fence_async_shared()  # otherwise TMA, in the async proxy, may overwrite what ldmatrix still reads
        wg.arrive(buffers.v_empty, j)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = gl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, mma))
    gl.store(o_ptr + row[:, None].to(gl.int64) * o_stride_row + dim[None, :], o.to(element), (row < seq_q)[:, None])
    lse = gl.where(row_sum == 0, float("-inf"), (row_max + gl.log2(total)) * LN_2)
    gl.store(lse_ptr + row, lse, row < seq_q)


@gluon.jit
def setmaxnreg_consumers(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, EVEN_N: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    q_tiles = (seq_q + BLOCK_M - 1) // BLOCK_M
    heads_total = gl.num_programs(0) // q_tiles
    batch_head, q_tile = wg.longest_first(gl.program_id(0), heads_total, q_tiles, seq_kv, HEAD_DIM)
    batch, head = batch_head // heads, batch_head % heads
    q_start = q_tile * BLOCK_M
    whole_tiles, key_tiles = wg.key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
    o_ptr += batch.to(gl.int64) * o_stride_batch + head.to(gl.int64) * o_stride_head
    lse_ptr += batch_head.to(gl.int64) * seq_q

    q_smem = wg.buffers(q_desc, 1)
    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    q_full = wg.barriers(1, 1)
    k_full = wg.barriers(STAGES, 1)
    v_full = wg.barriers(STAGES, 1)
    k_empty = wg.barriers(STAGES, 2)
    v_empty = wg.barriers(STAGES, 2)
    fence_async_shared()

    buffers = Buffers(q_smem, k_smem, v_smem, q_full, k_full, v_full, k_empty, v_empty)
    work = (buffers, o_ptr, lse_ptr, o_stride_row, q_start, seq_q, seq_kv, whole_tiles, key_tiles, scale * LOG2_E)
    loads = (buffers, q_desc, k_desc, v_desc, batch, head, head // group, q_start, key_tiles)
    gl.warp_specialize(
        [
            (_consume, (work, CAUSAL, EVEN_N, 0)),
            (_consume, (work, CAUSAL, EVEN_N, 1)),
            (_produce, (loads,)),
        ],
        [4, 1],
        [240, 24],
    )


twin = wg.Twin(setmaxnreg_consumers, wg.options, linear_grid, query_rows=None)
