"""The first page: what to write, what it costs, and the techniques that decide."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from reports.data.dataset import Dataset, Row
from reports.data.names import LANGUAGES, cell_title, short_gpu
from reports.facts import answer as facts
from reports.facts import counters, versions
from reports.facts.answer import Answer, Bar
from reports.facts.expressibility import Said
from reports.pages import answers, downloads
from reports.pages.attention import answer, calls
from reports.pages.common import Rows, other_operators

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

PIECES = {("wide_tile", "gluon"): "in pieces"}
"""(technique, language) -> how an author controls it who cannot say it as it is."""
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
    grid, decode = (facts.over_problems(data, name, answer.SHOWN) for name in (answer.GRID, answer.DECODE))
    grids = {"grid": grid, "decode": decode}
    measured = {
        "every step": answer.LADDER,
        "every problem": answer.GRID,
        "few queries, many keys": answer.DECODE,
        "a call of flash_attention": calls.EXPERIMENT,
    }
    return {
        **answers.shown(data, found, answer.LADDER, every, grids, measured),
        "others": other_operators(rows, data),
        "compared": {language: found.over_cuda(language) for language in ("triton", "gluon")},
        "newest": newest([data, *rows.fresh_first]),
        "deciding": deciding,
        "languages": {name: LANGUAGES[name] for name in ("triton", "gluon", "cuda")},
        "state": state,
        "legend": {grade: text for grade, text in LEGEND.items() if {grade, *_alike(grade)} & grades},
        "controlled": {language: controlled(deciding, language) for language in ("gluon", "triton")},
        "pieces": PIECES,
        "over_grid": facts.over(data, grid, "cuda", ("gluon", "triton")),
        "decode_shares": decode_shares(data, decode),
        "over_decode": facts.over(data, decode, "library", answer.SHOWN),
        "calls": calls.calls(data),
        "stalls": stalls(rows, found),
        "about_equal": ABOUT_EQUAL,
    }


def newest(datasets: Iterable[Dataset]) -> tuple[versions.Beside, str, list[str]] | None:
    """What answer.newest_triton finds, the GPU, and the problems."""
    found = answer.newest_triton(datasets)
    return found and (found[1], short_gpu(found[0].gpu), [cell_title(problem) for problem in found[1].cells])


def controlled(deciding: Iterable[answer.Deciding], language: str) -> str:
    """How many of the techniques an author controls in a language: 4, and 1 in pieces."""
    direct = [line.technique for line in deciding if line.said[language].counts == "direct"]
    pieces = [name for name in direct if (name, language) in PIECES]
    return f"{len(direct) - len(pieces)}{f', and {len(pieces)} in pieces' if pieces else ''}"


def decode_shares(data: Dataset, grid: list[Any]) -> dict[str, float]:
    """Of each language and of the fastest library, the geometric mean over the problems that all of them have, as a
    share of the best; empty where there is none."""
    names = ("triton", "gluon", "cuda", "library")
    counted = [(problem, points) for problem, points in grid if all(points[name].counts for name in names)]
    over = facts.over(data, counted, "cuda", names)
    if not counted or {len(ratios) for ratios in over.values()} != {len(counted)}:
        return {}
    means = {name: statistics.geometric_mean(ratios) for name, ratios in over.items()}
    return {name: mean / max(means.values()) for name, mean in means.items()}


def _alike(grade: str) -> set[str]:
    return {"automatic"} if grade == "hint" else set()


def state(said: Said) -> tuple[str, str]:
    """(grade whose mark is drawn, who controls the technique), of three states."""
    if said.grade is None:
        return "", "not graded yet"
    return "hint" if said.grade == "automatic" else said.grade, STATES[said.grade]


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
