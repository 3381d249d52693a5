"""Two warps share 16 query rows and exchange row max and row sum: the same program as direct_rescale.

Builds on direct_rescale; changes nothing in core Triton. The missing lever is the warp grid: the compiler lays all
warps along the rows or all along the columns of two chained dot products, and exchanges row max and row sum by itself.
"""

from triton_kernels.ampere.direct_rescale import launch, specialize, workspace_bytes  # noqa: F401
