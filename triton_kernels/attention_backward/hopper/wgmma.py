"""Warpgroup products: where the compiler may, it turns the same products into wgmma.

Builds on vector_atomics; changes the instruction of all products. The kernel does not name it: mma.sync above is what a
switch of the compiler asks for (DISABLE_MMA_V3), and wgmma what it does by itself with tiles of 64 rows and more.

So this is the same program as one_kernel, compiled without that switch.
"""

from triton_kernels.attention_backward.hopper.one_kernel import twin  # noqa: F401
