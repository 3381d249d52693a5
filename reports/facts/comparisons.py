"""The finding over other problems: masks and head dimensions, sequence lengths, and what limits a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row
from reports.facts import answer, counters, processes, steps
from reports.facts.answer import Answer

LENGTHS, GRID = "sequence_length", "hopper_grid"
SERIES = {
    "wgmma": ((GRID, "cuda"),),
    "cuda": ((LENGTHS, "cuda"),),
    "triton_native": ((GRID, "triton"), (LENGTHS, "triton_native")),
    "triton": ((LENGTHS, "triton"),),
    "gluon": ((GRID, "gluon"),),
}
"""Curve -> the experiments and backends of its kernels: CUDA with wgmma and with mma.sync, core Triton free to choose
and compiled to mma.sync, Gluon."""
LIBRARIES = ("sdpa_flash", "sdpa_cudnn", "flex", "fa3", "fa4")
LANGUAGES = ("cuda", "triton", "gluon")
DRAM = (counters.DRAM_READ, counters.DRAM_WRITTEN)


@dataclass(frozen=True)
class Curve:
    """The fastest kernel of a series, one of SERIES or a library, at each length; `technique` at the longest."""

    series: str
    points: list[tuple[Problem, Point]]
    means: Mapping[Problem, float] = field(default_factory=dict)
    """TFLOPS, the mean over the processes that timed the point's program."""

    @property
    def speeds(self) -> list[float]:
        """TFLOPS of each point, as drawn."""
        return [self.means.get(problem) or point.tflops or 0.0 for problem, point in self.points]

    @property
    def technique(self) -> str | None:
        row = self.points[-1][1].row
        return row.technique if row else None


@dataclass(frozen=True)
class Lengths:
    """Problems that differ in length alone, with a constant number of tokens."""

    head_dim: int
    causal: bool
    curves: list[Curve]

    def curve(self, series: str) -> Curve | None:
        return next((curve for curve in self.curves if curve.series == series), None)


@dataclass(frozen=True)
class Work:
    """A kernel under ncu at its reference tile: FLOP for a byte of DRAM, and its speed when it was timed."""

    technique: str
    backend: str
    flop_per_byte: float
    tflops: float
    row: Row
    timing: Row

    def bandwidth_used(self, bytes_per_s: float) -> float:
        """Share of DRAM's bandwidth that it needs at its speed."""
        return self.tflops * 1e12 / self.flop_per_byte / bytes_per_s


def answers(data: Dataset) -> list[Answer]:
    """One for each problem of the ladder."""
    return [found for problem in data.problems(answer.LADDER) if (found := answer.answer(data, problem))]


def lengths(data: Dataset) -> list[Lengths]:
    """By head_dim and mask, where our kernels have two lengths or more."""
    by_kind: dict[tuple[int, bool], list[Problem]] = {}
    for problem in data.problems(LENGTHS):
        by_kind.setdefault((problem.head_dim, problem.causal), []).append(problem)
    found = []
    for (head_dim, causal), problems in by_kind.items():
        problems.sort(key=lambda problem: problem.seq_q)
        curves = [_curve(data, problems, series) for series in (*SERIES, *LIBRARIES)]
        shown = [curve for curve in curves if len(curve.points) > 1]
        if any(curve.series in SERIES for curve in shown):
            found.append(Lengths(head_dim, causal, shown))
    return found


def share(data: Dataset, found: Lengths, series: str, place: int) -> float | None:
    """The series over the fastest library at its shortest (0) or its longest (-1) length: the mean over the processes
    that timed both."""
    ours = found.curve(series)
    if ours is None:
        return None
    problem, point = ours.points[place]
    libraries = (curve.points for curve in found.curves if curve.series in LIBRARIES)
    met = [processes.over(data, point, other) for points in libraries for at, other in points if at == problem]
    return min((over.value for over in met if over), default=None)


def work(datasets: Sequence[Dataset], data: Dataset, problem: Problem) -> list[Work]:
    """Kernels for which ncu counted DRAM's bytes at the problem and the reference tile."""
    found = []
    for technique, backend in product(TECHNIQUES, LANGUAGES):
        timed = data.point(answer.LADDER, problem, technique.name, backend)
        if timed.kind == "measured" and timed.row and timed.tflops:
            rows = _profiled(datasets, technique.name, backend, problem)
            row = next((row for row in rows if row.get("tile") == timed.row.get("tile")), None)
            if row and (moved := sum(counters.metric(row, name) or 0 for name in DRAM)):
                found.append(Work(technique.name, backend, problem.flops / moved, timed.tflops, row, timed.row))
    return found


@dataclass(frozen=True)
class Conflicts:
    """Of all passes over shared memory of one launch, how many were bank conflicts, by ncu."""

    technique: str
    backend: str
    conflicts: float
    passes: float
    row: Row

    @property
    def share(self) -> float:
        return self.conflicts / self.passes if self.passes else 0.0


@dataclass(frozen=True)
class Stalls:
    """Why the warps of a kernel did not issue, by ncu: (reason, cycles that they waited for each issued instruction),
    the most first."""

    technique: str
    backend: str
    tflops: float
    reasons: list[tuple[str, float]]
    row: Row


def stalls(datasets: Sequence[Dataset], found: Answer) -> list[Stalls]:
    """Of the kernels of the first page's bars, at the tiles that they have there."""
    made = []
    for bar in found.bars:
        if bar.point.row and bar.tflops and not bar.is_library:
            timed = bar.point.row
            for row in _profiled(datasets, timed["technique"], timed["backend"], found.problem):
                if (reasons := counters.stalls(row)) and row.get("tile") == timed["tile"]:
                    made.append(Stalls(timed["technique"], timed["backend"], bar.tflops, reasons, row))
                    break
    return made


def conflicts(datasets: Sequence[Dataset], data: Dataset, problem: Problem) -> list[Conflicts]:
    """In the order of the ladder, for each kernel that ncu counted at the reference tile."""
    found = []
    for technique, backend in product(steps.timed(data), LANGUAGES):
        for row in filter(reading.is_reference_tile, _profiled(datasets, technique.name, backend, problem)):
            passes, lost = (counters.metric(row, name) for name in (counters.PASSES, counters.CONFLICTS))
            if passes and lost is not None:
                found.append(Conflicts(technique.name, backend, lost, passes, row))
                break
    return found


def _profiled(datasets: Sequence[Dataset], technique: str, backend: str, problem: Problem) -> list[Row]:
    return [row for row, _ in counters.profiled(datasets, technique, backend) if reading.slug(row) == problem.slug]


def tiles(data: Dataset, problem: Problem, kernel: Row) -> dict[tuple[int, int], tuple[float, Row]]:
    """(block_m, block_n) -> the fastest tile of that size that `tune` timed of a row's kernel, in TFLOPS, and its
    row."""
    found: dict[tuple[int, int], tuple[float, Row]] = {}
    for row in data.of("tune", kernel["technique"], kernel["backend"]):
        if reading.slug(row) == problem.slug and reading.counts(row, data.hashes):
            size, speed = (row["tile"]["block_m"], row["tile"]["block_n"]), reading.tflops(row)
            if speed > found.get(size, (0.0, row))[0]:
                found[size] = (speed, row)
    return found


def _curve(data: Dataset, problems: Sequence[Problem], series: str) -> Curve:
    kernels = SERIES.get(series) or tuple((experiment, series) for experiment in (GRID, LENGTHS))
    versions = {
        (experiment, row["backend"])
        for experiment, backend in kernels
        for row in data.timings(experiment)
        if row["backend"].partition("@")[0] == backend
    }
    points = []
    for problem in problems:
        rows = [
            row
            for experiment, version in sorted(versions)
            for row in data.at(experiment, problem, version)
            if row["mode"] == "burst" and reading.counts(row, data.hashes)
        ]
        if rows:
            points.append((problem, Point("measured", max(rows, key=reading.tflops))))
    means = {problem: speed.mean for problem, point in points if (speed := processes.speed(data, point))}
    return Curve(series, points, means)
