"""All claims, and the rows of the matrix that are not rungs of the registry."""

from dataclasses import replace

from harness.expressibility.claims import inherited
from harness.operators.attention.claims import (
    beyond,
    copies,
    cuda,
    hopper,
    ladders,
    plain,
    products,
    rivals,
    roles,
    shared_memory,
    tlx,
)

SAME = {
    "lean_mbarrier_ring": "mbarrier_ring",
    "scores_in_flight": "overlapped_softmax",
    "producer_consumer": "warp_specialized",
    "exp_lock": "softmax_lock",
    "pingpong": "softmax_lock",
    "lazy_rescale_wgmma": "lazy_rescale",
    "own_diagonal": "role_branch",
    "head_by_head": "l2_grid_order",
}
"""Rung -> the one that asks the same of a language."""

_OWN = (
    *plain.CLAIMS,
    *shared_memory.CLAIMS,
    *products.CLAIMS,
    *copies.CLAIMS,
    *roles.CLAIMS,
    *hopper.CLAIMS,
    *ladders.CLAIMS,
    *beyond.CLAIMS,
)
_IN_TLX = (*tlx.OWN, *inherited(_OWN, {claim.technique for claim in tlx.OWN}))
_AGAIN = tuple(
    replace(claim, technique=rung)
    for rung, asked in SAME.items()
    for claim in (*_OWN, *_IN_TLX)
    if claim.technique == asked
)

CLAIMS = (*_OWN, *_IN_TLX, *_AGAIN, *cuda.CLAIMS)
"""Of the matrix."""
OF_RIVALS, ASKED = rivals.CLAIMS, rivals.ASKED
"""Of the second table."""

EXTRA = {
    "unswizzled_rows": "a tile in shared memory without swizzle or padding",
    "shared_memory_reuse": "two tiles in the same bytes of shared memory",
    "mma_choice": "which tensor-core instruction computes a product: mma.sync or wgmma",
    "wgmma_width": "how many columns a wgmma has",
    "role_branch": "code that only some warps run",
    "named_barriers": "named barriers: barriers of some warps of a block",
    "warp_specialized_sm120": "roles for warps on sm_120",
    "warp_specialized_sm100": "roles for warps on sm_100",
    "two_cta_mma": "one product computed by two blocks together, on sm_100",
    "blocks_per_sm": "a minimum number of blocks per SM, which bounds the registers of a thread",
    "clusters": "an attention loop in a cluster of two blocks",
    "l2_policy": "which lines L2 keeps: an eviction policy",
    "semaphores": "atomic operations with an order and a scope, and a wait for a flag",
    "device_print": "print from a kernel",
    "tma_reduce": "a TMA store that adds to what is in global memory",
    "gathered_rows": "one TMA load of rows that indices name, from sm_100 on",
    "block_scaled_mma": "a product of 8-bit floats with a scale for each block of them, from sm_100 on",
}
"""Technique without a rung -> its idea."""
