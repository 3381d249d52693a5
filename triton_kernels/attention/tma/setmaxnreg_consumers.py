"""Registers by role: a producer warpgroup gives its registers to eight consumer warps.

Builds on lean_mbarrier_ring and warp_specialized; in core Triton it changes only the tile. Core Triton leaves roles and
their registers to the compiler: setmaxnreg comes only where the compiler specializes warps, which with mma.sync it does
only on sm_120a, and `maxnreg` holds for the whole launch.

So this is the same program as lean_mbarrier_ring, at the tile of the CUDA twin.
"""

from triton_kernels.attention.tma.lean_mbarrier_ring import twin  # noqa: F401
