"""m may be contiguous in A, and n in B: nothing is copied, TMA and wgmma take both as they lie.

Builds on persistent; changes the boxes that TMA loads, and which of them are transposed before the product. General:
n and k are multiples of 8; so is m where it is contiguous.

A box's last dimension is the contiguous one, so a tile lies as k by m, or k by n. `permute` makes another view of the
same shared memory; wgmma has a bit for each operand that transposes it. A load of more than 128 bytes of m or n
becomes several, whose boxes lie one after another. Fences and waits are those of persistent.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.gemm import gluon_tiles as tiles
from triton_kernels.gemm.gluon_majors import Twin
from triton_kernels.gemm.specialization import persistent_tiles

GROUP_M = gl.constexpr(8)


@gluon.jit
def _produce(loads, GROUPS: gl.constexpr, M_CONTIGUOUS: gl.constexpr, N_CONTIGUOUS: gl.constexpr):
    """Loads every tile as soon as its buffer is empty."""
    a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles = loads
    ROWS: gl.constexpr = a_smem.shape[2 if M_CONTIGUOUS else 1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    BLOCK_N: gl.constexpr = b_smem.shape[2 if N_CONTIGUOUS else 1]
    BLOCK_K: gl.constexpr = b_smem.shape[1 if N_CONTIGUOUS else 2]
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        for j in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_empty(empty, step)
            mbarrier.expect(full.index(stage), GROUPS * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for group in gl.static_range(GROUPS):
                at = a_smem.index(stage * GROUPS + group)
                group_row = row + group * ROWS
                place = [j * BLOCK_K, group_row] if M_CONTIGUOUS else [group_row, j * BLOCK_K]
                wg.load_async(a_desc, place, full.index(stage), at)
            place = [j * BLOCK_K, col] if N_CONTIGUOUS else [col, j * BLOCK_K]
            wg.load_async(b_desc, place, full.index(stage), b_smem.index(stage))
            step += 1


@gluon.jit
def _consume(
    work, GROUPS: gl.constexpr, GROUP: gl.constexpr, EVEN: gl.constexpr, EPILOGUE: gl.constexpr,
    M_CONTIGUOUS: gl.constexpr, N_CONTIGUOUS: gl.constexpr,
):  # fmt: skip
    """Computes the rows of C of consumer warpgroup GROUP, tile after tile."""
    a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, m, n, k_tiles = work
    ROWS: gl.constexpr = a_smem.shape[2 if M_CONTIGUOUS else 1]
    BLOCK_N: gl.constexpr = b_smem.shape[2 if N_CONTIGUOUS else 1]
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    step = 0
    for number in range(gl.program_id(0), tiles.count(m, n, BLOCK_M, BLOCK_N), gl.num_programs(0)):
        row, col = tiles.grouped_tile(number, m, n, BLOCK_M, BLOCK_N, GROUP_M)
        sums = gl.zeros((ROWS, BLOCK_N), gl.float32, tiles.accumulator(BLOCK_N))
        for _ in range(k_tiles):
            stage = step % b_smem.shape[0]
            wg.wait_full(full, step)

            # C += A B^T
            a, b = a_smem.index(stage * GROUPS + GROUP), b_smem.index(stage)
            a = a.permute((1, 0)) if M_CONTIGUOUS else a
            b = b if N_CONTIGUOUS else b.permute((1, 0))
            sums = warpgroup_mma(a, b, sums, is_async=True)
            sums = warpgroup_mma_wait(0, deps=[sums])
            wg.arrive(empty, step)
            step += 1

        # epilogue
        tiles.store(sums, c_ptr, c_stride, bias_ptr, row + GROUP * ROWS, col, m, n, EVEN, EPILOGUE)


@gluon.jit
def either_major(
    a_desc, b_desc, bias_ptr, c_ptr, c_stride, m, n, k,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, GROUPS: gl.constexpr,
    EVEN: gl.constexpr, EPILOGUE: gl.constexpr, M_CONTIGUOUS: gl.constexpr, N_CONTIGUOUS: gl.constexpr,
):  # fmt: skip
    k_tiles = (k + BLOCK_K - 1) // BLOCK_K
    a_smem = tiles.buffers(a_desc, STAGES * GROUPS)
    b_smem = tiles.buffers(b_desc, STAGES)
    full = wg.barriers(STAGES, 1)
    empty = wg.barriers(STAGES, GROUPS)
    fence_async_shared()

    work = (a_smem, b_smem, full, empty, c_ptr, c_stride, bias_ptr, m, n, k_tiles)
    loads = (a_desc, b_desc, a_smem, b_smem, full, empty, m, n, k_tiles)
    # The registers of the launch, at most 65536, move from the producer to one or two consumer warpgroups.
    if GROUPS == 1:
        gl.warp_specialize(
            [
                (_consume, (work, GROUPS, 0, EVEN, EPILOGUE, M_CONTIGUOUS, N_CONTIGUOUS)),
                (_produce, (loads, GROUPS, M_CONTIGUOUS, N_CONTIGUOUS)),
            ],
            [1],
            [24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (work, GROUPS, 0, EVEN, EPILOGUE, M_CONTIGUOUS, N_CONTIGUOUS)),
                (_consume, (work, GROUPS, 1, EVEN, EPILOGUE, M_CONTIGUOUS, N_CONTIGUOUS)),
                (_produce, (loads, GROUPS, M_CONTIGUOUS, N_CONTIGUOUS)),
            ],
            [4, 1],
            [240, 24],
        )


twin = Twin(either_major, tiles.options, grid=persistent_tiles)
