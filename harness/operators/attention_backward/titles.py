"""What ratios and techniques are called on pages."""

THEMES = {
    "Tensor cores": {"wgmma": "wgmma", "transposed_scores": "Transposed scores"},
    "Copies and barriers": {"tma_ring": "Ring of Q and dO by TMA"},
    "Who adds dQ": {
        "two_kernels": "A kernel for dQ",
        "one_kernel": "dQ by atomics",
        "vector_atomics": "16-byte atomics",
        "bulk_reduce": "Warps that only add dQ",
        "own_keys": "dQ of each warpgroup’s keys",
        "deterministic": "dQ in a fixed order",
        "ordered_halves": "A fixed order that hardly waits",
    },
    "Who works when": {
        "producer_consumer": "Producer warpgroup",
        "overlapped": "Products under arithmetic",
        "next_scores": "Next scores early",
        "mask_apart": "The mask apart",
        "longest_first": "Longest rows first",
        "descending": "Queries from the last on",
        "next_tile": "The next tile early",
        "loads_first": "Loads before products",
        "paired_tiles": "Two tiles a multiprocessor",
        "half_steps": "Steps in two halves",
        "eighty_rows": "80 queries a step",
        "early_launch": "Kernels overlap",
    },
    "The whole kernel": {"flagship": "Flagship"},
}

LABELS = {
    "fa4_deterministic": "flash-attn 4, deterministic",
    "backward": "attention backward in CUDA",
    "backward_triton": "attention backward in core Triton",
    "backward_gluon": "attention backward in Gluon",
    "backward_deterministic": "attention backward in CUDA, deterministic",
    "backward_gap_explained": "Share of the gap from core Triton to the flagship that has a cause",
}
