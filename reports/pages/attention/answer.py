"""The answer: the best of each language and library at one problem, and what each of them costs its author."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.catalog import experiments, sources, techniques
from harness.catalog.roofs import PEAK
from harness.operators.attention.prices import EXPERIMENT as GAP
from harness.operators.protocol import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row, fastest
from reports.data.names import label
from reports.facts import matrix, tuning, versions
from reports.facts.expressibility import Known, Said

LADDER, VERSIONS, ROOFS = "ladder", "hopper_versions", "hopper_roofs"
PANELS = {"wgmma": ("cuda", "triton", "gluon", "tlx"), "mma_sync": ("cuda", "triton", "gluon")}
"""Class of tensor-core instructions -> the languages that keep a place in its panel."""
CLASSES = {"mma_sync": ("fma", "mma_sync"), "wgmma": ("wgmma",)}
"""Panel -> what its kernels multiply with: those without tensor cores go with mma.sync."""
LIBRARIES = {"mma_sync": ("sdpa_flash",), "wgmma": ("flex", "sdpa_cudnn", "fa3", "fa4")}
SERIES_OF = {"cuda": ("cuda",), "triton": ("triton", "triton_native"), "gluon": ("gluon",), "tlx": ("tlx@3.8.0",)}
"""Language -> the series of rows that are its kernels: core Triton with and without the limit to mma.sync is one. TLX
is for a Triton beside the installed one."""
DECIDING = {
    "Warp specialization": "producer_consumer",
    "TMA with its swizzle": "tma_swizzle",
    "Manual swizzle, padding": "padded_rows",
    "Tile, no power of two": "wide_tile",
    "Softmax overlaps wgmma": "overlapped_softmax",
}
"""Title -> the technique whose grades, program and time a line has."""


@dataclass(frozen=True)
class Bar:
    """The best that a language or a library reaches with one class of tensor-core instructions."""

    panel: str
    backend: str
    """A language (cuda, triton, gluon, tlx), or a library."""
    point: Point
    tried: int = 1
    """Tiles of which this is the best."""

    @property
    def is_library(self) -> bool:
        return self.backend not in SERIES_OF

    @property
    def label(self) -> str:
        return {"triton": "core Triton", "sdpa_flash": "FlashAttention-2"}.get(self.backend, label(self.backend))

    @property
    def tflops(self) -> float | None:
        return self.point.tflops if self.point.counts else None


@dataclass(frozen=True)
class Answer:
    """At one problem, each kernel at its best tile."""

    problem: Problem
    gpu: str
    bars: list[Bar]
    """Panel by panel, the fastest first."""
    limits: dict[str, float | None]
    """Class of instructions -> TFLOPS of the tensor cores, at the SM clock of the fastest bar where it was read; None
    where it was not measured."""

    def bar(self, panel: str, backend: str) -> Bar:
        return next(bar for bar in self.bars if (bar.panel, bar.backend) == (panel, backend))

    def of(self, panel: str) -> list[Bar]:
        return [bar for bar in self.bars if bar.panel == panel]

    def best(self, *backends: str) -> Bar:
        """The fastest of these, in any panel."""
        return max((bar for bar in self.bars if bar.backend in backends), key=lambda bar: bar.tflops or 0)

    @property
    def library(self) -> Bar:
        return self.best(*(bar.backend for bar in self.bars if bar.is_library))

    def share(self, bar: Bar) -> float | None:
        """Of the fastest bar of its panel."""
        best = max((one.tflops or 0 for one in self.of(bar.panel)), default=0)
        return bar.tflops / best if bar.tflops and best else None

    def over_cuda(self, language: str) -> float | None:
        """The best of a language over the best CUDA kernel, whatever their instructions: a quotient of two bars."""
        ours, cuda = self.best(language).tflops, self.best("cuda").tflops
        return ours / cuda if ours and cuda else None

    @property
    def rows(self) -> list[Row]:
        """The rows behind the bars."""
        return [bar.point.row for bar in self.bars if bar.point.row]


def headline(data: Dataset) -> Problem | None:
    """The problem of the first page; None while no ladder was timed."""
    problems = data.problems(LADDER)
    return problems[0] if problems else None


def answer(data: Dataset, problem: Problem | None = None) -> Answer | None:
    """None while no ladder was timed."""
    problem = problem or headline(data)
    if problem is None:
        return None
    bars = []
    for panel, languages in PANELS.items():
        found = [
            _bar(data, panel, language, fastest(_points(data, problem, language, panel))) for language in languages
        ]
        found += [_bar(data, panel, name, _library(data, problem, name)) for name in LIBRARIES[panel]]
        bars += sorted(found, key=lambda bar: -(bar.tflops or 0))
    limits = {panel: _limit(data, bars, panel) for panel in PANELS}
    return Answer(problem, data.gpu.removeprefix("NVIDIA "), bars, limits)


def _experiments(data: Dataset) -> list[str]:
    """Those that time the ladders: one, and those of the hopper ladder."""
    return [name for name in data.experiments if name == LADDER or name.startswith("hopper")]


def _limit(data: Dataset, bars: Iterable[Bar], panel: str) -> float | None:
    """What the tensor cores do by these instructions, at the clock of the panel's fastest kernel: all that they can by
    wgmma, by mma.sync the share that a kernel of it alone reached; None where nobody measured that."""
    most = data.speed_of_light(fastest(bar.point for bar in bars if bar.panel == panel).row)
    share = 1.0 if panel == "wgmma" else roof(data, panel)
    return most * share if most and share else None


def roof(data: Dataset, name: str) -> float | None:
    """The share of what the tensor cores can do in a clock that a kernel of the hardware limits reached."""
    if name not in {roof.name for roof in experiments.load(ROOFS).roofs}:
        raise KeyError(f"roof: got {name!r}, expected one that the experiment {ROOFS} measures")
    rows = [row for row in data.newest if row.kind == "roof" and row.roof == name and row.status == "passed"]
    rates = (max(rows, key=lambda row: row.time).per_clock or {}).get("flop") if rows else None
    return statistics.median(rates) / PEAK if rates else None


def _library(data: Dataset, problem: Problem, library: str) -> Point:
    """The newest timing of a library, of whatever version of it."""
    points = [
        data.point(experiment, problem, None, backend)
        for experiment in _experiments(data)
        for backend in sorted(data.peers(experiment))
        if backend.partition("@")[0] == library
    ]
    counting = [point for point in points if point.counts and point.row]
    hole = Point("hole", reason="not measured")
    return max(counting, key=lambda point: str(point.row and point.row.time), default=hole)


def _points(data: Dataset, problem: Problem, language: str, mma: str) -> Iterator[Point]:
    """The gap's experiment times TLX too, which of the others only hopper_versions does."""
    for experiment in (*_experiments(data), *([GAP] if language == "tlx" else [])):
        for technique in data.operator.techniques:
            for backend in SERIES_OF[language]:
                for tuned in (False, True):
                    point = data.point(experiment, problem, technique.name, backend, best=tuned)
                    if point.row and point.row.mma in CLASSES[mma]:
                        yield point


def _bar(data: Dataset, panel: str, backend: str, point: Point) -> Bar:
    row = point.row
    tried = tuning.tried(data, row.technique, row.backend, reading.problem_of(row)) if row and row.technique else 1
    return Bar(panel, backend, point, tried)


@dataclass(frozen=True)
class Choice:
    """A column of the table of what to write. `share`: of the fastest bar. `lines`: of the kernel's file, and with the
    headers that it includes; None for a library."""

    bar: Bar
    share: float | None
    lines: tuple[int, int] | None


def choices(found: Answer) -> list[Choice]:
    """Core Triton, Gluon, CUDA, and the fastest library."""
    best = max((bar.tflops or 0 for bar in found.bars), default=0)
    bars = [found.best(language) for language in ("triton", "gluon", "cuda")] + [found.library]
    return [Choice(bar, bar.tflops / best if bar.tflops and best else None, _lines(bar)) for bar in bars]


def _lines(bar: Bar) -> tuple[int, int] | None:
    row = bar.point.row
    if row is None or row.technique is None:
        return None
    technique = techniques.get(f"attention/{row.technique}")
    files = [path for path in sources.files(row.backend, technique.path) if path.suffix in (".cu", ".cuh", ".py")]
    own = sources.kernel_file(row.backend, technique.path)
    return sources.lines_of_code(own), sum(map(sources.lines_of_code, {own, *files}))


@dataclass(frozen=True)
class Deciding:
    """A technique that decides. `wrong`: checks that Triton's kernel failed, of how many."""

    title: str
    technique: str
    said: dict[str, Said]
    cost: matrix.Cost
    wrong: tuple[int, int]


def deciding(data: Dataset, problem: Problem, known: Known) -> list[Deciding]:
    """In the order of DECIDING."""
    found = []
    for title, name in DECIDING.items():
        gates = [row for row in data.gates(name, "triton") if row.status != "unsupported"]
        wrong = sum(row.status == "wrong" for row in gates), len(gates)
        technique = techniques.get(f"attention/{name}")
        said = matrix.said_of(name, known, ("triton", "gluon", "cuda"))
        found.append(Deciding(title, name, said, matrix.cost(data, problem, technique), wrong))
    return found


def newest_triton(data: Dataset) -> versions.Beside | None:
    """Core Triton's kernel by the newest Triton that was timed beside the installed one."""
    found = [one for one in versions.beside(data, VERSIONS) if one.backend.startswith("triton")]
    return max(found, key=lambda one: one.backend, default=None)


def grid(data: Dataset) -> list[tuple[Problem, dict[str, Point]]]:
    """Every problem of the grid, with the flagship in each language and the fastest library."""
    found: list[tuple[Problem, dict[str, Point]]] = []
    for problem in data.problems("hopper_grid"):
        points = {
            language: fastest(
                data.point("hopper_grid", problem, "flagship", language, best=tuned) for tuned in (False, True)
            )
            for language in ("cuda", "gluon", "triton")
        }
        points["library"] = fastest(_peers(data, "hopper_grid", problem))
        if any(point.counts for point in points.values()):
            found.append((problem, points))
    return found


def _peers(data: Dataset, experiment: str, problem: Problem) -> Sequence[Point]:
    return [data.point(experiment, problem, None, peer) for peer in data.peers(experiment)]
