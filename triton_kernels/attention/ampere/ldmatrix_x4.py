"""One ldmatrix.x4 feeds two mma instructions, for K and (transposed) for V.

Builds on cp_async_pipeline. Core Triton leaves the loading of fragments to the compiler: wherever the tile is large
enough it uses ldmatrix.x4, transposed for V, without being asked.

So this is the same program as cp_async_pipeline.
"""

from triton_kernels.attention.ampere.cp_async_pipeline import twin  # noqa: F401
