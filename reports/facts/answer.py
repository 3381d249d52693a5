"""The answer on the first page: the best of each language and library at one problem, and their ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.catalog import sources
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.prices import EXPERIMENT as GAP
from harness.operators.attention.problem import Problem
from harness.operators.attention.promises import RIVALS
from reports.data.dataset import Dataset, Point, fastest
from reports.data.names import LABELS
from reports.facts import processes, roofs, tuning
from reports.facts.processes import Speed, Spread

LADDER = "ladder"
COSTS = "what_triton_costs"
"""The experiment that times the matrix's techniques of one class of instructions in one group."""
PANELS = {"mma_sync": ("cuda", "triton", "gluon"), "wgmma": ("cuda", "triton", "gluon", "tlx")}
"""Class of tensor-core instructions -> the languages that keep a place in its panel."""
INSTRUCTION = {"mma_sync": "mma.sync", "wgmma": "wgmma"}
"""Panel -> the name of what it is about."""
CLASSES = {"mma_sync": ("fma", "mma_sync"), "wgmma": ("wgmma",)}
"""Panel -> what its kernels multiply with: those without tensor cores go with mma.sync."""
LIBRARIES = {"mma_sync": ("sdpa_flash",), "wgmma": ("flex", "sdpa_cudnn", "fa3", "fa4")}
SERIES_OF = {"cuda": ("cuda",), "triton": ("triton", "triton_native"), "gluon": ("gluon",), "tlx": ("tlx@3.8.0",)}
"""Language -> the series of rows that are its kernels: core Triton with and without the limit to mma.sync is one. TLX
is for a Triton beside the installed one."""


@dataclass(frozen=True)
class Bar:
    """The best that a language or a library reaches with one class of tensor-core instructions."""

    panel: str
    backend: str
    """A language (cuda, triton, gluon, tlx), or a library."""
    point: Point
    speed: Speed | None
    """Over the processes that timed it."""
    tried: int = 1
    """Tiles of which this is the best."""

    @property
    def is_library(self) -> bool:
        return self.backend not in SERIES_OF

    @property
    def label(self) -> str:
        return {"triton": "core Triton", "sdpa_flash": "FlashAttention-2"}.get(
            self.backend, LABELS.get(self.backend, self.backend)
        )

    @property
    def tflops(self) -> float | None:
        return self.speed.mean if self.speed else self.point.tflops if self.point.counts else None

    @property
    def whisker(self) -> tuple[float, float] | None:
        """The lowest and the highest of these processes, where they are enough."""
        return (self.speed.low, self.speed.high) if self.speed and self.speed.is_settled else None


@dataclass(frozen=True)
class Answer:
    """At one problem, each kernel at its best tile. A ratio is None where a side has no number."""

    problem: Problem
    gpu: str
    bars: list[Bar]
    limits: dict[str, float | None]
    """Class of instructions -> TFLOPS of the tensor cores, at the SM clock of the fastest bar where it was read; None
    where it was not measured."""
    over_library: Spread | None
    """The best of core Triton over the fastest library."""
    over_cuda: Spread | None
    """The best of core Triton over the best CUDA kernel, whatever their instructions."""
    same_instructions: Spread | None
    """Core Triton with mma.sync over CUDA with mma.sync."""
    gluon_over_cuda: dict[str, Spread | None]
    """Class of instructions -> the best of Gluon over CUDA with the same."""
    different_instructions: Spread | None
    """The best of core Triton over CUDA with mma.sync, where that core Triton multiplies by wgmma."""
    in_gluon: tuple[int, int]
    """How many techniques have a kernel in Gluon and how many there are."""

    def bar(self, panel: str, backend: str) -> Bar:
        return next(bar for bar in self.bars if (bar.panel, bar.backend) == (panel, backend))

    def unlike(self, bar: Bar) -> tuple[int, int] | None:
        """Tiles tried for the bar's kernel and for CUDA's in its panel, where one of them was tuned much more."""
        cuda = self.bar(bar.panel, "cuda")
        measured = bar.tflops and cuda.tflops and not bar.is_library
        return (bar.tried, cuda.tried) if measured and tuning.are_unlike(bar.tried, cuda.tried) else None

    def best(self, *backends: str) -> Bar:
        """The fastest of these, in any panel."""
        return max((bar for bar in self.bars if bar.backend in backends), key=lambda bar: bar.tflops or 0)

    @property
    def triton(self) -> Bar:
        return self.best("triton")

    @property
    def cuda(self) -> Bar:
        return self.best("cuda")

    @property
    def library(self) -> Bar:
        return self.best(*(bar.backend for bar in self.bars if bar.is_library))

    @property
    def has_rivals(self) -> bool:
        """Whether all of RIVALS were timed here: without them, nobody knows which library is the fastest."""
        return all(self.bar("wgmma", rival).tflops for rival in RIVALS)

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows behind the bars."""
        return [dict(bar.point.row) for bar in self.bars if bar.point.row]


def experiments(data: Dataset) -> list[str]:
    """Those that time the ladders: one, those of the hopper ladder, and COSTS."""
    return [name for name in data.experiments if name in (LADDER, COSTS) or name.startswith("hopper")]


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
        bars += [_bar(data, panel, language, best(data, problem, language, panel)) for language in languages]
        bars += [_bar(data, panel, name, library_point(data, problem, name)) for name in LIBRARIES[panel]]
    gpu, limits = data.gpu.removeprefix("NVIDIA "), {panel: _limit(data, bars, panel) for panel in PANELS}
    in_gluon = sum(sources.has_series("gluon", technique.path) for technique in TECHNIQUES), len(TECHNIQUES)
    result = Answer(problem, gpu, bars, limits, None, None, None, {}, None, in_gluon)
    triton, older = result.triton, result.bar("mma_sync", "cuda").point
    return replace(
        result,
        over_library=processes.over(data, triton.point, result.library.point),
        over_cuda=processes.over(data, triton.point, result.cuda.point),
        same_instructions=processes.over(data, result.bar("mma_sync", "triton").point, older),
        gluon_over_cuda={
            panel: processes.over(data, *(result.bar(panel, language).point for language in ("gluon", "cuda")))
            for panel in PANELS
        },
        different_instructions=processes.over(data, triton.point, older) if triton.panel == "wgmma" else None,
    )


def _limit(data: Dataset, bars: Iterable[Bar], panel: str) -> float | None:
    """What the tensor cores do by these instructions, at the clock of the panel's fastest kernel: all that they can by
    wgmma, by mma.sync the share that a kernel of it alone reached; None where nobody measured that."""
    most = data.speed_of_light(fastest(bar.point for bar in bars if bar.panel == panel).row)
    if panel == "wgmma":
        return most
    share = roofs.found([data]).line("mma_sync").share
    return most * share if most and share else None


def best(data: Dataset, problem: Problem, language: str, mma: str) -> Point:
    """The fastest kernel of a language with one class of instructions, at its best tile. Kernels without tensor cores
    go with mma.sync."""
    return fastest(_points(data, problem, language, mma))


def library_point(data: Dataset, problem: Problem, library: str) -> Point:
    """The newest timing of a library, of whatever version of it."""
    points = [
        data.point(experiment, problem, None, backend)
        for experiment in experiments(data)
        for backend in _versions(data, experiment, library)
    ]
    counting = [point for point in points if point.counts and point.row]
    return max(
        counting, key=lambda point: str(point.row and point.row.time), default=Point("hole", reason="not measured")
    )


def _points(data: Dataset, problem: Problem, language: str, mma: str) -> Iterator[Point]:
    """The gap's experiment times TLX too, which of the others only hopper_versions does."""
    for experiment in (*experiments(data), *([GAP] if language == "tlx" else [])):
        for technique in TECHNIQUES:
            for backend in SERIES_OF[language]:
                for tuned in (False, True):
                    point = data.point(experiment, problem, technique.name, backend, best=tuned)
                    if point.row and point.row.mma in CLASSES[mma]:
                        yield point


def _bar(data: Dataset, panel: str, backend: str, point: Point) -> Bar:
    row = point.row
    tried = tuning.tried(data, row.technique, row.backend, Problem.parse(row.problem)) if row and row.technique else 1
    return Bar(panel, backend, point, processes.speed(data, point), tried)


def _versions(data: Dataset, experiment: str, library: str) -> Iterable[str]:
    names = {row.backend for row in data.timings(experiment) if not row.technique}
    return sorted(name for name in names if name.partition("@")[0] == library)
