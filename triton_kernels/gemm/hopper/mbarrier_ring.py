"""A ring of buffers with full and empty mbarriers: no barrier of the block in the main loop.

Builds on tma_swizzle. Core Triton leaves the barriers to the compiler: it makes the full barriers itself and frees a
buffer by a barrier of the whole block, so that warps cannot drift apart. Only where it specializes warps does it add
empty barriers.

So this is the same program as tma_swizzle.
"""

from triton_kernels.gemm.hopper.tma_swizzle import twin  # noqa: F401
