"""What a step buys: from the value before it to the value after it, with tile and technique apart.

A step is a technique in one language at one problem: at the reference tile, or at its best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness import operators
from harness.catalog import experiments, sources, techniques
from harness.catalog.entries import Technique, Tile
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Ratio, Row

SPILLS = 1024
"""Bytes a thread from which on a kernel is called crippled."""
HINTED = ("triton", "triton_native")
"""Series whose source may ask the compiler for a technique."""


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
    alone: Ratio | None = None

    @property
    def gain(self) -> Ratio | None:
        """What the technique buys, with its tile where nobody timed the parent at that."""
        return self.alone or self.ratio

    @property
    def has_tile(self) -> bool:
        """Whether `gain` is also what the tile buys."""
        return self.kind == "both" and self.ratio is not None and self.alone is None


def points_of(data: Dataset, problem: Problem, technique: Technique, backend: str, best: bool) -> dict[str, Point]:
    """Experiment -> the kernel in it, the technique's own experiment first; `best`: at the committed tile."""
    names = dict.fromkeys((data.experiment_of(technique), *data.experiments))
    return {name: data.point(name, problem, technique.name, backend, best=best) for name in names}


def point_of(data: Dataset, problem: Problem, technique: Technique, backend: str, best: bool = False) -> Point:
    """The kernel in the first experiment that has it."""
    found = [*points_of(data, problem, technique, backend, best).values()]
    counting = next((point for point in found if point.counts), None)
    if counting is None and best:
        return point_of(data, problem, technique, backend)
    earlier = (point for point in found if point.row)
    why = (point for point in found if point.reason != "not measured")
    return counting or next(earlier, None) or next(why, found[0])


def together(data: Dataset, problem: Problem, kernels: Sequence[tuple[Technique, str]], best: bool) -> list[Point]:
    """Of the first experiment that timed all of these kernels; else each of its own, which may never have met."""
    every = [points_of(data, problem, *kernel, best) for kernel in kernels]
    for name in every[0]:
        found = [points[name] for points in every if name in points]
        if len(found) == len(kernels) and all(point.counts for point in found):
            return found
    return [point_of(data, problem, *kernel, best) for kernel in kernels]


def one_step(data: Dataset, problem: Problem, technique: Technique, backend: str, best: bool = False) -> Step:
    """A technique in one language, from its parent; `best`: each at its committed tile. Where one of the two multiplies
    by wgmma and the other does not, the technique comes first: there is no ratio across instructions."""
    point = point_of(data, problem, technique, backend, best)
    above = techniques.parent(technique, backend)
    before = point_of(data, problem, above, backend, best) if above else None
    if not point.counts or not point.row:
        return Step(technique, "none", _value(before), None, None, None, point, before)
    if not (before and before.counts and before.row) or (point.row.mma == "wgmma") != (before.row.mma == "wgmma"):
        return Step(technique, "first", None, point.tflops, None, None, point, None)
    moved = point.row.tile != before.row.tile
    ratio = data.ratio(point, before)
    kind = "both" if moved else "technique"
    if point.kind == "same_program" or is_parents_program(technique, backend):
        kind = "tile" if moved else "same"
    if hint_dropped(data, technique, backend, problem, point):
        kind = "dropped" if moved else "same"
    at_tile = None
    if above and kind == "both":
        tile = Tile.parse(point.row.tile)
        points = (data.point(name, problem, above.name, backend, tile=tile) for name in data.experiments)
        at_tile = next((one for one in points if one.counts), None)
    alone = ratio if kind == "technique" else data.ratio(point, at_tile) if at_tile else None
    return Step(technique, kind, before.tflops, point.tflops, _value(at_tile), ratio, point, before, alone)


def spill_bytes(data: Dataset, point: Point) -> int:
    """Bytes a thread that the kernel of a point keeps in local memory, by any row that read its machine code."""
    read = _codes(data, point.row) if point.row else []
    return max((found["code"].get("spill_bytes") or 0 for found in read), default=0)


def _codes(data: Dataset, row: Row) -> list[Row]:
    wanted = row.problem, row.tile, row.source_sha256
    read = data.with_code(row.technique, row.backend)
    return [other for other in read if (other.problem, other.tile, other.source_sha256) == wanted]


def hint_dropped(data: Dataset, technique: Technique, backend: str, problem: Problem, point: Point) -> bool:
    """Whether the machine code shows that the compiler did not do what the source asks."""
    instruction = operators.get(technique.operator).hints.get(technique.name)
    if instruction is None or backend not in HINTED or not point.row:
        return False
    censuses = [row["code"].get("census") for row in _codes(data, point.row)]
    censuses = censuses or [
        row["code"].get("census") for row in data.codes(technique.name, backend, point.row.arch, problem.tile_key)
    ]
    return any(census and not census.get(instruction) for census in censuses)


def own_problem(technique: Technique) -> Problem | None:
    """The problem that the ladder's experiment has for this rung: of several that its parent runs on too, the one of
    the fewest rungs, on which none runs that builds on this one. None where there is none."""
    where = experiments.load(f"{technique.operator}/{techniques.experiment_of(technique)}").where
    after = [
        other
        for other in operators.get(technique.operator).techniques
        if technique in [techniques.parent(other, language) for language in techniques.LANGUAGES]
    ]

    def of(rung: Technique | None) -> Sequence[Problem]:
        return where.get(rung.name, ()) if rung else ()

    both = [problem for problem in of(technique) if problem in of(techniques.parent(technique))]
    own = [problem for problem in both if len(both) > 1 and not any(problem in of(other) for other in after)]
    return min(own, key=lambda problem: sum(problem in some for some in where.values()), default=None)


def program_of(technique: Technique, backend: str) -> Technique:
    """The technique whose file holds a twin's program: its own, or the one at the end of its re-exports."""
    while name := sources.same_program(technique.path, backend):
        technique = techniques.get(f"{technique.operator}/{name}")
    return technique


def is_parents_program(technique: Technique, backend: str) -> bool:
    """Whether the twin re-exports what its parent is, or re-exports too."""
    parent = techniques.parent(technique, backend)
    program = sources.same_program(technique.path, backend)
    return bool(parent and program and program in (parent.name, sources.same_program(parent.path, backend)))


def _value(point: Point | None) -> float | None:
    return point.tflops if point and point.counts else None
