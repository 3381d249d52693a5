"""What things are called on pages and in figures."""

from __future__ import annotations

from harness.operators.attention.problem import Problem

LABELS = {
    "cuda": "CUDA",
    "triton": "Triton",
    "triton_native": "Triton with wgmma",
    "gluon": "Gluon",
    "tlx": "TLX",
    "hatch": "Triton, a hatch",
    "sdpa_cudnn": "cuDNN",
    "sdpa_flash": "FlashAttention-2 (SDPA)",
    "sdpa_math": "SDPA math",
    "flex": "FlexAttention",
    "fa2": "flash-attn 2",
    "fa3": "flash-attn 3",
    "fa4": "flash-attn 4",
}
SCORED = {
    "triton_native": "Core Triton",
    "cudnn": "cuDNN",
    "flex": "FlexAttention",
    "fa2": "FlashAttention-2",
    "fa2_seed001": "FlashAttention-2, on the A100 article’s problems",
    "article": "the article’s own code",
    "mma_sync_cuda": "CUDA with mma.sync",
    "seed_5090": "CUDA (5090 article)",
    "seed_blackflash": "CUDA (BlackFlash)",
    "seed_kernel_one": "CUDA (kernel 1)",
    "seed_raw_ptx": "CUDA (raw PTX)",
    "seed_rtx5080": "CUDA (RTX 5080)",
}
"""Sides of a ratio of the scorecard that are no backend."""
SHARES = {"gap_explained": "Share of the gap from core Triton to the flagship that has a cause"}
"""Entries of the scorecard that are no ratio."""
SHORT = {"sdpa_flash": "FA2", "sdpa_cudnn": "cuDNN", "flex": "Flex"}


def label(backend: str) -> str:
    """The name of a backend for people, a version kept: fa4@4.0.0 -> flash-attn 4 4.0.0."""
    name, _, version = backend.partition("@")
    return f"{LABELS.get(name, name)} {version}".strip()


def score_title(name: str) -> str:
    """An entry of the scorecard for people: triton_native_over_flex -> Core Triton over FlexAttention."""
    if name in SHARES:
        return SHARES[name]
    ours, _, theirs = name.partition("_over_")
    return f"{SCORED.get(ours, label(ours))} over {SCORED.get(theirs, label(theirs))}"


def cell_title(problem: Problem) -> str:
    """head_dim 128, causal, the rest in words that fit a phone."""
    length = f"{problem.seq_q}" if problem.seq_q == problem.seq_kv else f"{problem.seq_q}x{problem.seq_kv}"
    heads = f"{problem.heads}" if problem.heads == problem.heads_kv else f"{problem.heads}/{problem.heads_kv}"
    return f"d={problem.head_dim}, {problem.mask}  (B={problem.batch} H={heads} N={length} {problem.dtype})"
