"""Warpgroup products: four warps multiply 64 rows of A by all columns of the tile, straight from shared memory.

Builds on l2_grid_order; changes the instruction. Core Triton has no name for wgmma: with at least 4 warps and 64 rows
tl.dot of 16-bit tiles becomes wgmma on sm_90, unless DISABLE_MMA_V3 is set when the kernel is compiled.

So this is the same source as l2_grid_order, compiled without that variable.
"""

from triton_kernels.gemm.ampere.l2_grid_order import twin  # noqa: F401
