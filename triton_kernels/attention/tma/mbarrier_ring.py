"""Rings of buffers for K and V, with full and empty mbarriers.

Builds on tma_swizzle; changes the tile only, which the registry sets: tile.stages counts the buffers of K and of V.
Core Triton leaves the barriers to the compiler: it makes the full barriers itself and frees a buffer by a barrier of
the whole block, so warps cannot drift apart by more than one iteration. Only where it specializes warps does it add
empty barriers.

So this is the same program as tma_loads, at another tile.
"""

from triton_kernels.attention.tma.tma_loads import twin  # noqa: F401
