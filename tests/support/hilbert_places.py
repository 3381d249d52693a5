"""Where core Triton's Hilbert order has each tile. Imported in a process with TRITON_INTERPRET."""

import torch
import triton
import triton.language as tl

from triton_kernels.gemm.hopper.hilbert_order import hilbert_tile


@triton.jit
def write_places(place_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    number = tl.program_id(0)
    row, col = hilbert_tile(number, m, n, BLOCK_M, BLOCK_N)
    tl.store(place_ptr + 2 * number, row // BLOCK_M)
    tl.store(place_ptr + 2 * number + 1, col // BLOCK_N)


def places(m: int, n: int, block_m: int, block_n: int) -> list[tuple[int, int]]:
    """(row, column) of every tile of C, in tiles, as the curve has them."""
    found = torch.empty(triton.cdiv(m, block_m) * triton.cdiv(n, block_n), 2, dtype=torch.int32)
    write_places[found.shape[:1]](found, m, n, block_m, block_n)
    return [(row, col) for row, col in found.tolist()]
