"""What each step buys: from the value before it to the value after it, with tile and technique apart.

A step is a technique in one language at one problem, under one policy: all at the reference tile, or each at its best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.catalog.techniques import TECHNIQUES, Technique
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point, Ratio, Row
from reports.data.titles import title
from reports.facts import answer

POLICIES = ("best", "reference")
HINTS = {("warp_specialized", series): "USETMAXREG" for series in ("triton", "triton_native")}
"""Twins that ask the compiler for the technique -> the instruction that shows that it listened."""
SINGLE = "Single steps aside, each from its own parent"
CRIPPLED = 0.67
"""A step below this share of the speed before it, which the next one gives back, is slow on purpose."""
SPILLS = 1024
"""Bytes a thread from which on a kernel is called crippled."""


@dataclass(frozen=True)
class Step:
    """`kind`: first (nothing before it), technique (the tile is the parent's), tile (the program is the parent's),
    both, same (program and tile are the parent's), dropped (the compiler ignored the hint, so that only the tile
    changed), none (no number).

    `between`: the parent at this step's tile, where a row holds it; it tells tile and technique apart. `alone`: the
    step over that, or over the parent where the tile is the parent's.
    """

    technique: Technique
    kind: str
    before: float | None
    after: float | None
    between: float | None
    ratio: Ratio | None
    point: Point
    parent: Point | None
    note: str = ""
    alone: Ratio | None = None

    @property
    def gain(self) -> float:
        """TFLOPS that the technique added by itself; 0 where it did not do it alone."""
        if not self.after or self.kind not in ("technique", "both"):
            return 0
        start = self.between or (self.before if self.kind == "technique" else None)
        return self.after - start if start else 0


@dataclass(frozen=True)
class Chain:
    """Steps of both columns, technique by technique; `heading` says what a side branch starts from."""

    heading: str
    techniques: list[Technique]
    columns: dict[str, list[Step]]


def point_of(
    data: Dataset,
    problem: Problem,
    technique: Technique,
    backend: str,
    policy: str,
    experiments: Sequence[str] | None = None,
) -> Point:
    """The kernel in the first of `experiments` that has it, by default of all that time the ladders; under "best" at
    the committed tile, which may be the reference's."""
    names = answer.experiments(data) if experiments is None else experiments
    found = [data.point(name, problem, technique.name, backend, best=policy == "best") for name in names]
    counting = [point for point in found if point.counts]
    if not counting and policy == "best":
        return point_of(data, problem, technique, backend, "reference", experiments)
    told = (point for point in found if point.row)  # an earlier version
    return counting[0] if counting else next(told, next(iter(found), Point("hole", reason="not measured")))


def main_chain(data: Dataset, problem: Problem) -> list[Technique]:
    """From the first technique to the fastest CUDA kernel with mma.sync, parent by parent."""
    row = answer.best(data, problem, "cuda", "mma_sync").row
    return _ancestry(techniques.get(row.technique)) if row else []


def chains(data: Dataset, problem: Problem, policy: str, columns: Sequence[str] = ("cuda", "triton")) -> list[Chain]:
    """The way to the fastest CUDA kernel with mma.sync, then what leaves it: branches of two steps and more, then
    single steps."""
    main = main_chain(data, problem)
    rest = [one for one in timed(data) if one not in main and one.mma != "wgmma"]
    ends = [one for one in rest if not any(techniques.parent(other) == one for other in rest)]
    branches: list[list[Technique]] = []
    for end in ends:
        taken = [one for branch in branches for one in branch]
        branches.append([one for one in _ancestry(end) if one in rest and one not in taken])

    def chain(heading: str, rungs: list[Technique]) -> Chain:
        return Chain(heading, rungs, {name: steps(data, problem, rungs, name, policy) for name in columns})

    longest_first = sorted((branch for branch in branches if len(branch) > 1), key=len, reverse=True)
    found = [chain("", main), *(chain(f"Side branch from “{_parent_title(one[0])}”", one) for one in longest_first)]
    if single := [branch[0] for branch in branches if len(branch) == 1]:
        apart = {name: [one_step(data, problem, one, name, policy) for one in single] for name in columns}
        found.append(Chain(SINGLE, single, apart))
    return found


def timed(data: Dataset) -> list[Technique]:
    """The techniques that the ladder's experiment has rows of, in the order of the registry."""
    names = {row.technique for row in data.timings(answer.LADDER) if row.technique}
    return [technique for technique in TECHNIQUES if technique.name in names]


def steps(data: Dataset, problem: Problem, chain: Sequence[Technique], backend: str, policy: str) -> list[Step]:
    """One column. A ratio over a parent that the step before it had crippled says what the two are together."""
    found: list[Step] = []
    for technique in chain:
        step = one_step(data, problem, technique, backend, policy)
        last = found[-1] if found else None
        if last and last.parent and last.ratio and step.ratio and gives_back(last.ratio.value, step.ratio.value):
            both = data.ratio(step.point, last.parent)
            if both:
                step = replace(step, note=f"both steps together: ×{both.value:.2f}")
        found.append(step)
    return found


def gives_back(lost: float, won: float) -> bool:
    """Whether a step gives back what the one before it had lost."""
    return lost < CRIPPLED and won > 1 / CRIPPLED


def one_step(data: Dataset, problem: Problem, technique: Technique, backend: str, policy: str) -> Step:
    """A technique in one language, from its parent under the same policy. Where one of the two multiplies by wgmma and
    the other does not, the technique comes first: there is no ratio across instructions."""
    point = point_of(data, problem, technique, backend, policy)
    above = techniques.parent(technique, backend)
    before = point_of(data, problem, above, backend, policy) if above else None
    if not point.counts or not point.row:
        return Step(technique, "none", _value(before), None, None, None, point, before)
    if before is None or not before.counts or not before.row or _is_by_wgmma_alone(point.row, before.row):
        return Step(technique, "first", None, point.tflops, None, None, point, None)
    moved = point.row.tile != before.row.tile
    ratio = data.ratio(point, before)
    kind = "both" if moved else "technique"
    if point.kind == "same_program" or is_parents_program(technique, backend):
        kind = "tile" if moved else "same"
    if dropped := hint_dropped(data, technique, backend, problem, point):
        kind = "dropped" if moved else "same"
    at_tile = _at_tile(data, problem, above, backend, point.row) if above and kind == "both" else None
    alone = ratio if kind == "technique" else data.ratio(point, at_tile) if at_tile else None
    note = ""
    if dropped:
        note = "hint dropped" + (": only the tile" if moved else "")
    elif ratio and ratio.value > 1.5 and (spilled := spill_bytes(data, before)) >= SPILLS:
        note = f"the kernel before it spills {spilled / 1000:.1f} kB"
    elif ratio and ratio.value < 0.95 and (spilled := spill_bytes(data, point)) > 64:
        note = f"spills {spilled} bytes"
    between = _value(at_tile)
    return Step(technique, kind, before.tflops, point.tflops, between, ratio, point, before, note, alone)


def spill_bytes(data: Dataset, point: Point) -> int:
    """Bytes a thread that the kernel of a point keeps in local memory, by any row that read its machine code."""
    row = point.row
    if not row:
        return 0
    return max((found["code"].get("spill_bytes") or 0 for found in _codes(data, row)), default=0)


def _codes(data: Dataset, row: Row) -> list[Row]:
    wanted = (row.technique, row.backend, row.problem, row.tile, row.source_sha256)
    name = (row.technique, row.backend)
    return [
        other for other in data.with_code(*name) if (*name, other.problem, other.tile, other.source_sha256) == wanted
    ]


def hint_dropped(data: Dataset, technique: Technique, backend: str, problem: Problem, point: Point) -> bool:
    """Whether the machine code shows that the compiler did not do what the source asks."""
    instruction = HINTS.get((technique.name, backend))
    if instruction is None or not point.row:
        return False
    censuses = [row["code"].get("census") for row in _codes(data, point.row)]
    censuses = censuses or [
        row["code"].get("census") for row in data.codes(technique.name, backend, "sm_90a", problem.head_dim)
    ]
    return any(census and not census.get(instruction) for census in censuses)


def is_parents_program(technique: Technique, backend: str) -> bool:
    """Whether the twin re-exports what its parent is, or re-exports too."""
    parent = techniques.parent(technique, backend)
    program = sources.same_program(technique.path, backend)
    return bool(parent and program and program in (parent.name, sources.same_program(parent.path, backend)))


def _is_by_wgmma_alone(row: Row, before: Row) -> bool:
    """Whether one of the two multiplies by wgmma and the other does not."""
    return (row.mma == "wgmma") != (before.mma == "wgmma")


def _at_tile(data: Dataset, problem: Problem, parent: Technique, backend: str, row: Row) -> Point | None:
    tile = Tile.parse(row.tile)
    points = (data.point(name, problem, parent.name, backend, tile=tile) for name in answer.experiments(data))
    return next((point for point in points if point.counts), None)


def _value(point: Point | None) -> float | None:
    return point.tflops if point and point.counts else None


def _ancestry(technique: Technique) -> list[Technique]:
    chain = [technique]
    while parent := techniques.parent(chain[0]):
        chain.insert(0, parent)
    return chain


def _parent_title(technique: Technique) -> str:
    parent = techniques.parent(technique)
    return title(parent.name) if parent else ""
