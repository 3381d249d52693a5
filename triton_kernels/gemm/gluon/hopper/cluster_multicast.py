"""Two blocks of a cluster share B: one loads a tile of it, and multicast brings it to both.

Builds on persistent, whose epilogue it has; a program is a pair of blocks. General: any m, and any n and k that are
multiples of 8. In the CUDA twin each block loads half of B for both; here the first block loads whatever both hold.

Layouts say which block holds what: 64 of each warpgroup's 128 rows of A and C, and all of B. Each block has its own
full barriers. An empty barrier belongs to the pair: it lies in the first block, which alone waits for it, and completes
when the consumer warpgroups of both blocks have released the buffer. So the second block's producer waits until its own
buffer was full before it expects the next bytes there. Gluon has barriers of a pair since Triton 3.8.
"""

from dataclasses import dataclass
from typing import Any

import torch
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
from triton_kernels.gemm import gluon_tiles as tiles
from triton_kernels.gemm import specialization

GROUP_M = gl.constexpr(4)
"""Rows of pairs of tiles."""

IN_BOTH, BY_ROWS = ((0, 0),), ((1, 0),)
"""Offset of the second block's part of a tile: none, or one half of its rows."""


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
def _produce(loads, GROUPS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    BLOCK_M: gl.constexpr = GROUPS * a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_K: gl.constexpr = b_smem.shape[2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            if step >= b_smem.shape[0]:
                wg.wait_full(full, step - b_smem.shape[0])
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes // 2 + b_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                at = a_smem.index(stage * GROUPS + group)
                tma.async_load(a_desc, [row + group * a_smem.shape[1], j * BLOCK_K], full.index(stage), at)
            tma.async_load(b_desc, [col, j * BLOCK_K], full.index(stage), b_smem.index(stage), multicast=True)
            step += 1


@gluon.jit
def _consume(work, GROUPS: gl.constexpr, GROUP: gl.constexpr, EVEN: gl.constexpr, EPILOGUE: gl.constexpr):
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[1]
    BLOCK_N: gl.constexpr = b_smem.shape[1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, accumulator(BLOCK_N))
        for _ in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
            sums = warpgroup_mma(a, b.permute((1, 0)), sums, is_async=True)
            sums = warpgroup_mma_wait(0, deps=[sums])
            wg.arrive(empty, step)
            step += 1

        # epilogue
        tiles.store(sums, c_ptr, c_stride, bias_ptr, row + GROUP * ROWS, col, m, n, EVEN, EPILOGUE)


@gluon.jit
def cluster_multicast(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    EVEN: gl.constexpr, EPILOGUE: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = gl.allocate_shared_memory(a_desc.dtype, [STAGES * GROUPS, 2 * BLOCK_M // GROUPS, BLOCK_K], a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    full = barriers(STAGES, 1)
    empty = barriers_of_both(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize([(_consume, (work, GROUPS, 0, EVEN, EPILOGUE)), (_produce, (loads, GROUPS))], [1], [24])
    else:
        gl.warp_specialize(
            [
                (_consume, (work, GROUPS, 0, EVEN, EPILOGUE)),
                (_consume, (work, GROUPS, 1, EVEN, EPILOGUE)),
                (_produce, (loads, GROUPS)),
            ],
            [4, 1],
            [240, 24],
        )
    hopper.cluster.barrier()  # no block exits before the other has released its last buffer


@dataclass(frozen=True)
class PairTwin(tiles.Twin):
    """A twin whose descriptors say which part of a tile each block of a pair holds."""

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        plain = super().arguments(tensors, epilogue, tile)
        plain["EVEN"] = plain["EVEN"] and plain["m"] % (2 * tile.block_m) == 0
        a, b = plain["a_desc"], plain["b_desc"]
        rows, columns = a.block_shape
        for name, desc, box, offset in (("a", a, [2 * rows, columns], BY_ROWS), ("b", b, b.block_shape, IN_BOTH)):
            layout = gl.NVMMASharedLayout(tiles.ROW_BYTES, 16, 2, cga_layout=[list(part) for part in offset])
            plain[f"{name}_desc"] = TensorDescriptor(desc.base, desc.shape, desc.strides, box, layout)
        return plain


def options(tile: Any) -> dict[str, Any]:
    return {**tiles.options(tile), "num_ctas": 2}


def pairs(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """Persistent programs, each a pair of blocks with tiles that lie below each other."""
    number = -(-a.shape[0] // (2 * tile.block_m)) * -(-b.shape[0] // tile.block_n)
    return (min(number, max(specialization.multiprocessors(a.device) // 2, 1)),)


twin = PairTwin(cluster_multicast, options, grid=pairs)
