"""Few rows of C: operands change places, so that rows of B fill the 64 rows of wgmma.

Builds on split_k. They do not change places yet.

So this is the same program as split_k, at another tile.
"""

from triton_kernels.gemm.hopper.split_k import twin  # noqa: F401
