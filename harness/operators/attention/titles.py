"""What techniques, libraries and problems are called on pages, and the PTX instructions that techniques are about."""

from typing import Any

from harness.operators.attention.problem import Problem

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
        "packed_heads": "Heads of a group in one tile",
        "split_keys": "Parts of the keys",
        "one_launch_join": "Parts joined by the last block",
        "kv_rings": "Rings of keys and values",
        "flagship_decode": "Decode flagship",
        "short_fetches": "L2 fetches 128 bytes",
        "parts_at_once": "Parts joined at once",
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
        "producer_consumer": "Producer warpgroup",
        "host_descriptors": "Descriptors from the host",
        "three_warpgroups": "Three consumer warpgroups",
        "setmaxnreg_consumers": "Producer warps, more registers",
        "softmax_lock": "Softmax in turns",
        "exp_lock": "Exponentials in turns",
        "scores_in_flight": "Next scores in flight",
        "overlapped_softmax": "Softmax overlaps wgmma",
        "held_overlap": "Softmax overlaps wgmma, order held",
        "pingpong": "Ping-pong",
        "persistent": "One block per SM",
        "lasting_roles": "Roles for many tiles",
        "ascending_keys": "Keys in ascending order",
        "own_diagonal": "Each warpgroup stops at its diagonal",
        "fused_switch": "Next tile begins early",
        "head_by_head": "Tiles head by head",
        "double_buffered_p": "Two buffers for P",
    },
    "The whole kernel": {
        "general_shapes": "Any length and stride",
        "lean_instructions": "Fewer instructions",
        "flagship": "Flagship",
        "thread_rescale": "Rescale by thread",
    },
}
"""Theme -> technique, a rung or a technique that has proofs alone -> its title."""

INSTRUCTIONS = {
    "mma_ldmatrix": ("mma", "ldmatrix"),
    "xor_swizzle": ("ldmatrix",),
    "padded_rows": ("ldmatrix",),
    "ldmatrix_x4": ("ldmatrix",),
    "cp_async_pipeline": ("cp.async",),
    "tma_loads": ("cp.async.bulk.tensor", "mbarrier"),
    "tma_swizzle": ("cp.async.bulk.tensor",),
    "mbarrier_ring": ("mbarrier",),
    "warp_specialized": ("mbarrier",),
    "setmaxnreg_consumers": ("setmaxnreg",),
    "softmax_lock": ("bar",),
    "wgmma": ("wgmma",),
    "producer_consumer": ("setmaxnreg", "mbarrier"),
    "exp_lock": ("bar",),
    "overlapped_softmax": ("wgmma",),
    "pingpong": ("bar",),
    "pinned_maxima": ("mbarrier",),
    "tma_store": ("stmatrix", "cp.async.bulk.tensor"),
    "cluster_multicast": ("cp.async.bulk.tensor", "mbarrier"),
}
"""Technique -> the instructions that it is about."""

LABELS = {
    "sdpa_cudnn": "cuDNN",
    "sdpa_flash": "FlashAttention-2 (SDPA)",
    "sdpa_math": "SDPA math",
    "flex": "FlexAttention",
    "fa2": "flash-attn 2",
    "fa3": "flash-attn 3",
    "fa4": "flash-attn 4",
    "flash_attention": "flash_attention of this project",
    "cudnn": "cuDNN",
    "fastest": "the fastest library",
    "fastest_sustained": "the fastest library, under load",
    "flagship": "CUDA’s flagship",
    "decode": "CUDA in decoding",
    "triton_decode": "core Triton in decoding",
    "fa2_seed001": "flash-attn 2, on the A100 article’s problems",
    "article": "the article’s own code",
    "mma_sync_cuda": "CUDA with mma.sync",
    "seed_5090": "CUDA (5090 article)",
    "seed_blackflash": "CUDA (BlackFlash)",
    "seed_kernel_one": "CUDA (kernel 1)",
    "seed_raw_ptx": "CUDA (raw PTX)",
    "seed_rtx5080": "CUDA (RTX 5080)",
    "gap_explained": "Share of the gap from core Triton to the flagship that has a cause",
}
"""Library, side of a ratio, or entry of the scorecard that is no ratio -> its name."""


def problem_title(problem: Problem) -> str:
    """head_dim 128, causal, the rest in words that fit a phone."""
    length = f"{problem.seq_q}" if problem.seq_q == problem.seq_kv else f"{problem.seq_q}x{problem.seq_kv}"
    heads = f"{problem.heads}" if problem.heads == problem.heads_kv else f"{problem.heads}/{problem.heads_kv}"
    layout = "" if problem.layout == "bhsd" else f" {problem.layout}"
    sizes = f"B={problem.batch} H={heads} N={length} {problem.dtype}{layout}"
    return f"head_dim {problem.head_dim}, {problem.mask}  ({sizes})"


def problem_order(problem: Problem) -> tuple[Any, ...]:
    """head_dim 128 first, full before causal, then from the shortest; no two problems have the same place."""
    sizes = problem.dtype, problem.seq_q, problem.seq_kv, problem.batch, problem.heads, problem.heads_kv
    return problem.head_dim != 128, problem.head_dim, problem.causal, *sizes, problem.slug
