"""Only one warpgroup at a time is in its softmax: the same program as setmaxnreg_consumers.

Builds on setmaxnreg_consumers; changes nothing in core Triton. The missing lever is a barrier that some warps wait at
and others only arrive at: the warps of a program are one, and it orders none of them.
"""

from triton_kernels.tma.setmaxnreg_consumers import launch, specialize, workspace_bytes  # noqa: F401
