"""Two consumer warpgroups, and a tile of 128 x 256: each multiplies 64 rows by all 256 columns.

Builds on producer_consumer; changes the tile and the number of consumers, which follow tile.warps.

So this is the same program as producer_consumer, at another tile.
"""

from triton_kernels.gemm.gluon.hopper.producer_consumer import twin  # noqa: F401
