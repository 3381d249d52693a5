"""Tiles are on their way while others are multiplied: asynchronous copies into a ring of buffers.

Builds on xor_swizzle; changes the number of stages only, which the registry sets. With `num_stages` of 2 or more the
compiler loads tiles of later iterations by cp.async, into one buffer less than stages.

So this is the same program as mma_ldmatrix, at another tile.
"""

from triton_kernels.gemm.ampere.mma_ldmatrix import twin  # noqa: F401
