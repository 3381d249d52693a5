"""128 keys a step instead of 64, the tile only: the same program as xor_swizzle.

Builds on xor_swizzle; changes nothing but the tile.
"""

from triton_kernels.gluon.ampere.xor_swizzle import twin  # noqa: F401
