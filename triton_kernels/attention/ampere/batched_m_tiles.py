"""Each warp has two m16 tiles, which share every K and V fragment.

Builds on exp2_softmax; changes the tile only, which the registry sets: BLOCK_M and num_warps determine how many rows a
warp has. Core Triton leaves the order of V's fragments to the compiler: it decides when each one is loaded.

So this is the same program as exp2_softmax, at another tile.
"""

from triton_kernels.attention.ampere.exp2_softmax import twin  # noqa: F401
