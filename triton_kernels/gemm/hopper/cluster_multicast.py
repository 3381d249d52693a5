"""Two blocks of a cluster share B: each loads half, which multicast delivers to both.

Builds on tma_store_epilogue. Core Triton has no multicast: with num_ctas=2 its blocks share a tile, and each loads all
that it multiplies.

So this is the same program as tma_store_epilogue.
"""

from triton_kernels.gemm.hopper.tma_store_epilogue import twin  # noqa: F401
