"""Split k: blocks share a tile of C, each has a part of k, and they add up.

Builds on tma_swizzle. Not split yet.

So this is the same program as tma_swizzle.
"""

from triton_kernels.gemm.hopper.tma_swizzle import twin  # noqa: F401
