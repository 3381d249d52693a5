"""One ldmatrix.x4 feeds two MMAs, for K and for V: the same program as cp_async_pipeline.

Builds on cp_async_pipeline; changes nothing in core Triton. The missing lever is how fragments are loaded: the compiler
takes ldmatrix.x4, transposed for V, on its own wherever the tile is large enough.
"""

from triton_kernels.ampere.cp_async_pipeline import twin  # noqa: F401
