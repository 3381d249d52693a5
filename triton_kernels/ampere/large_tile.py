"""A larger tile: the same program as direct_rescale, at another tile.

Builds on xor_swizzle; changes the tile only, which comes from the registry.
"""

from triton_kernels.ampere.direct_rescale import twin  # noqa: F401
