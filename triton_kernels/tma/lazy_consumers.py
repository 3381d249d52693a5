"""The lazy rescale in consumer warps: the same program as lazy_rescale, at the tile of the CUDA twin.

Builds on setmaxnreg_consumers and lazy_rescale; changes the online softmax, which without roles for warps is the change
of lazy_rescale. The missing lever is registers of their own for some warps (as in setmaxnreg_consumers).
"""

from triton_kernels.tma.lazy_rescale import twin  # noqa: F401
