"""Rings of buffers with full and empty mbarriers: the same program as tma_loads, at another tile.

Builds on tma_swizzle; changes the tile only, which comes from the registry: tile.stages counts the buffers of K and of
V. The missing lever is the barrier: the compiler makes the full ones by itself, and frees a buffer by a barrier of the
whole block, so that warps cannot drift apart by more than a step; but for where it specializes warps.
"""

from triton_kernels.tma.tma_loads import twin  # noqa: F401
