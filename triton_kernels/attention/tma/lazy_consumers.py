"""The lazy rescale of O, in the consumer warps of setmaxnreg_consumers.

Builds on setmaxnreg_consumers and lazy_rescale; changes the online softmax. Core Triton leaves roles to the compiler:
it gives none to a loop with the condition of lazy_rescale (probe roles_kept), and with mma.sync none on sm_90 at all
(see setmaxnreg_consumers). So only the change of lazy_rescale remains.

So this is the same program as lazy_rescale, at the tile of the CUDA twin.
"""

from triton_kernels.attention.tma.lazy_rescale import twin  # noqa: F401
