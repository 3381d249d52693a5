"""K and V arrive by the tensor memory accelerator: one thread requests a tile, and its bytes complete on an mbarrier.

Builds on ampere/exp2_softmax, which has no Gluon kernel; changes who computes addresses: the copy engine, from a
descriptor. A tile is one box of whole rows without a swizzle, so every ldmatrix has 8-way bank conflicts, which
tma_swizzle removes. Core Triton swizzles such a tile without being asked.

K and V have one buffer each, and each load completes on an mbarrier. An iteration waits for K, issues the load of V,
computes Q K^T, waits for V, issues the load of the next K into the buffer that Q K^T has read, and computes P V. A
barrier of the block precedes each load into a buffer that was read.

Triton 3.6 and 3.7 read the transposed view of such a box as the box itself. So the bytes are viewed under a layout that
pointers would use: the addresses are the same, and the transposed view is right.
"""

from dataclasses import dataclass
from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention import specialization
from triton_kernels.attention.specialization import options, plain_grid
from triton_kernels.gluon_names import REINTERPRET_RENAMED as RENAMED

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = gl.constexpr(1.4426950408889634)
LN_2 = gl.constexpr(0.6931471805599453)
BOX = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=16, rank=4)
ROWS = gl.constexpr(gl.SwizzledSharedLayout(8, 1, 1, [1, 0]))
"""The same bytes under another layout: row after row."""


@gluon.jit
def _rows(smem):
    """Views a buffer of one TMA box as a matrix of rows by columns."""
    shape: gl.constexpr = [smem.shape[3], smem.shape[4]]
    return smem.reinterpret(smem.dtype, shape, ROWS) if RENAMED else smem._reinterpret(smem.dtype, shape, ROWS)


@gluon.jit
def tma_loads(
    q_desc, k_desc, v_desc, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    batch, head = gl.program_id(0) // heads, gl.program_id(0) % heads
    kv_head = head // group
    q_start = gl.program_id(1) * BLOCK_M
    whole_tiles, key_tiles = wg.key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
    o_ptr += batch.to(gl.int64) * o_stride_batch + head.to(gl.int64) * o_stride_head
    lse_ptr += gl.program_id(0).to(gl.int64) * seq_q
    scale_log2 = scale * LOG2_E

    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    element: gl.constexpr = o_ptr.dtype.element_ty
    q_smem = wg.buffers(q_desc, 1)
    k_smem = wg.buffers(k_desc, 1)
    v_smem = wg.buffers(v_desc, 1)
    q_full = wg.barriers(1, 1)
    k_full = wg.barriers(1, 1)
    v_full = wg.barriers(1, 1)
    fence_async_shared()

    # load Q, then the first K
    wg.load(q_desc, q_smem, q_full, 0, batch, head, q_start)
    wg.load(k_desc, k_smem, k_full, 0, batch, kv_head, 0)

    o = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, mma)
    zero = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, mma)
    row_max = gl.full((BLOCK_M,), LOWEST, gl.float32, gl.SliceLayout(1, mma))
    row_sum = gl.zeros((BLOCK_M,), gl.float32, gl.SliceLayout(1, mma))
    row = q_start + gl.arange(0, BLOCK_M, gl.SliceLayout(1, mma))
    last_key = row + seq_kv - seq_q

    wg.wait_full(q_full, 0)
    for j in range(key_tiles):
        wg.wait_full(k_full, j)
        fence_async_shared()  # otherwise TMA, in the async proxy, may overwrite what ldmatrix still reads
        wg.block_barrier()  # all warps have read the previous V
        wg.load(v_desc, v_smem, v_full, j, batch, kv_head, j * BLOCK_N)

        # S = Q K^T
        q_regs = _rows(q_smem).load(left)
        k_regs = _rows(k_smem).permute((1, 0)).load(right)
        s = mma_v2(q_regs, k_regs, zero)
        if CAUSAL and j >= whole_tiles:
            key = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, mma))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2: row_max and the exponents are scaled by log2(e)
        new_max = gl.maximum(row_max, gl.max(s, 1) * scale_log2)
        rescale = gl.exp2(row_max - new_max)
        p = gl.exp2(s * scale_log2 - new_max[:, None])
        row_sum = row_sum * rescale + gl.sum(p, 1)
        row_max = new_max
        o = o * rescale[:, None]

        wg.wait_full(v_full, j)
        fence_async_shared()  # otherwise TMA, in the async proxy, may overwrite what ldmatrix still reads
        wg.block_barrier()  # all warps have read K
        wg.load(k_desc, k_smem, k_full, j + 1, batch, kv_head, (j + 1) * BLOCK_N, j + 1 < key_tiles)

        # O += P V
        p_regs = gl.convert_layout(p.to(element), left, assert_trivial=True)
        v_regs = _rows(v_smem).load(right)
        o = mma_v2(p_regs, v_regs, o)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = gl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, mma))
    gl.store(o_ptr + row[:, None].to(gl.int64) * o_stride_row + dim[None, :], o.to(element))
    lse = gl.where(row_sum == 0, float("-inf"), (row_max + gl.log2(total)) * LN_2)
    gl.store(lse_ptr + row, lse)


@dataclass(frozen=True)
class Twin(wg.Twin):
    """A twin whose descriptors place a block in shared memory row after row."""

    def at(self, tile: Any) -> specialization.Twin:
        swizzled = super().at(tile)

        def refine(arguments: dict[str, Any]) -> dict[str, Any]:
            refined = swizzled.refine(arguments)
            boxes = {
                name: TensorDescriptor(each.base, each.shape, each.strides, each.block_shape, BOX)
                for name, each in refined.items()
                if isinstance(each, TensorDescriptor)
            }
            return {**refined, **boxes}

        return specialization.Twin(self.kernel, self.options, self.grid, refine)


twin = Twin(tma_loads, lambda tile: options(tile, num_stages=1), plain_grid, query_rows=None)
