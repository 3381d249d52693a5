"""Tiles of 128 x 320: fewer bytes for a product, and a fuller last wave at some sizes.

Builds on tile_192, whose kernel has the sums of a tile in two tensors: here of 256 and 64 columns. Only the tile
changes, which the registry sets.

So this is the same program as tile_192, at another tile.
"""

from triton_kernels.gemm.gluon.hopper.tile_192 import twin  # noqa: F401
