"""Registers by role: the same program as lean_mbarrier_ring, at the tile of the CUDA twin.

Builds on lean_mbarrier_ring and warp_specialized; changes the tile alone in core Triton. The missing lever is a role or
a number of registers for some warps: setmaxnreg comes only where the compiler specializes warps, which with mma.sync it
does on sm_120a alone, and `maxnreg` holds for the whole launch.
"""

from triton_kernels.tma.lean_mbarrier_ring import twin  # noqa: F401
