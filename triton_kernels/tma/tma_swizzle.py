"""128-byte swizzle by the hardware, followed by the addresses of ldmatrix: the same program as tma_loads.

Builds on tma_loads; changes nothing in core Triton. The missing lever is the layout of shared memory: the compiler
picks the widest swizzle that a row of a box fills. The width of the box is the only say: rows of 16 bytes have none.
"""

from triton_kernels.tma.tma_loads import twin  # noqa: F401
