"""Ping-pong with stores by TMA: a warpgroup writes its tile of C through shared memory, while the other one multiplies.

Builds on tma_store_epilogue. Core Triton cannot give two warpgroups a tile each. Only the tile changes, which the
registry sets.

So this is the same program as tma_store_epilogue, at another tile.
"""

from triton_kernels.gemm.hopper.tma_store_epilogue import twin  # noqa: F401
