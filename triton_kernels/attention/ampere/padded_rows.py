"""Rows of shared memory padded by 16 bytes, against bank conflicts.

Builds on direct_rescale. Core Triton cannot express padded shared memory: the compiler swizzles the tiles that are
loaded through pointers, and no option pads them instead.

So this is the same program as direct_rescale.
"""

from triton_kernels.attention.ampere.direct_rescale import twin  # noqa: F401
