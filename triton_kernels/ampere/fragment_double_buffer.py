"""The next ldmatrix issued before this mma: the same program as exp2_softmax.

Builds on batched_m_tiles; changes nothing in core Triton. The missing lever is the fragment: the compiler loads it, and
the assembler orders ldmatrix and mma.
"""

from triton_kernels.ampere.exp2_softmax import twin  # noqa: F401
