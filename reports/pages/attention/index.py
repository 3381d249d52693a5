"""The first page: what to write, what it costs, and the techniques that decide."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.catalog import experiments, techniques
from harness.catalog.roofs import PEAK
from harness.operators.attention.prices import EXPERIMENT as GAP
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Ratio, Row
from reports.data.names import LADDER_LANGUAGES, LANGUAGES, cell_title, label, short_gpu
from reports.facts import answer as facts
from reports.facts import counters, gains, steps, versions
from reports.facts.answer import Answer, Bar, program
from reports.facts.expressibility import Cost, Known, Said, cost, said_of
from reports.facts.gains import Gain
from reports.pages import answers, downloads
from reports.pages.common import Rows, other_operators

LADDER, VERSIONS, ROOFS, GRID, DECODE = "ladder", "hopper_versions", "hopper_roofs", "hopper_grid", "decode"
CALLS, OURS = "calls", "flash_attention"
SHOWN = ("cuda", "gluon", "triton")
DECIDING = {
    "Warp specialization": "producer_consumer",
    "TMA with its swizzle": "tma_swizzle",
    "Manual swizzle, padding": "padded_rows",
    "Tile, no power of two": "wide_tile",
    "Softmax overlaps wgmma": "overlapped_softmax",
}
"""Title -> the technique whose grades, program and time a line has."""
STATES = {
    "direct": "you",
    "hint": "compiler",
    "hatch": "hatch",
    "inexpressible": "impossible",
}
"""Grade -> who controls a technique."""
LEGEND = {
    "direct": "you control it",
    "hint": "the compiler decides",
    "hatch": "only by a hatch, which compiles",
    "inexpressible": "impossible",
}

PIECES = {("wide_tile", "gluon"): "in pieces", ("wide_tile", "triton"): "for keys only"}
"""(technique, language) -> which part of it there is, where the language cannot say all of it."""
TAKEN = {"overlapped_softmax": "held_overlap"}
"""Technique that compilers decide -> the one by which an author does, where a language has it."""
ABOUT_EQUAL = 0.9
"""Of the most, from which on the next reason to wait is told with it."""


def answer(data: Dataset, problem: Problem | None = None) -> Answer | None:
    return facts.answer(data, RACE, problem)


def _experiments(data: Dataset, language: str) -> list[str]:
    """Those that time the ladders; for TLX also the gap's, because few others time it."""
    found = [name for name in data.experiments if name == LADDER or name.startswith("hopper")]
    return [*found, GAP] if language == "tlx" else found


def roof(data: Dataset, name: str) -> float | None:
    """The share of what the tensor cores can do in a clock that a kernel of the hardware limits reached."""
    if name not in {roof.name for roof in experiments.load(ROOFS).roofs}:
        raise KeyError(f"roof: got {name!r}, expected one that the experiment {ROOFS} measures")
    rows = [row for row in data.newest if row.kind == "roof" and row.roof == name and row.status == "passed"]
    rates = (max(rows, key=lambda row: row.time).per_clock or {}).get("flop") if rows else None
    return statistics.median(rates) / PEAK if rates else None


RACE = facts.Race(
    languages={"wgmma": ("cuda", "triton", "gluon", "tlx"), "mma_sync": ("cuda", "triton", "gluon")},
    libraries={"wgmma": ("flex", "sdpa_cudnn", "fa3", "fa4"), "mma_sync": ("sdpa_flash",)},
    experiments=_experiments,
    labels={"sdpa_flash": "FlashAttention-2"},
    roof=roof,
)
DECODING = facts.Race(
    languages={"mma_sync": SHOWN},
    libraries={"mma_sync": experiments.load(f"attention/{DECODE}").peers},
    experiments=facts.among(DECODE),
    headline=DECODE,
)
"""Few queries on many keys: memory is the limit, and no product is large enough for wgmma."""


@dataclass(frozen=True)
class Deciding:
    """A technique that decides. `wrong`: checks that Triton's kernel failed, of how many; `version`: its Triton's."""

    title: str
    technique: str
    said: dict[str, Said]
    cost: Cost
    wrong: tuple[int, int]
    version: str


def deciding(data: Dataset, problem: Problem, known: Known, gated: Iterable[Dataset] = ()) -> list[Deciding]:
    """In the order of DECIDING. `gated`: the GPUs whose checks count, by default that of `data`."""
    datasets = list(gated) or [data]
    found = []
    for title, name in DECIDING.items():
        gates = [row for one in datasets for row in one.gates(name, "triton") if row.status != "unsupported"]
        wrong = sum(row.status == "wrong" for row in gates), len(gates)
        version = max((str(row.compiler["front_end"]).split()[-1] for row in gates if row.compiler), default="")
        technique = techniques.get(f"attention/{name}")
        said = said_of(name, known, LADDER_LANGUAGES)
        found.append(Deciding(title, name, said, cost(data, problem, technique), wrong, version))
    return found


def gpus(rows: Rows) -> dict[str, Dataset]:
    """Path -> the dataset whose bars it shows, of those that timed CUDA and core Triton: that of this machine first,
    then those that are recorded; those that timed only an earlier version of either come last."""

    def has_both(rows: Iterable[Row]) -> bool:
        timed = {row.backend for row in rows if row.technique}
        return "cuda" in timed and bool(timed & {"triton", "triton_native"})

    timed = [data for data in rows.fresh_first if has_both(data.timings(LADDER))]
    shown = sorted(timed, key=lambda data: not has_both(data.counting(LADDER)))
    first, *others = shown or [rows.main]
    names = {f"index-{downloads.stem(data, 'bars')}.html": data for data in others}
    return {"index.html": first, **names}


def page(rows: Rows, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
    """`every`: what `gpus` gives, for the switch."""
    found = answer(data)
    if found is None:
        return {"answer": None, "of_all": data.operator.techniques}
    lines = deciding(data, found.problem, rows.known, rows.datasets)
    drawn = {state(one)[0] for line in lines for one in line.said.values()}
    grid, decode = (facts.over_problems(data, name, SHOWN) for name in (GRID, DECODE))
    grids = {"grid": grid, "decode": decode}
    over_grid, over_decode = (facts.over(data, some, "library", SHOWN) for some in grids.values())
    measured = {
        "every step": LADDER,
        "every problem": GRID,
        "few queries, many keys": DECODE,
        "a call of flash_attention": CALLS,
    }
    over_cuda = facts.over(data, grid, "cuda", ("gluon", "triton"))
    timed = [one for line in lines for one in (line.cost.same, line.cost.best)]
    return {
        **answers.shown(data, found, every, grids, measured),
        "linked": found.linked or any(one.linked for one in (*timed, *over_cuda.values()) if one),
        "others": other_operators(rows, data),
        "compared": {language: found.over_cuda(language) for language in ("triton", "gluon")},
        "newest": newest([data, *rows.fresh_first]),
        "deciding": lines,
        "all_problems": f"attention/{GRID}",
        "of_best": {line.technique: of_best(data, found, line) for line in lines},
        "languages": LADDER_LANGUAGES,
        "state": state,
        "legend": {grade: text for grade, text in LEGEND.items() if grade in drawn},
        "controlled": {language: controlled(lines, language) for language in ("gluon", "triton")},
        "pieces": PIECES,
        "taken": {
            (name, language): by
            for name, by in TAKEN.items()
            for language in LANGUAGES
            if (by, language) in rows.known and rows.known[by, language].counts == "direct"
        },
        "over_cuda": over_cuda,
        "over_grid": over_grid,
        "triton_ahead": triton_ahead(data, grid),
        "decode_behind": facts.over(data, decode, "gluon", ("triton",)),
        "decode_shares": decode_shares(data, decode),
        "decode_choices": facts.choices(decoding) if (decoding := facts.answer(data, DECODING)) else [],
        "over_decode": over_decode,
        "rivals": {name: [label(peer) for peer in sorted(data.peers(name))] for name in (GRID, DECODE)},
        "calls": calls(data),
        "stalls": (stalled := stalls(rows, found)),
        "stalled": " ".join(techniques.shown(program(bar.point.row)) for bar, *_ in stalled if bar.point.row),
        "about_equal": ABOUT_EQUAL,
    }


def newest(datasets: Iterable[Dataset]) -> tuple[dict[str, versions.Beside], str, list[str]] | None:
    """The kernels, by language, of the newest Triton that compiled core Triton's and was timed beside the installed
    one, on the first GPU that has such; the GPU, and core Triton's problems."""
    for data in datasets:
        found: dict[str, dict[str, versions.Beside]] = {}
        for one in versions.beside(data, VERSIONS):
            series, _, version = one.backend.partition("@")
            found.setdefault(version, {})[series.partition("_")[0]] = one
        if of_triton := [version for version, kernels in found.items() if "triton" in kernels]:
            kernels = found[max(of_triton)]
            problems = kernels["triton"].cells
            if gluon := kernels.get("gluon"):
                kernels["gluon"] = replace(
                    gluon, cells={one: gluon.cells[one] for one in problems if one in gluon.cells}
                )
            return kernels, short_gpu(data.gpu), [cell_title(problem) for problem in problems]
    return None


def controlled(deciding: Iterable[Deciding], language: str) -> str:
    """How many of the techniques an author controls in a language: 4, and 1 in pieces."""
    direct = [line.technique for line in deciding if line.said[language].counts == "direct"]
    pieces = [name for name in direct if (name, language) in PIECES]
    return f"{len(direct) - len(pieces)}{f', and {len(pieces)} in pieces' if pieces else ''}"


def of_best(data: Dataset, found: Answer, line: Deciding) -> tuple[Ratio, str] | None:
    """Core Triton's kernel of a technique over its best one with the same instructions, and these; None if untimed."""
    technique = techniques.get(f"{data.operator.name}/{line.technique}")
    point, _ = steps.together(data, found.problem, [(technique, "triton"), (technique, "cuda")], not line.cost.same)
    if not point.row:
        return None
    panel = next(name for name, classes in facts.CLASSES.items() if point.row.mma in classes)
    ratio = data.ratio(point, found.bar(panel, "triton").point)
    return (ratio, panel.replace("_", ".")) if ratio else None


def triton_ahead(data: Dataset, grid: facts.Grid) -> list[str]:
    over = {problem: data.ratio(points["triton"], points["gluon"]) for problem, points in grid}
    return [cell_title(problem) for problem, ratio in over.items() if ratio and ratio.value > 1]


def decode_shares(data: Dataset, grid: facts.Grid) -> dict[str, Gain]:
    """Of each language and of the fastest library: the geometric mean of its shares of each problem's best, over the
    problems where all were timed beside CUDA; empty where there is none."""
    names, found = ("triton", "gluon", "cuda", "library"), defaultdict[str, list[Ratio]](list)
    for _, points in grid:
        over = {name: ratio for name in names if (ratio := facts.over_one(data, points, name, "cuda"))}
        if len(over) == len(names):
            most = max(ratio.value for ratio in over.values())
            for name, ratio in over.items():
                found[name].append(replace(ratio, value=ratio.value / most))
    return {name: share for name, ratios in found.items() if (share := gains.mean(ratios))}


def state(said: Said) -> tuple[str, str]:
    """(grade whose mark is drawn, who controls the technique), of three states."""
    if said.grade is None:
        return "", "not graded yet"
    grade = "hint" if said.grade == "automatic" else said.grade
    return grade, STATES[grade]


def stalls(rows: Rows, found: Answer) -> list[tuple[Bar, str, list[tuple[str, float]]]]:
    """Bars of our kernels that multiply by wgmma, the GPU, and why warps did not issue; the largest reason first."""
    made = []
    for bar, row in ((bar, bar.point.row) for bar in found.of("wgmma")):
        profiled = counters.profiled(rows.fresh_first, row.technique, row.backend) if row and row.technique else []
        where = row and (row.problem, row.tile, found.gpu)
        here = [one for one, _ in profiled if (one.problem, one.tile, short_gpu(one.gpu)) == where]
        if here and (reasons := counters.stalls(here[0])):
            made.append((bar, found.gpu, reasons))
    return made


@dataclass(frozen=True)
class Calls:
    """`lines`: each problem with the point of each of `names`, ours first, and our speed over that of the fastest
    library. `host`: name -> the median over the problems of the microseconds that a call takes on the host."""

    names: Sequence[str]
    lines: Sequence[tuple[Problem, dict[str, Point], Ratio | None]]
    host: dict[str, float]

    @property
    def rivals(self) -> list[str]:
        return [label(name) for name in self.names if name != OURS]

    @property
    def over(self) -> Gain | None:
        """The mean of our speed over that of the fastest library."""
        return gains.mean(ratio for *_, ratio in self.lines)


def calls(data: Dataset) -> Calls | None:
    experiment = experiments.load(f"{data.operator.name}/{CALLS}")
    names = experiment.peers
    lines = []
    for problem in data.problems(CALLS):
        points = {name: data.point(CALLS, problem, None, name, experiment.modes[0]) for name in names}
        if points[OURS].counts:
            ratios = [data.ratio(points[OURS], points[name]) for name in names if name != OURS]
            least = min((ratio for ratio in ratios if ratio), key=lambda ratio: ratio.value, default=None)
            lines.append((problem, points, least))
    counting = {name: [points[name].row for _, points, _ in lines if points[name].counts] for name in names}
    on_host = {
        name: [row.call_us["launcher"] for row in rows if row and row.call_us] for name, rows in counting.items()
    }
    return Calls(names, lines, {name: statistics.median(us) for name, us in on_host.items() if us}) if lines else None
