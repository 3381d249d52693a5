"""Which variants of one problem are interleaved with each other, and how fast any of them can possibly be."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.catalog import techniques
from harness.catalog.cases import Case
from harness.operators.protocol import Problem

LARGEST = 8
"""Variants of a group, its anchor included."""
SPREAD = 4.0
"""Slowest over fastest of a group, its anchor apart."""
IMPOSSIBLE = 0.95
"""Share of the roofline's time below which a measurement is wrong, whatever the output looks like."""


def environments(
    cases: Iterable[Case], variables: Mapping[Case, Mapping[str, str] | None]
) -> list[tuple[dict[str, str], list[Case]]]:
    """Splits cases of one problem by the environment variables that their process needs.

    A case that runs in any process joins the split of the CUDA twins, which is the last. Beside a user's own kernel the
    CUDA twins run in any process: all are timed in that kernel's.
    """
    cases = list(cases)
    center = "own" if any(case.kernel for case in cases) else "cuda"
    splits: dict[tuple[tuple[str, str], ...], list[Case]] = {}
    for case in cases:
        if (needed := variables[case]) is not None and (case.backend != "cuda" or center == "cuda"):
            splits.setdefault(tuple(sorted(needed.items())), []).append(case)

    def rank(split: tuple[tuple[str, str], ...]) -> tuple[bool, int]:
        return any(case.backend == center for case in splits[split]), len(splits[split])

    home = max(splits, key=rank, default=())
    placed = {case for split in splits.values() for case in split}
    for case in cases:
        if case not in placed:
            splits.setdefault(home, []).append(case)
    return [(dict(split), splits[split]) for split in sorted(splits, key=rank)]


def twins(case: Case) -> object:
    """A key that the twins of a rung share, so that they are timed together. A peer has its own."""
    return (case.technique, case.tile) if case.technique else case


def rivals(case: Case) -> object:
    """A key that all tiles of one kernel share, so that they are timed together."""
    return (case.technique, case.backend)


def groups(
    cases: Sequence[Case], milliseconds: Mapping[Case, float], together: Callable[[Case], object] = twins
) -> list[list[Case]]:
    """Fills groups of at most LARGEST - 1 (the anchor comes on top) within SPREAD, slowest group first.

    What is equal by `together` stays together where SPREAD allows. The fastest group comes last, so that the anchor's
    newest row is from the group that the headline ratios are about.
    """
    related: dict[object, list[Case]] = {}
    for case in cases:
        related.setdefault(together(case), []).append(case)
    units: list[list[Case]] = []
    for unit in related.values():
        units += [unit] if _fits(unit, milliseconds) else [[case] for case in unit]
    units.sort(key=lambda unit: min(milliseconds[case] for case in unit))
    filled: list[list[Case]] = []
    for unit in units:
        group = next((group for group in filled if _fits([*group, *unit], milliseconds)), None)
        if group is None:
            filled.append(group := [])
        group += unit
    return filled[::-1]


def finals(
    cases: Sequence[Case], variables: Mapping[Case, Mapping[str, str] | None], ranks: Mapping[Case, Any]
) -> list[tuple[dict[str, str], list[Case]]]:
    """The last groups of a problem, one per environment: the fastest of each series that can live there, and its peers.

    They are timed anew after the choice, so that the samples that chose a kernel are not those that score it. Where the
    committed table has a tile for a rung, only that one is taken. A CUDA kernel does not read Triton's variables:
    the best of them is in every final group. `ranks` are of what was timed and passed; the fastest has the lowest.
    """
    tuned = {(case.technique, case.backend) for case in ranks if _is_best_tile(case)}
    found = []
    for needed, _ in environments(cases, variables):
        fastest: dict[str, Case] = {}
        for case in sorted(ranks, key=ranks.__getitem__):
            anywhere = case.backend == "cuda" or variables[case] is None
            eligible = _is_best_tile(case) or (case.technique, case.backend) not in tuned
            if eligible and (anywhere or variables[case] == needed):
                fastest.setdefault(str(case.kernel or case.backend), case)
        if not all(case.is_peer for case in fastest.values()):
            found.append((needed, list(fastest.values())))
    return found


def roofline_ms(problem: Problem, mma: str | None, peaks: Mapping[str, Any] | None) -> float | None:
    """The least time that the GPU's arithmetic and memory allow, None when its peaks are unknown."""
    if peaks is None:
        return None
    tflops = peaks["fp32_tflops" if mma == "fma" else "tensor_tflops"]
    bounds = [
        problem.least_flops / tflops / 1e9 if tflops else None,
        problem.bytes / peaks["bytes_per_s"] * 1e3 if peaks["bytes_per_s"] else None,
    ]
    return max((bound for bound in bounds if bound is not None), default=None)


def _is_best_tile(case: Case) -> bool:
    """Whether the tile is the committed table's and not the registry's. Peers have no tile."""
    if case.technique is None:
        return False
    return case.tile != techniques.reference_tile(techniques.at(case.technique, case.problem), case.problem.tile_key)


def _fits(cases: Sequence[Case], milliseconds: Mapping[Case, float]) -> bool:
    times = [milliseconds[case] for case in cases]
    return len(cases) < LARGEST and max(times) <= SPREAD * min(times)
