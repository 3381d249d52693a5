"""Few rows read B once, and L2 would evict it first.

Builds on producer_consumer. In Gluon a TMA load takes a cache policy from Triton 3.9 on.

So this is the same program as producer_consumer.
"""

from triton_kernels.gemm.gluon.hopper.producer_consumer import twin  # noqa: F401
