"""Few rows read B once, and L2 would evict it first.

Builds on tma_swizzle. In core Triton a load from a descriptor takes no eviction policy. A load by pointers does, but is
no TMA load: it would change more than the hint.

So this is the same program as tma_swizzle.
"""

from triton_kernels.gemm.hopper.tma_swizzle import twin  # noqa: F401
