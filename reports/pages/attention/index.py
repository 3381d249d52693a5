"""The first page: what to write, what it costs, and the techniques that decide."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from harness.catalog import techniques
from reports.data.dataset import Dataset, Point, Row
from reports.data.names import LANGUAGES, cell_title, short_gpu
from reports.draw import bars
from reports.facts import counters, versions
from reports.facts.answer import Answer, Bar, choices
from reports.facts.expressibility import Said
from reports.pages import downloads
from reports.pages.attention import answer
from reports.pages.common import Rows, between, grid_lines, other_operators, provenance

STATES = {
    "direct": "you",
    "automatic": "compiler",
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

ABOUT_EQUAL = 0.9
"""Of the most, from which on the next reason to wait is told with it."""


def gpus(rows: Rows) -> dict[str, Dataset]:
    """Path -> the dataset whose bars it shows, of those that timed CUDA and core Triton: that of this machine first,
    then those that are recorded; those that timed only an earlier version of either come last."""

    def has_both(rows: Iterable[Row]) -> bool:
        timed = {row.backend for row in rows if row.technique}
        return "cuda" in timed and bool(timed & {"triton", "triton_native"})

    timed = [data for data in rows.fresh_first if has_both(data.timings(answer.LADDER))]
    shown = sorted(timed, key=lambda data: not has_both(data.counting(answer.LADDER)))
    first, *others = shown or [rows.main]
    names = {f"index-{downloads.stem(data, 'bars')}.html": data for data in others}
    return {"index.html": first, **names}


def page(rows: Rows, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
    """`every`: what `gpus` gives, for the switch."""
    found = answer.answer(data)
    if found is None:
        return {"answer": None, "of_all": data.operator.techniques}
    deciding = answer.deciding(data, found.problem, rows.known, rows.datasets)
    grades = {one.grade for line in deciding for one in line.said.values()}
    grid, decode = answer.grid(data), answer.decode(data)
    name = downloads.stem(data, "bars")
    table = [
        {"panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops, **downloads.about(bar.point.row)}
        for bar in found.bars
    ]
    return {
        "answer": found,
        "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
        "choices": choices(found),
        "others": other_operators(rows, data),
        "compared": {language: found.over_cuda(language) for language in ("triton", "gluon")},
        "newest": newest([data, *rows.fresh_first]),
        "deciding": deciding,
        "languages": {name: LANGUAGES[name] for name in ("triton", "gluon", "cuda")},
        "state": state,
        "legend": {grade: text for grade, text in LEGEND.items() if {grade, *_alike(grade)} & grades},
        "controlled": {
            language: sum(line.said[language].counts == "direct" for line in deciding)
            for language in ("triton", "gluon")
        },
        "grid": grid,
        "over_grid": over_grid(data, grid),
        "decode": decode,
        "decode_shares": decode_shares(data, decode),
        "over_decode": over_library(data, decode),
        "between": between,
        "stalls": stalls(rows, found),
        "about_equal": ABOUT_EQUAL,
        "where": where(data, found),
        "caption": provenance(data, found.rows),
        "command": command(found),
        "gpus": {path: (_short(one), one) for path, one in every.items()},
        "stem": name,
        "shown": data,
        "files": [
            downloads.Download(f"answer-{name}", table, found.rows),
            *(
                downloads.Download(f"{which}-{name}", grid_lines(some), _rows(some))
                for which, some in (("grid", grid), ("decode", decode))
                if some
            ),
        ],
    }


def newest(datasets: Iterable[Dataset]) -> tuple[versions.Beside, str, list[str]] | None:
    """What answer.newest_triton finds, the GPU, and the problems."""
    found = answer.newest_triton(datasets)
    return found and (found[1], short_gpu(found[0].gpu), [cell_title(problem) for problem in found[1].cells])


def over_grid(data: Dataset, grid: list[Any]) -> dict[str, list[float]]:
    """Language -> its speed over CUDA's on each problem where both were timed, the smallest first."""
    counted = [points for _, points in grid if points["cuda"].counts]
    return {language: _ratios(data, counted, language, "cuda") for language in ("triton", "gluon")}


def over_library(data: Dataset, grid: list[Any]) -> dict[str, list[float]]:
    """Language -> its speed over that of the fastest library, on each problem where both were timed, the smallest
    first."""
    counted = [points for _, points in grid if points["library"].counts]
    return {language: _ratios(data, counted, language, "library") for language in answer.SHOWN}


def decode_shares(data: Dataset, grid: list[Any]) -> dict[str, float]:
    """Of each language and of the fastest library, the geometric mean over the problems that all of them have, as a
    share of the best; empty where there is none."""
    names = ("triton", "gluon", "cuda", "library")
    counted = [points for _, points in grid if all(points[name].counts for name in names)]
    over = {name: [1.0] * len(counted) if name == "cuda" else _ratios(data, counted, name, "cuda") for name in names}
    if not counted or {len(ratios) for ratios in over.values()} != {len(counted)}:
        return {}
    means = {name: statistics.geometric_mean(ratios) for name, ratios in over.items()}
    return {name: mean / max(means.values()) for name, mean in means.items()}


def _ratios(data: Dataset, grid: list[dict[str, Point]], ours: str, theirs: str) -> list[float]:
    """The smallest first."""
    ratios = [data.ratio(points[ours], points[theirs]) for points in grid]
    return sorted(ratio.value for ratio in ratios if ratio)


def _short(data: Dataset) -> str:
    """The GPU, and whether only an earlier version of the CUDA kernels was timed on it."""
    timed = any(row.backend == "cuda" for row in data.counting(answer.LADDER))
    return f"{short_gpu(data.gpu)}{'' if timed else ', earlier version'}"


def _alike(grade: str) -> set[str]:
    return {"automatic"} if grade == "hint" else set()


def state(said: Said) -> tuple[str, str]:
    """(grade whose mark is drawn, who controls the technique), of three states."""
    if said.grade is None:
        return "", "not graded yet"
    return "hint" if said.grade == "automatic" else said.grade, STATES[said.grade]


def command(found: Answer) -> str:
    """What times the bars of our own kernels."""
    best = [found.best(language).point.row for language in ("cuda", "triton", "gluon")]
    names = dict.fromkeys(techniques.shown(techniques.at(row.technique, found.problem)) for row in best if row)
    return f"twinkernels bench {' '.join(names)} --problem {found.problem.slug}"


def where(data: Dataset, found: Answer) -> list[str]:
    """What the numbers are about: GPU, problem, day, compilers."""
    rows = [bar.point.row for bar in found.bars if bar.point.row and not bar.is_library]
    days = sorted({str(row.time)[:10] for row in rows})
    installed = (row for row in rows if row.compiler and "@" not in row.backend)
    compilers = sorted({str(row.compiler.get("front_end")) for row in installed})
    how = "recorded" if data.recorded else "measured here"
    return [
        data.gpu,
        cell_title(found.problem),
        f"{how} {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "",
        *(name.replace("nvcc", "CUDA").replace("triton", "Triton") for name in compilers),
    ]


def stalls(rows: Rows, found: Answer) -> list[tuple[Bar, list[tuple[str, float]]]]:
    """Of the bars of our kernels that multiply by wgmma: why their warps did not issue, by ncu, at the tile of the bar;
    the most first."""
    made = []
    for bar in found.of("wgmma"):
        row = bar.point.row
        if row and row.technique:
            profiled = counters.profiled(rows.fresh_first, row.technique, row.backend)
            here = [one for one, _ in profiled if (one.problem, one.tile) == (row.problem, row.tile)]
            if here and (reasons := counters.stalls(here[0])):
                made.append((bar, reasons))
    return made


def _rows(grid: list[Any]) -> list[Any]:
    return [point.row for _, points in grid for point in points.values()]
