"""Registers go where the math is, by setmaxnreg: the same program as two_ctas_per_sm.

Builds on two_ctas_per_sm and warp_specialized; changes nothing in core Triton. The missing levers are a warp's own
registers (`maxnreg` holds for the whole launch) and a warpgroup's own code. Where the compiler specializes warps, which
with mma.sync it does on sm_120a alone, it writes setmaxnreg with numbers of its own.
"""

from triton_kernels.tma.two_ctas_per_sm import launch, specialize, workspace_bytes  # noqa: F401
