"""Only one warpgroup at a time is in its softmax; the other has the tensor cores.

Builds on setmaxnreg_consumers. Core Triton cannot express a barrier that some warps wait at and others only arrive at.
Inline PTX can (triton_kernels/attention/hatch/tma/softmax_lock.py), but the compiler does not know about it.

So this is the same program as lean_mbarrier_ring, which setmaxnreg_consumers runs too.
"""

from triton_kernels.attention.tma.lean_mbarrier_ring import twin  # noqa: F401
