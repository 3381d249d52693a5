"""A larger tile: 128 keys in each iteration instead of 64.

Builds on xor_swizzle; changes the tile only, which the registry sets.

So this is the same program as direct_rescale, which xor_swizzle runs too, at another tile.
"""

from triton_kernels.attention.ampere.direct_rescale import twin  # noqa: F401
