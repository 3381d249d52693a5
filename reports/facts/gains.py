"""What a technique buys in each language: over its parent, over the other language, and why a number is missing."""

import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Ratio
from reports.data.names import label, short_title, title
from reports.facts import steps

DECLINED = "unsupported: "


@dataclass(frozen=True)
class Gain:
    """Geometric mean of a ratio over the problems where both sides count. `linked`: some went over the anchor.
    `processes`: how many timed both sides of the other ones. `worst`: the problem of `low`, where it was asked for."""

    value: float
    cells: int
    low: float
    high: float
    linked: bool
    processes: frozenset[int]
    worst: Problem | None = None


@dataclass(frozen=True)
class Hole:
    """Why `languages` lack a number at the reference tile. `where`: the kinds of problems, empty where it is all."""

    languages: str
    where: str
    problems: int
    reason: str
    is_declined: bool

    @property
    def is_fault(self) -> bool:
        """Whether the kernel failed: nothing declined it, and no timing was "not converged" or "not certain"."""
        return not self.is_declined and not self.reason.startswith("not ")


@dataclass(frozen=True)
class Language:
    """One twin of a technique. `best`: the gain where it and its parent are each at their best tile. `remark`: what a
    reader must know beside the gain. `has_tile`: on some problem the gain is also what the tile buys."""

    backend: str
    gain: Gain | None
    best: Gain | None
    remark: str
    same_program: bool
    has_tile: bool


@dataclass(frozen=True)
class Gains:
    """`versus`: Triton over CUDA with the same class of instructions; `best_versus`: each at its best tile."""

    languages: dict[str, Language]
    holes: list[Hole]
    versus: Gain | None
    best_versus: Gain | None


def gains(data: Dataset, experiment: str, technique: Technique) -> Gains:
    """Over all problems of an experiment."""
    problems = data.problems(experiment)
    series = sources.series(SERIES, technique.path)
    points = {
        backend: {problem: data.point(experiment, problem, technique.name, backend) for problem in problems}
        for backend in series
    }
    versus, best_versus = (
        mean(data.versus(experiment, problem, technique, "triton", "cuda", best=best) for problem in problems)
        for best in (False, True)
    )
    return Gains(
        {backend: _language(data, experiment, technique, backend, points[backend]) for backend in series},
        _holes(points),
        versus,
        _of_as_many(best_versus, versus),
    )


def plain(reason: str) -> str:
    """A hole's reason without Python's traceback, and without the tile and the problem that cells differ in."""
    if found := re.search(r"out of resource: (.+?), Required: (\d+), Hardware limit: (\d+)", reason):
        what, needed, there = found[1], int(found[2]), int(found[3])
        return f"{DECLINED}the kernel needs {needed:,} bytes of {what} for a block, and the GPU has {there:,}"
    if reason.startswith("not_converged: two series"):
        return "not certain: two timings of one library in its group differ"
    return reason.partition("; got ")[0] if reason.startswith(DECLINED) else reason


def _language(
    data: Dataset, experiment: str, technique: Technique, backend: str, points: Mapping[Problem, Point]
) -> Language:
    taken = [steps.one_step(data, problem, technique, backend) for problem in points]
    gain = mean(step.gain for step in taken)
    best = mean(data.gain(experiment, problem, technique, backend, best=True) for problem in points)
    has_tile = any(step.has_tile for step in taken)
    parent = techniques.parent(technique, backend)
    remarks = []
    program = next((point.program for point in points.values() if point.program), None)
    if parent and steps.is_parents_program(technique, backend):
        tile = techniques.reference_tile
        if all(tile(technique, key) == tile(parent, key) for key in {problem.tile_key for problem in points}):
            program = program or parent.name
        else:
            program = None
            remarks.append("the parent’s program at another tile")
    if program:
        remarks.append(f"runs the program of “{title(program)}”")
    if built_on := technique.builds_on_in.get(backend):
        remarks.append(f"builds on “{title(built_on)}” here")
    if points:
        problem, point = next(iter(points.items()))
        if steps.hint_dropped(data, technique, backend, problem, point):
            remarks.append("the compiler ignores the hint")
        before = data.point(experiment, problem, parent.name, backend) if parent else None
        spilled = steps.spill_bytes(data, before) if before else 0
        if gain and gain.value > 1.5 and spilled >= steps.SPILLS:
            remarks.append(f"its parent spills {spilled / 1000:.1f} kB a thread")
        if has_tile:
            remarks.append("with its tile")
        if not gain and taken[0].point.kind == "earlier":
            wrong = len(data.wrong(taken[0].point))
            found = f", which {wrong} gates found wrong" if wrong else ""
            remarks.append(f"only an earlier version was measured{found}")
    return Language(backend, gain, _of_as_many(best, gain), "; ".join(remarks), bool(program), has_tile)


def _holes(points: Mapping[str, Mapping[Problem, Point]]) -> list[Hole]:
    """Each reason once, with the languages and the problems that have it."""
    cells: dict[str, dict[str, list[Problem]]] = {}
    for backend, found in points.items():
        for problem, point in found.items():
            if point.kind == "hole" and point.reason != "not measured":
                cells.setdefault(plain(point.reason), {}).setdefault(backend, []).append(problem)
    holes = []
    for reason, by_backend in cells.items():
        everywhere = all(len(by_backend[backend]) == len(points[backend]) for backend in by_backend)
        problems = dict.fromkeys(problem for some in by_backend.values() for problem in some)
        where = "" if everywhere else ", ".join(dict.fromkeys(map(short_title, problems)))
        *languages, last = map(label, by_backend)
        named = " and ".join(filter(None, (", ".join(languages), last)))
        is_declined = reason.startswith(DECLINED)
        holes.append(Hole(named, where, len(problems), reason.removeprefix(DECLINED), is_declined))
    return holes


def _of_as_many(best: Gain | None, reference: Gain | None) -> Gain | None:
    """The mean at the best tiles, where those are known on as many problems as the reference tile."""
    return best if best and (reference is None or best.cells >= reference.cells) else None


def mean(ratios: Iterable[Ratio | None]) -> Gain | None:
    """Of the ratios that are known; None where none is."""
    known = [ratio for ratio in ratios if ratio]
    values = [ratio.value for ratio in known]
    if not values:
        return None
    processes = frozenset(ratio.processes for ratio in known if not ratio.linked)
    linked = any(ratio.linked for ratio in known)
    return Gain(statistics.geometric_mean(values), len(values), min(values), max(values), linked, processes)


class OnBoth(NamedTuple):
    """A technique's gain on two GPUs, over the problems that both timed."""

    technique: Technique
    backend: str
    here: Gain
    there: Gain

    @property
    def apart(self) -> float:
        return max(self.here.value, self.there.value) / min(self.here.value, self.there.value)


def on_both(ours: Dataset, theirs: Dataset) -> list[OnBoth]:
    """Every gain that two GPUs timed. Those that differ most come first."""
    found = []
    for technique in ours.operator.techniques:
        experiments = [data.experiment_of(technique) for data in (ours, theirs)]
        timed = [data.problems(name) for data, name in zip((ours, theirs), experiments, strict=True)]
        problems = [problem for problem in timed[0] if problem in timed[1]]
        for backend in sources.series(SERIES, technique.path):
            if steps.is_parents_program(technique, backend):
                continue
            taken = ([steps.one_step(of, one, technique, backend).gain for of in (ours, theirs)] for one in problems)
            pairs = [pair for pair in taken if all(pair)]
            here, there = (mean(pair[side] for pair in pairs) for side in range(2))
            if here and there:
                found.append(OnBoth(technique, backend, here, there))
    return sorted(found, key=lambda one: -one.apart)
