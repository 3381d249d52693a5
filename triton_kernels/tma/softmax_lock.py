"""Only one warpgroup at a time is in its softmax: the same program as lean_mbarrier_ring, as that of its parent.

Builds on setmaxnreg_consumers; changes nothing in core Triton. The missing lever is a barrier that some warps wait at
and others only arrive at: the language has no word for one, though inline PTX has, of which the compiler knows nothing.
"""

from triton_kernels.tma.lean_mbarrier_ring import twin  # noqa: F401
