"""The consumer warpgroups take turns at issuing their products.

Builds on overlapped_softmax. Core Triton cannot express a barrier at which one warpgroup waits and another arrives: all
warps of a program execute the same statements.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
