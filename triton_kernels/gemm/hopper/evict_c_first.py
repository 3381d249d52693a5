"""C is written once, and L2 would evict it first.

Builds on pingpong_store. In core Triton a store to a descriptor takes no eviction policy. A store by pointers does, but
is no TMA store: it would change more than the hint.

So this is the same program as tma_store_epilogue, which pingpong_store is as well.
"""

from triton_kernels.gemm.hopper.tma_store_epilogue import twin  # noqa: F401
