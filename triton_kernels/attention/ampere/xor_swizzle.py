"""Shared-memory columns are permuted by XOR with the row, against bank conflicts.

Builds on direct_rescale. Core Triton leaves the layout of shared memory to the compiler: it swizzles every tile that is
loaded through pointers, unless its rows have 16 bytes, and no argument selects another permutation.

So this is the same program as direct_rescale.
"""

from triton_kernels.attention.ampere.direct_rescale import twin  # noqa: F401
