"""The gap between core Triton's best kernel with one pass over the keys and the flagship: its terms, what caused each,
and the kernels that each is measured by. Standard library only; rows/ledger.py adds up.

A term has one or two prices: what a step gains that adds the technique, and what a later rung loses without it. The
steps lead from core Triton's program to the flagship without a break; what the other prices say differently is the
remainder.
"""

from collections.abc import Mapping
from typing import Any

from harness.catalog.entries import Tile
from harness.operators.attention.gap import Term
from harness.operators.attention.prices import Price
from harness.operators.attention_backward.ablations import ABLATIONS
from harness.operators.attention_backward.problem import Problem

EXPERIMENT = "gap"
NAME = "backward_gap_explained"
LADDER = "hopper"
START = "triton"
"""Core Triton's fastest kernel that the experiment times, of those with one pass over the keys and bulk additions."""
FLAGSHIP = "flagship"
SEVEN_PRODUCTS = (FLAGSHIP, "deterministic")
"""Core Triton's rungs with two passes over the keys, where the gap does not begin."""
HEADLINE = Problem.square(4, 16, 4096, 128)
GOAL = 0.85
FASTEST = (START,)
OVER_ANCHOR: dict[str, str] = {}
"""Nothing was timed in groups of its own."""

TERMS = (
    Term(
        "compiler",
        "The same program, written in CUDA",
        "compiler",
        step=("triton_program", START),
        proofs=("left_operands", "bulk_additions", "gradients bulk"),
    ),
    Term(
        "producer_consumer",
        "A producer warp, and the registers it frees",
        "compiler",
        step=("consumers_reduce", "triton_program"),
        proofs=("gradients roles dropped", "gradients roles of 4 warps", "gradients roles of 8 warps"),
    ),
    Term(
        "reducing_warp",
        "Warps that only add dQ",
        "language",
        leave_out="without_reducing_warp",
        step=("bulk_reduce", "consumers_reduce"),
        proofs=("gradients roles dropped", "gradients roles of 4 warps", "gradients roles of 8 warps", "reducing_hook"),
    ),
    Term(
        "products_in_flight",
        "Products in flight under the arithmetic",
        "compiler",
        step=("overlapped", "bulk_reduce"),
        proofs=("gradients next scores", "gradients rotated"),
    ),
    Term(
        "dp_in_flight",
        "dP under the exponentials alone",
        "effort",
        leave_out="without_dp_in_flight",
        proofs=("gradients under dP",),
        part_of="products_in_flight",
    ),
    Term(
        "orders_of_tiles",
        "The mask apart, and orders of tiles: core Triton has both too",
        "effort",
        step=("descending", "overlapped"),
    ),
    Term(
        "between_tiles",
        "The next tile loaded before the last products end: in core Triton one loop over all tiles",
        "effort",
        step=("next_tile", "descending"),
    ),
    Term(
        "shared_tiles",
        "Tiles of keys shared by blocks in the last round, kernels that overlap",
        "effort",
        step=(FLAGSHIP, "next_tile"),
        proofs=("additions ordered",),
    ),
)

BASES = {one.name: one.builds_on[0] for one in ABLATIONS}
"""Ablation -> the rung that it leaves something out of."""


def kernels() -> tuple[str, ...]:
    """What the terms name, ablations and rungs; core Triton's kernels apart."""
    ends = [end for term in TERMS for end in (*(term.step or ()), term.leave_out)]
    return tuple(dict.fromkeys((FLAGSHIP, *(end for end in ends if end and end != START))))


def place(problem: Problem) -> tuple[bool, int, int, bool]:
    return problem != HEADLINE, problem.seq_q, -problem.head_dim, problem.causal


def name(
    backend: str, technique: str | None, tile: str, tile_of_ledger: Tile, problem: Problem, shared: bool
) -> str | None:
    if backend == START:
        return None if technique in SEVEN_PRODUCTS else START
    needed = backend == "cuda" and technique in kernels() and tile == tile_of_ledger.slug
    return technique if needed else None


def ablations(problem: Problem) -> set[str]:
    """The ablations; their rows say which tile the ledger's is."""
    return {one.name for one in ABLATIONS}


def prices(problem: Problem, tile: Tile, start: str, rows: Mapping[str, Mapping[str, Any]]) -> list[Price]:
    """The terms, each with those of its prices that were timed. `rows`: kernel -> its timing."""
    found = []
    for term in TERMS:
        without = [(BASES[term.leave_out], term.leave_out)] if term.leave_out else []
        ways = [*without, *([term.step] if term.step else [])]
        found.append(Price.of_timed(term, [{to: 1.0, before: -1.0} for to, before in ways], rows))
    return found
