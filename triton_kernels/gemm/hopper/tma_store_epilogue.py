"""C leaves by TMA from shared memory while the next tile is multiplied.

Builds on persistent; changes the epilogue.

This is the same program as persistent, which stores C from registers.
"""

from triton_kernels.gemm.hopper.persistent import twin  # noqa: F401
