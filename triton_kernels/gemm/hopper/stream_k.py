"""Stream-K: programs share the steps of some tiles evenly, where whole tiles would leave the last wave empty.

Builds on cluster_multicast. No step is shared yet.

So this is the same program as cluster_multicast.
"""

from triton_kernels.gemm.hopper.cluster_multicast import twin  # noqa: F401
