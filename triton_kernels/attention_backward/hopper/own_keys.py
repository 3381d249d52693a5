"""Each warpgroup adds what its own keys give to dQ: it needs no dS of the other, and no barrier with it.

Builds on overlapped; changes who computes which part of dQ. Core Triton has one tile of dQ for the whole program, and
its compiler decides which warps share it; a program with one warpgroup has no other to wait for, which is a tile.

So this is the same program as bulk_reduce.
"""

from triton_kernels.attention_backward.hopper.bulk_reduce import twin  # noqa: F401
