"""128 keys in each iteration instead of 64.

Builds on xor_swizzle; changes the tile only, which the registry sets.

So this is the same program as xor_swizzle, at another tile.
"""

from triton_kernels.attention.gluon.ampere.xor_swizzle import twin  # noqa: F401
