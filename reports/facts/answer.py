"""An operator's answer: the best of each language and library at one problem, and what each costs its author."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import product

from harness import operators
from harness.catalog import sources, techniques, tiles
from harness.catalog.entries import Technique, Tile
from harness.operators.protocol import Problem
from harness.rows import reading
from harness.rows.stats import FEWEST
from reports.data.dataset import Dataset, Point, Ratio, Row, fastest
from reports.data.names import LANGUAGES, label, short_gpu
from reports.facts import gains
from reports.facts.gains import Gain
from reports.facts.steps import program_of

Grid = Sequence[tuple[Problem, Mapping[str, Point]]]
"""Every problem of an experiment, with the point of each language."""

SERIES_OF = {"cuda": ("cuda",), "triton": ("triton", "triton_native"), "gluon": ("gluon",), "tlx": ("tlx@3.8.0",)}
"""Language -> the series of rows that are its kernels. TLX is for a Triton beside the installed one."""
CLASSES = {"mma_sync": ("fma", "mma_sync"), "wgmma": ("wgmma",)}
"""Panel -> what its kernels multiply with: those without tensor cores go with mma.sync."""

BOARDS = 1.03
"""Speeds of one kernel on two boards of one name differ by less."""


@dataclass(frozen=True)
class Race:
    """What an operator's answer compares. A panel is a class of tensor-core instructions.

    `languages` and `libraries`: panel -> those that keep a place in it. `experiments`: those with timings of a
    language. `headline`: the experiment, one of whose problems the answer is about. `labels`: names unlike those
    elsewhere. `roof`: what measured the share of the tensor cores' peak that mma.sync reaches; by wgmma it is all.
    """

    languages: Mapping[str, tuple[str, ...]]
    libraries: Mapping[str, tuple[str, ...]]
    experiments: Callable[[Dataset, str], list[str]]
    headline: str = "ladder"
    labels: Mapping[str, str] = field(default_factory=dict)
    roof: Callable[[Dataset, str], float | None] = lambda data, panel: None


def among(*names: str) -> Callable[[Dataset, str], list[str]]:
    """Those of the experiments that a dataset has, for every language."""
    return lambda data, language: [name for name in names if name in data.experiments]


@dataclass(frozen=True)
class Bar:
    """The best that a language or a library reaches with one class of tensor-core instructions. `tried`: tiles of which
    this is the best. `compile_s`: seconds to compile it. In TFLOPS: `faster_before`, an earlier version of some kernel
    that was faster and was not timed since; `paired`, its share of the fastest bar times that one's speed; `anchor`,
    what the anchor reached beside it."""

    panel: str
    backend: str
    point: Point
    label: str
    tried: int = 1
    compile_s: float | None = None
    faster_before: float | None = None
    paired: float | None = None
    anchor: float | None = None

    @property
    def is_library(self) -> bool:
        return self.backend not in SERIES_OF

    @property
    def tflops(self) -> float | None:
        """As measured: the mean over its own processes, of a library over those of its panel's fastest bar."""
        return self.point.tflops if self.point.counts else None

    @property
    def length(self) -> float | None:
        """`paired` where it is known: its own processes may have run at another clock than the fastest bar's."""
        return self.paired or self.tflops

    @property
    def best(self) -> float | None:
        """TFLOPS; None where an earlier version of some kernel was faster and was not timed since."""
        return None if self.faster_before else self.length

    @property
    def earlier(self) -> float | None:
        """TFLOPS of an earlier version of the kernels, where no current one was measured."""
        return self.point.tflops if self.point.kind == "earlier" else None


@dataclass(frozen=True)
class Answer:
    """At one problem, each kernel at its best tile: bars panel by panel, the fastest first. `limits`: panel -> TFLOPS
    of the tensor cores at the SM clock of the fastest bar, if known. `clocks`: panel -> that clock in GHz."""

    problem: Problem
    gpu: str
    bars: list[Bar]
    limits: dict[str, float | None]
    clocks: dict[str, float | None]
    ratio: Callable[[Point, Point], Ratio | None] = field(compare=False)

    def bar(self, panel: str, backend: str) -> Bar:
        return next(bar for bar in self.bars if (bar.panel, bar.backend) == (panel, backend))

    def of(self, panel: str) -> list[Bar]:
        return [bar for bar in self.bars if bar.panel == panel]

    def best(self, *backends: str) -> Bar:
        """The fastest of these, in any panel and version."""
        return max((bar for bar in self.bars if bar.backend in backends), key=_of_any_version)

    @property
    def fastest_library(self) -> Bar:
        return self.best(*(bar.backend for bar in self.bars if bar.is_library))

    def share(self, bar: Bar) -> Ratio | None:
        """Of the fastest bar of its panel."""
        best = max(self.of(bar.panel), key=_of_any_version)
        return self.ratio(bar.point, best.point) if best.best else None

    def over(self, ours: Bar, theirs: Bar) -> Ratio | None:
        """Whatever their instructions. None where one of them is not known to be the best."""
        return self.ratio(ours.point, theirs.point) if ours.best and theirs.best else None

    def alone(self) -> list[str]:
        """The bars whose share rests on one process."""
        shares = [(bar.label, self.share(bar)) for bar in self.bars]
        return list(dict.fromkeys(name for name, share in shares if share and share.processes == 1))

    @property
    def linked(self) -> bool:
        """Whether a share goes over anchors."""
        return any(share.linked for share in map(self.share, self.bars) if share)

    @property
    def anchored(self) -> list[Bar]:
        """Of the first panel: its fastest bar, and those whose share of that goes over anchors, if there are any."""
        first, *others = self.of(next(iter(self.limits)))
        linked = [bar for bar in others if bar.anchor and (share := self.share(bar)) and share.linked]
        return [first, *linked] if linked and first.anchor else []

    def over_cuda(self, language: str) -> Ratio | None:
        return self.over(self.best(language), self.best("cuda"))

    @property
    def rows(self) -> list[Row]:
        return [bar.point.row for bar in self.bars if bar.point.row]


def answer(data: Dataset, race: Race, problem: Problem | None = None) -> Answer | None:
    """At `problem`, by default the headline's that most languages have, best `bench`'s; None while none is timed."""
    if problem is None:

        def place(one: Problem) -> tuple[int, bool]:
            have = sum(bool(data.at(race.headline, one, name)) for name in LANGUAGES)
            return have, one == data.operator.benchmark

        problem = max(data.problems(race.headline), key=place, default=None)
    if problem is None:
        return None
    bars = []
    for panel, languages in race.languages.items():
        every: dict[str, list[Point]] = {}
        for language in languages:
            timed = kernels(data, race.experiments(data, language), problem, data.operator.techniques, language)
            every[language] = [point for point in timed if point.row and point.row.mma in CLASSES[panel]]
        points = {language: _fastest(some) for language, some in every.items()}
        points |= {name: _library(data, race, problem, name) for name in race.libraries[panel]}
        found = [
            _bar(data, race, panel, backend, point, _faster_before(point, every.get(backend, ())))
            for backend, point in points.items()
        ]
        bars += _ranked(data, found)
    counting = [bar for bar in bars if bar.tflops]
    firsts = {panel: next((bar.point.row for bar in counting if bar.panel == panel), None) for panel in race.languages}
    limits = {panel: _limit(data, race, row, panel) for panel, row in firsts.items()}
    clocks = {panel: row.clock_ghz if row else None for panel, row in firsts.items()}
    return Answer(problem, short_gpu(data.gpu), bars, limits, clocks, data.ratio)


def _ranked(data: Dataset, panel: list[Bar]) -> list[Bar]:
    """The bars of a panel, the fastest first, each with the speed that its share of the fastest gives."""
    best = max(panel, key=_of_any_version)
    if best.best:  # where both were timed together another bar may be ahead
        shares = [data.ratio(bar.point, best.point) for bar in panel]
        best = max(zip(panel, shares, strict=True), key=lambda pair: pair[1].value if pair[1] else 0)[0]
    if top := best.best:
        panel = [replace(bar, point=data.beside(bar.point, best.point)) if bar.is_library else bar for bar in panel]
        shares = [data.ratio(bar.point, best.point) for bar in panel]
        panel = [
            replace(bar, paired=share.value * top) if share else bar for bar, share in zip(panel, shares, strict=True)
        ]

    def behind(one: Bar, other: Bar) -> int:
        """Negative where `one` is faster, in processes that timed both if there are any."""
        met = data.ratio(one.point, other.point)
        speeds = [bar.length or bar.earlier or 0 for bar in (one, other)]
        ours, theirs = (met.value, 1) if met and not met.linked else speeds
        return (theirs > ours) - (theirs < ours)

    return sorted(panel, key=cmp_to_key(behind))


def _fastest(points: Iterable[Point]) -> Point:
    """Of an earlier version where none counts."""
    points = list(points)
    found = fastest(points)
    earlier = [point for point in points if point.kind == "earlier"]
    if found.counts or found.unsettled or not earlier:
        return found
    return max(earlier, key=lambda point: point.tflops or 0)


def _at_best_tile(points: Iterable[Point]) -> Point:
    """The fastest of all, whatever group it is from."""
    points = list(points)
    best = max((point for point in points if point.counts), key=lambda point: point.tflops or 0, default=None)
    return _fastest(point for point in points if point is best or not point.counts)


def _limit(data: Dataset, race: Race, first: Row | None, panel: str) -> float | None:
    """What the tensor cores do by these instructions, at the clock of the panel's fastest kernel."""
    most = data.speed_of_light(first)
    share = 1.0 if panel == "wgmma" else race.roof(data, panel)
    return most * share if most and share else None


def _library(data: Dataset, race: Race, problem: Problem, library: str) -> Point:
    """The newest timing of a library, of whatever version of it."""
    points = [
        data.point(experiment, problem, None, backend)
        for experiment in race.experiments(data, library)
        for backend in sorted(data.peers(experiment))
        if backend.partition("@")[0] == library
    ]
    counting = [point for point in points if point.counts and point.row]
    hole = Point("hole", reason="not measured")
    return max(counting, key=lambda point: str(point.row and point.row.time), default=hole)


def kernels(
    data: Dataset, experiments: Iterable[str], problem: Problem, rungs: Iterable[Technique], language: str
) -> Iterator[Point]:
    """These rungs in a language, each at its reference tile and at the one that `tune` chose."""
    for experiment, rung, backend, tuned in product(experiments, rungs, SERIES_OF[language], (False, True)):
        yield data.point(experiment, problem, rung.name, backend, best=tuned)


def _faster_before(best: Point, points: Sequence[Point]) -> float | None:
    """Of programs that no rung has a current time of, at any tile."""
    timed = {program(point.row).path for point in points if point.counts and point.row}
    earlier = ((point, point.row) for point in points if point.kind == "earlier")
    before = max((point.tflops or 0 for point, row in earlier if row and program(row).path not in timed), default=0)
    return before if best.counts and before > BOARDS * (best.tflops or 0) else None


def program(row: Row) -> Technique:
    """The technique whose program a row is of: another one where its twin has one line."""
    return program_of(techniques.at(row.technique, reading.problem_of(row)), row.backend)


def _bar(data: Dataset, race: Race, panel: str, backend: str, point: Point, before: float | None) -> Bar:
    row = point.row
    name = {**LANGUAGES, **race.labels}.get(backend, label(backend))
    if row is None:
        return Bar(panel, backend, point, name)
    tried = tiles.pick(data.tried, row.technique, row.backend, reading.problem_of(row)) if row.technique else None
    over = data.over_anchors(row) if point.counts else None
    anchor = (point.tflops or 0) / over if over else None
    return Bar(panel, backend, point, name, tried or 1, compile_seconds(data, row), before, anchor=anchor)


def compile_seconds(data: Dataset, row: Row) -> float | None:
    """What compiling a row's kernel took, by itself or by the newest row of the same program that says it."""
    if row.compile_s is not None:
        return float(row.compile_s)

    about = {name: row.columns[name] for name in ("technique", "backend", "problem", "tile", "source_sha256")}
    same = [one for one in data.rows if about.items() <= one.columns.items() and one.compile_s is not None]
    return float(max(same, key=lambda one: str(one.time)).compile_s) if same else None


def _of_any_version(bar: Bar) -> float:
    return bar.faster_before or bar.length or bar.earlier or 0


@dataclass(frozen=True)
class Choice:
    """A column of the table of what to write. `share`: of the fastest bar. `technique`: whose file holds the kernel;
    `lines`: of that file, and with the headers that it includes; None where it chooses among kernels of other files.
    Both are None for a library."""

    bar: Bar
    share: Ratio | None
    technique: Technique | None
    lines: tuple[int, int] | None

    @property
    def in_tile(self) -> bool:
        """Whether the tile names `technique`."""
        row = self.bar.point.row
        return bool(row and self.technique and self.technique is not program(row))


def choices(found: Answer) -> list[Choice]:
    """Core Triton, Gluon, CUDA, and the fastest library."""
    best = max(found.bars, key=_of_any_version)
    bars = [found.best(language) for language in ("triton", "gluon", "cuda")] + [found.fastest_library]
    return [Choice(bar, found.over(bar, best), *_kernel(bar.point.row)) for bar in bars]


def _kernel(row: Row | None) -> tuple[Technique | None, tuple[int, int] | None]:
    """The one that the tile names, if it names one."""
    if row is None or row.technique is None:
        return None, None
    technique = program(row)
    named = operators.get(technique.operator).named(Tile.parse(row.tile))
    technique = techniques.find(f"{technique.operator}/{named}") or technique
    files = [path for path in sources.files(row.backend, technique.path) if path.suffix in (".cu", ".cuh", ".py")]
    own = sources.kernel_file(row.backend, technique.path)
    if own.suffix == ".py" and "jit" not in sources.code(own):
        return technique, None
    return technique, (sources.lines_of_code(own), sum(map(sources.lines_of_code, {own, *files})))


def finding(found: Answer) -> str:
    """What the bars of the best instructions show: each language and the fastest library beside the fastest of them."""
    panel = next(iter(found.limits))
    bars = [bar for bar in found.of(panel) if bar.backend in techniques.LANGUAGES]
    if any(bar.best is None for bar in bars):
        return "Not every language has a speed of this version"
    libraries = [bar for bar in found.of(panel) if bar.is_library and bar.tflops]
    bars = sorted([*bars, *libraries[:1]], key=lambda bar: -(bar.length or 0))
    first, *others = bars
    shares = [(bar.label, share) for bar in others if (share := found.over(bar, first))]
    if len(shares) < len(others):
        return "Not every language was timed beside the fastest"
    if min(share.value for _, share in shares) > 1 / BOARDS:
        least = 100 * (1 - min(share.value for _, share in shares))
        names = [bar.label for bar in bars]
        return f"With {panel} {', '.join(names[:-1])} and {names[-1]} are within {math.ceil(least)}% of each other"
    told = ", ".join(f"{name} {printed(share)}" for name, share in shares)
    return f"With {panel} {first.label} is fastest; shares of its speed: {told}"


def printed(share: Ratio | Gain | None) -> str:
    """0.94, and ~0.94 where two runs meet over their anchors."""
    return f"{'~' if share.linked else ''}{share.value:.2f}" if share else "an unmeasured share"


def over(data: Dataset, grid: Grid, theirs: str, languages: Iterable[str]) -> dict[str, Gain]:
    """Language -> its speed over that of `theirs` on the problems where both were timed, if there are any."""
    found = {}
    for name in languages:
        ratios = {at: ratio for at, points in grid if (ratio := over_one(data, points, name, theirs))}
        if share := gains.mean(ratios.values()):
            found[name] = replace(share, worst=min(ratios, key=lambda at: ratios[at].value))
    return found


def over_one(data: Dataset, points: Mapping[str, Point], ours: str, theirs: str = "library") -> Ratio | None:
    """At one problem."""
    return data.ratio(points[ours], beside(data, points, ours) if theirs == "library" else points[theirs])


def beside(data: Dataset, points: Mapping[str, Point], language: str) -> Point:
    """The library that is fastest over this kernel, by the processes that timed both: its order among libraries differs
    from process to process. With its speed there; the fastest of all where none was timed beside it."""
    peers = [point for name, point in points.items() if name not in (*SERIES_OF, "library")]
    over = [(ratio.value, peer) for peer in peers if (ratio := data.ratio(points[language], peer))]
    return data.beside(min(over, key=lambda one: one[0])[1] if over else fastest(peers), points[language])


def certainty(shares: Mapping[str, Gain]) -> str:
    """What ratios rest on of which too few processes timed both sides for an interval; nothing where none does."""
    processes = {count for one in shares.values() for count in one.processes}
    few = sorted(count for count in processes if count < FEWEST)
    if not few:
        return ""
    told = " or ".join({1: "one", 2: "two"}[count] for count in few)
    some = "some are of " if max(processes) >= FEWEST else ""
    return f"{some}{told} process{'es' if few[-1] > 1 else ''} each, no interval"


def over_problems(data: Dataset, experiment: str, languages: Iterable[str]) -> list[tuple[Problem, dict[str, Point]]]:
    """Every problem of an experiment: the fastest of each language, every library, and as "library" CUDA's rival."""
    found: list[tuple[Problem, dict[str, Point]]] = []
    for problem in data.problems(experiment):
        points = {
            language: _at_best_tile(
                data.point(experiment, problem, name, language, tile=tile)
                for name, tile in _timed(data, experiment, problem, language)
            )
            for language in languages
        }
        points |= {peer: data.point(experiment, problem, None, peer) for peer in data.peers(experiment)}
        points["library"] = beside(data, points, "cuda")
        if any(point.counts for point in points.values()):
            found.append((problem, points))
    return found


def _timed(data: Dataset, experiment: str, problem: Problem, language: str) -> set[tuple[str, Tile]]:
    """The kernels of a language, but for those that left the ladders, at every tile that an experiment timed."""
    names = {technique.name for technique in data.operator.techniques}
    rows = data.at(experiment, problem, language)
    return {(row.technique, Tile.parse(row.tile)) for row in rows if row.technique in names}
