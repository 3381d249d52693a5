"""Two m16 tiles a warp reuse each K and V fragment: the same program as exp2_softmax, at another tile.

Builds on exp2_softmax; changes the tile only, which comes from the registry. The missing lever is the rows of a warp:
they follow from BLOCK_M and num_warps, and when a V fragment is loaded is the compiler's choice.
"""

from triton_kernels.ampere.exp2_softmax import launch, specialize, workspace_bytes  # noqa: F401
