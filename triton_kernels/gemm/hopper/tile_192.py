"""Tiles of 128 x 192.

Builds on cluster_multicast; changes the tile, which the registry sets. The harness declines it in Triton,
whose tensors have sizes that are powers of two.

So this is the same program as cluster_multicast, at another tile.
"""

from triton_kernels.gemm.hopper.cluster_multicast import twin  # noqa: F401
