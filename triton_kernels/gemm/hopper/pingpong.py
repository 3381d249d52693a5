"""Ping-pong: two consumer warpgroups have a tile each, and one multiplies while the other one writes C.

Builds on persistent. Core Triton cannot give two warpgroups a tile each: where it makes roles, both consumers share the
rows of one tile, and where it flattens the loop over tiles there are none. Only the tile changes, which the registry
sets.

So this is the same program as persistent, at another tile.
"""

from triton_kernels.gemm.hopper.persistent import twin  # noqa: F401
