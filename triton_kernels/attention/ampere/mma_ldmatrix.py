"""mma.sync fed by ldmatrix, so that the register layout of a fragment is known.

Builds on wmma. Core Triton leaves the instruction behind a dot product to the compiler: it never emits WMMA, so the
Triton twin of wmma already uses mma.sync and ldmatrix.

So this is the same program as wmma.
"""

from triton_kernels.attention.ampere.wmma import twin  # noqa: F401
