"""The lazy rescale of O, in the consumer warps of setmaxnreg_consumers.

Builds on setmaxnreg_consumers and lazy_rescale; changes the online softmax. Core Triton has no roles for warps here
(see setmaxnreg_consumers), so only the change of lazy_rescale remains.

So this is the same program as lazy_rescale, at the tile of the CUDA twin.
"""

from triton_kernels.tma.lazy_rescale import twin  # noqa: F401
