"""PTX mma.sync fed by ldmatrix, with a known register layout: the same program as wmma.

Builds on wmma; changes nothing in core Triton. The missing lever is the instruction behind a dot product: the compiler
never emits WMMA fragments, so that its first tensor-core program is this one already.
"""

from triton_kernels.ampere.wmma import twin  # noqa: F401
