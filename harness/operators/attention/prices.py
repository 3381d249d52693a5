"""What each term of the gap is measured by on one problem: weights of kernels, from what was timed there.

The size of a term is the mean of two prices, in logarithms: the flagship over the flagship without the technique, and
one rung of the ladder over the rung before it; or the one of them that was timed. Standard library only; rows/ledger.py
adds up.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Self

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.attention import gap
from harness.operators.attention.gap import FLAGSHIP, SHARED, SQUARE, TRITON, WAYS, Term, at, at_their_tiles, shape
from harness.operators.attention.problem import ANCHOR, Problem

EXPERIMENT = "what_triton_misses"
NAME = "gap_explained"
"""Of the scorecard's entry."""
LADDER = "hopper"
"""GPUs that run it can run the experiment."""
START = TRITON
"""The kernel from which the first way starts."""
HEADLINE = Problem.square(4, 16, 4096, 128)
GOAL = 0.9
"""The share of the gap that is to have a cause on HEADLINE."""
FASTEST = (*WAYS, SHARED, *gap.THEIRS.values(), gap.VOCABULARY, gap.ORDERED, gap.WITH_INTEGERS)
"""Kernels that count at their fastest tile."""
OVER_ANCHOR = {SHARED: f"{ANCHOR}, shared", TRITON: ANCHOR}
"""Triton's programs by nvcc's ptxas were timed in groups of their own: what they are compared by."""

Weights = dict[str, float]
"""Kernel -> how often the logarithm of its speed counts."""


@dataclass(frozen=True)
class Price:
    """What a term is the mean of: weights in one group each."""

    term: Term
    each: tuple[Weights, ...]

    @classmethod
    def of_timed(cls, term: Term, each: Sequence[Weights], rows: Container[str]) -> Self:
        """The prices of which all kernels have rows; all prices if none has."""
        return cls(term, tuple(one for one in each if all(kernel in rows for kernel in one)) or tuple(each))

    @cached_property
    def weights(self) -> Weights:
        """Of the mean."""
        found: Weights = defaultdict(float)
        for one in self.each:
            for kernel, weight in one.items():
                found[kernel] += weight / len(self.each)
        return found

    @property
    def counts(self) -> bool:
        """True if the term is added, false if another term contains it."""
        return not self.term.part_of and self.term.step != (SHARED, TRITON)


def place(problem: Problem) -> tuple[bool, int, int, bool]:
    """Sorts problems: HEADLINE first, then short before long."""
    return problem != HEADLINE, problem.seq_q, -problem.head_dim, problem.causal


def name(
    backend: str, technique: str | None, tile: str, tile_of_ledger: Tile, problem: Problem, shared: bool
) -> str | None:
    """What a timing is called among the weights; None if no term needs it."""
    suffix = ", shared" if shared else ""
    if backend == TRITON and technique in gap.THEIRS:
        return None if shared else gap.THEIRS[technique]
    if backend in (ANCHOR, *WAYS):
        return f"{backend}{suffix}"
    if backend != "cuda" or shared or technique is None:
        return None
    if technique in FASTEST or tile == tile_of_ledger.slug:
        return technique
    others = {(other, where.slug) for other, where, *language in at_their_tiles(problem) if not language}
    return at(technique, Tile.parse(tile)) if (technique, tile) in others else None


def ablations(problem: Problem) -> set[str]:
    """The ablations that were timed at the flagship's tile alone, so that their rows say which tile that is."""
    elsewhere = {other for other, _, *language in at_their_tiles(problem) if not language}
    return {one.name for one in gap.ABLATIONS if one.lacks} - elsewhere


def prices(problem: Problem, tile: Tile, start: str, rows: Mapping[str, Mapping[str, Any]]) -> list[Price]:
    """The terms of a way that the flagship has on this problem. `rows`: kernel -> its timing, with `maxima` in the main
    loop where that is known."""
    found = list(filter(None, (_price(term, problem, tile, start, rows) for term in WAYS[start])))
    steps = {price.term.name: price.term.instead_of for price in found if price.term.instead_of}
    if all(set(price.weights) <= set(rows) for price in found if price.term.name in steps):
        kept = [price for price in found if price.term.name not in steps.values()]
    else:
        kept = [_within(price, steps) for price in found if price.term.name not in steps]
    undone = [price for price in kept if price.term.cause == gap.UNDONE and set(price.weights) <= set(rows)]
    return [_with(price, [one for one in undone if one.term.part_of == price.term.name]) for price in kept]


def _within(price: Price, wholes: Mapping[str, str]) -> Price:
    """A part of a step that was not timed is a part of the whole."""
    part_of = price.term.part_of
    return replace(price, term=replace(price.term, part_of=wholes[part_of])) if part_of in wholes else price


def _with(price: Price, undone: Iterable[Price]) -> Price:
    """A term with what undoes a loss of it."""
    for other in undone:
        price = replace(price, each=tuple(_plus(*both) for both in product(price.each, other.each)))
    return price


def _plus(one: Weights, other: Weights) -> Weights:
    """The weights of a sum."""
    return {kernel: one.get(kernel, 0.0) + other.get(kernel, 0.0) for kernel in {**one, **other}}


def _price(term: Term, problem: Problem, tile: Tile, start: str, rows: Mapping[str, Mapping[str, Any]]) -> Price | None:
    best = rows.get(start) if start != TRITON else None
    best_tile = Tile.parse(best["tile"]) if best else None
    is_square = best_tile is not None and shape(best_tile) == shape(SQUARE) != shape(tile)
    maxima = best["maxima"] if best else None
    has_integers = best_tile is not None and maxima is not None and maxima < best_tile.block_n // 2
    others = at_their_tiles(problem)
    beside = {at(kernel, where) for kernel, where, *language in others if not language}
    has_floats = any((kernel, *language) == (gap.FLOATS, TRITON) for kernel, _, *language in others)

    def takes(kernel: str) -> bool:
        return techniques.unsupported(techniques.at(kernel, problem), "cuda", problem, tile) is None

    def lacks(kernel: str) -> str:
        if kernel != gap.LACKING or not has_integers:
            return kernel
        return gap.LAZILY if takes(gap.LAZILY) else FLAGSHIP

    def placed(kernel: str) -> str:
        return at(kernel, SQUARE) if is_square else kernel

    def end(kernel: str) -> str:
        if kernel == gap.CONFINED:
            return gap.WITH_INTEGERS if has_floats else gap.ORDERED
        if kernel == gap.AWAITED:
            awaited = at(gap.ANY_TILE, gap.CAUSAL_TRITONS)
            return awaited if awaited in beside else gap.VOCABULARY
        if kernel == gap.LACKING:
            return placed(lacks(kernel))
        return TRITON if kernel == SHARED else kernel

    if any(" at " in kernel and kernel not in beside for kernel in term.step or ()):
        return None
    if term.part_of and has_integers:
        return None
    if term.of_tile and not is_square:
        return None
    gains: list[Weights] = []
    if term.leave_out:
        left_out = lacks(term.leave_out)
        if (start != TRITON and best is None) or left_out == FLAGSHIP or not takes(left_out):
            return None
        gains.append({placed(FLAGSHIP): 1.0, placed(left_out): -1.0})
        if gap.LAZILY == left_out != term.leave_out:
            term = replace(term, title=gap.LAZY_TITLE)
    if term.step == (SHARED, TRITON):
        gains.append({SHARED: 1.0, OVER_ANCHOR[SHARED]: -1.0, TRITON: -1.0, ANCHOR: 1.0})
    elif term.step:
        to, before = map(end, term.step)
        gains.append({to: 1.0, before: -1.0})
    own = [TRITON if kernel == gap.PLAIN and not has_floats else kernel for kernel in term.own or ()]
    if len(set(own)) == 2 and term.limited:
        has, has_not = term.limited
        gains = [_plus(gain, {has: -1.0, has_not: 1.0}) for gain in gains]
    return Price.of_timed(term, gains, rows)
