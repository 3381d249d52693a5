"""The next ldmatrix is issued before the mma of the current fragment.

Builds on batched_m_tiles. Core Triton leaves the loading of fragments to the compiler: the PTX reads all fragments of a
tile before the first mma, and ptxas spreads the reads among the mma instructions.

So this is the same program as exp2_softmax.
"""

from triton_kernels.attention.ampere.exp2_softmax import twin  # noqa: F401
