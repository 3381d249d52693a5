"""The hardware swizzles a tile over 128 bytes as it writes it, and the addresses of ldmatrix follow.

Builds on tma_loads. Core Triton leaves the layout of shared memory to the compiler: it takes the widest swizzle that a
row of the TMA box fills, 128, 64 or 32 bytes, and none for rows of 16 bytes. The source can only choose the width of
the box.

So this is the same program as tma_loads.
"""

from triton_kernels.attention.tma.tma_loads import twin  # noqa: F401
