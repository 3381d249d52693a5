"""Threads share what they read: each has several elements of C and keeps their factors in registers.

Builds on block_tiled; changes the tile only, which the registry sets. Core Triton leaves it to the compiler how many
elements of C a thread has: the tile's, divided by the number of threads, so that a larger tile is register tiling.

So this is the same program as block_tiled, at another tile.
"""

from triton_kernels.gemm.ampere.block_tiled import twin  # noqa: F401
