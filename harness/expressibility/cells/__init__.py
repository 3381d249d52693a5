"""All claims, and what the matrix has rows for beside the rungs of the registry."""

from dataclasses import replace

from harness.expressibility.cells import (
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
)
_IN_TLX = (*tlx.OWN, *tlx.inherited(_OWN))
_AGAIN = tuple(
    replace(claim, technique=rung)
    for rung, asked in SAME.items()
    for claim in (*_OWN, *_IN_TLX)
    if claim.technique == asked
)

CLAIMS = (*_OWN, *_IN_TLX, *_AGAIN, *cuda.CLAIMS)
"""Of the matrix."""
OF_RIVALS = rivals.CLAIMS
"""Of the second table."""

EXTRA = {
    "unswizzled_rows": "a tile in shared memory as it lies in global memory: no swizzle, no padding",
    "shared_memory_reuse": "two tiles at the same bytes of shared memory",
    "mma_choice": "which tensor-core instruction multiplies: mma.sync or wgmma",
    "wgmma_width": "how many columns a wgmma has",
    "role_branch": "code of some warps alone",
    "named_barriers": "barriers of some warps of a block, by number",
    "warp_specialized_sm120": "roles for warps on sm_120",
    "two_cta_mma": "one product of two blocks, on sm_100",
    "blocks_per_sm": "at least so many blocks on a multiprocessor: a bound of the registers of a thread",
    "clusters": "a cluster of two blocks runs an attention loop",
    "tma_store": "O by a TMA store from shared memory",
    "l2_policy": "which lines L2 keeps: an eviction policy",
}
"""Technique without a rung -> its idea."""
