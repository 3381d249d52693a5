"""What tools look at: problems for sanitizers, for hardware counters and for the CPU's counts. No torch."""

from collections.abc import Iterator
from dataclasses import replace

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem

COUNTED = Problem.square(1, 1, 512, 128, causal=True)
"""Counted in seconds, and long enough for first, inner and diagonal tiles and for rings of buffers that wrap."""
LARGE = Problem.square(4, 16, 4096, 128)
"""Fills the GPU: only there the warps that were active say something."""

SANITIZED = {
    # Small, so that a launch takes seconds under a tool; long enough that rings of buffers wrap.
    "all": (
        Problem(1, 2, 1, 256, 384, 64, "fp16", True),
        Problem(1, 2, 2, 256, 384, 128, "bf16", False),
    ),
    "general": (
        Problem(1, 4, 2, 203, 113, 128, "bf16", True, "bshd"),  # queries that see no key
        Problem(1, 2, 1, 113, 203, 256, "fp16", False),
    ),
    # More than two tiles for each multiprocessor of an H200: blocks go on from one tile to another.
    "persistent": (
        Problem(2, 68, 17, 203, 257, 128, "bf16", True, "bshd"),
        Problem(2, 68, 17, 130, 113, 256, "fp16", False),
    ),
}

BANK_CONFLICTS = ("mma_ldmatrix", "padded_rows", "xor_swizzle", "tma_loads", "tma_swizzle")
"""Techniques that differ in bank conflicts: counted for both head dimensions."""
L2_ORDERS = ("batched_m_tiles", "l2_grid_order")
"""Techniques that differ in which blocks share the L2 cache: counted with a causal mask too, and as the steps of the
article that published both hit rates."""
L2_ARTICLE = "seed_kernel_one"


def profiled(name: str) -> Iterator[tuple[Problem, Tile | None]]:
    """The problems on which hardware counters are read of a technique, at its reference tile where none is named."""
    yield COUNTED, None
    yield LARGE, None
    if name in BANK_CONFLICTS:
        yield replace(COUNTED, head_dim=64), None
    if name in L2_ORDERS:
        from harness.catalog import experiments  # which asks the operators

        yield replace(LARGE, causal=True), None
        article = experiments.article(L2_ARTICLE)
        for step in article.steps:
            if step.technique == name:
                yield article.problem, step.tile
