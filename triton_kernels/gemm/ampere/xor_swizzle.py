"""Shared memory without bank conflicts: columns are permuted by XOR with the row.

Builds on mma_ldmatrix. Core Triton leaves the layout of shared memory to the compiler: it swizzles every tile that
feeds a product of 16-bit tiles, and no argument selects another permutation.

So this is the same program as mma_ldmatrix.
"""

from triton_kernels.gemm.ampere.mma_ldmatrix import twin  # noqa: F401
