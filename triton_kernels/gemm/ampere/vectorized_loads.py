"""16-byte accesses to global and to shared memory.

Builds on register_tiled. Core Triton leaves the width of accesses to the compiler, which uses 16 bytes wherever it can
prove that addresses are multiples of them: pointers and strides that are multiples of 16 when the kernel is called tell
it so.

So this is the same program as block_tiled, at another tile.
"""

from triton_kernels.gemm.ampere.block_tiled import twin  # noqa: F401
