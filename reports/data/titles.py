"""A technique's title for people, and the theme that it is listed under."""

from __future__ import annotations

THEMES: dict[str, dict[str, str]] = {
    "Tensor cores": {
        "scalar": "Scalar FMA",
        "vectorized_loads": "16-byte loads",
        "wmma": "Tensor cores, opaque fragments",
        "mma_ldmatrix": "mma.sync and ldmatrix",
        "ldmatrix_x4": "ldmatrix.x4",
        "batched_m_tiles": "Two row blocks per warp",
        "fragment_double_buffer": "Fragments loaded ahead",
        "wgmma": "wgmma",
        "wide_tile": "Tile not a power of two",
        "mma_choice": "Choice of mma.sync or wgmma",
        "wgmma_width": "Width of a wgmma",
        "two_cta_mma": "One product of two blocks",
        "block_scaled_mma": "8-bit floats with scales",
    },
    "Shared memory": {
        "xor_swizzle": "XOR swizzle",
        "padded_rows": "Padded rows",
        "large_tile": "Wider tile",
        "asymmetric_kv_buffers": "Two buffers for K, one for V",
        "staged_epilogue": "Output through shared memory",
        "tma_swizzle": "TMA, 128-byte swizzle",
        "tma_store": "Output by TMA",
        "unswizzled_rows": "Unswizzled rows",
        "tma_reduce": "TMA store that adds",
    },
    "Softmax": {
        "register_softmax": "Scores stay in registers",
        "direct_rescale": "New maximum first",
        "split_warp_pairs": "Two warps share a row",
        "exp2_softmax": "exp2, scale folded in",
        "conditional_rescale": "Rescale behind a branch",
        "lazy_rescale": "Lazy rescale",
        "lazy_consumers": "Lazy rescale, producer warps",
        "lazy_scores_in_flight": "Lazy rescale, next scores in flight",
        "lazy_rescale_wgmma": "Lazy rescale, wgmma",
        "early_rescale": "Rescale between the products",
        "integer_max": "Integer maxima",
        "pinned_maxima": "Maxima before the wait",
    },
    "Copies and barriers": {
        "cp_async_pipeline": "Asynchronous copies",
        "tma_loads": "TMA, rows unswizzled",
        "mbarrier_ring": "Ring of mbarriers",
        "lean_mbarrier_ring": "TMA loads, fewer instructions",
        "cluster_multicast": "Cluster multicast",
        "clusters": "Clusters",
        "blocks_per_sm": "Blocks per SM",
        "l2_policy": "L2 eviction policy",
        "gathered_rows": "Rows named by indices",
        "semaphores": "Atomics, semaphores",
    },
    "Who works when": {
        "l2_grid_order": "Grid order for L2",
        "longest_first": "Longest rows first",
        "warp_specialized": "Producer warp",
        "warp_specialized_sm120": "Producer warp on sm_120",
        "warp_specialized_sm100": "Producer warp on sm_100",
        "device_print": "Print",
        "role_branch": "Code of some warps alone",
        "named_barriers": "Named barriers",
        "three_consumers": "Three warpgroups that multiply",
        "producer_consumer": "Producer warpgroup",
        "three_warpgroups": "Three consumer warpgroups",
        "setmaxnreg_consumers": "Producer warps, more registers",
        "softmax_lock": "Softmax in turns",
        "exp_lock": "Exponentials in turns",
        "scores_in_flight": "Next scores in flight",
        "overlapped_softmax": "Softmax overlaps wgmma",
        "held_overlap": "Softmax overlaps wgmma, order held",
        "pingpong": "Ping-pong",
        "persistent": "One block per SM",
        "own_diagonal": "Each warpgroup stops at its diagonal",
        "fused_switch": "Next tile begins early",
        "head_by_head": "Tiles head by head",
        "double_buffered_p": "Two buffers for P",
    },
    "The whole kernel": {
        "general_shapes": "Any length and stride",
        "lean_instructions": "Fewer instructions",
        "flagship": "Flagship",
        "fp8": "8-bit inputs",
    },
}
TITLES = {name: title for theme in THEMES.values() for name, title in theme.items()}


def title(technique: str) -> str:
    """XOR swizzle; a name without a title is made readable."""
    return TITLES.get(technique, technique.replace("_", " ").capitalize())


def theme(technique: str) -> str:
    """The theme of a technique; of one without a theme the last."""
    return next((theme for theme, names in THEMES.items() if technique in names), "The whole kernel")
