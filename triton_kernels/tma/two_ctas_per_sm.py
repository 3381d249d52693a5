"""Two blocks per SM, so that one's softmax runs under the other's MMA: the same program as mbarrier_ring.

Builds on mbarrier_ring; changes nothing in core Triton but the tile. The missing lever is a minimum of blocks per SM:
how many fit follows from num_warps, num_stages and the registers that the assembler takes. The nearest is `maxnreg` in
`tile.extra`, which caps the registers of every warp alike.
"""

from triton_kernels.tma.mbarrier_ring import launch, specialize, workspace_bytes  # noqa: F401
