"""The first page: what to write, what it costs, and the techniques that decide."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from harness.catalog import techniques
from reports.data.dataset import Dataset, Ratio, Row
from reports.data.names import LANGUAGES, cell_title, label, short_gpu
from reports.facts import answer as facts
from reports.facts import counters, gains, steps, versions
from reports.facts.answer import Answer, Bar, program
from reports.facts.expressibility import Said
from reports.facts.gains import Gain
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

PIECES = {("wide_tile", "gluon"): "in pieces", ("wide_tile", "triton"): "for keys only"}
"""(technique, language) -> which part of it there is, where the language cannot say all of it."""
TAKEN = {"overlapped_softmax": "held_overlap"}
"""Technique that compilers decide -> the one by which an author does, where a language has it."""
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
    drawn = {state(one)[0] for line in deciding for one in line.said.values()}
    grid, decode = (facts.over_problems(data, name, answer.SHOWN) for name in (answer.GRID, answer.DECODE))
    grids = {"grid": grid, "decode": decode}
    over_grid, over_decode = (facts.over(data, some, "library", answer.SHOWN) for some in grids.values())
    measured = {
        "every step": answer.LADDER,
        "every problem": answer.GRID,
        "few queries, many keys": answer.DECODE,
        "a call of flash_attention": calls.EXPERIMENT,
    }
    over_cuda = facts.over(data, grid, "cuda", ("gluon", "triton"))
    timed = [one for line in deciding for one in (line.cost.same, line.cost.best)]
    return {
        **answers.shown(data, found, every, grids, measured),
        "linked": found.linked or any(one.linked for one in (*timed, *over_cuda.values()) if one),
        "others": other_operators(rows, data),
        "compared": {language: found.over_cuda(language) for language in ("triton", "gluon")},
        "newest": newest([data, *rows.fresh_first]),
        "deciding": deciding,
        "of_best": {line.technique: of_best(data, found, line) for line in deciding},
        "languages": {name: LANGUAGES[name] for name in ("triton", "gluon", "cuda")},
        "state": state,
        "legend": {grade: text for grade, text in LEGEND.items() if grade in drawn},
        "controlled": {language: controlled(deciding, language) for language in ("gluon", "triton")},
        "pieces": PIECES,
        "taken": {
            (name, language): by
            for name, by in TAKEN.items()
            for language in LANGUAGES
            if (by, language) in rows.known and rows.known[by, language].counts == "direct"
        },
        "over_cuda": over_cuda,
        "over_grid": over_grid,
        "worst": {name: facts.worst(data, some, "library", answer.SHOWN) for name, some in grids.items()},
        "triton_ahead": triton_ahead(data, grid),
        "decode_behind": facts.over(data, decode, "gluon", ("triton",)),
        "decode_worst": facts.worst(data, decode, "gluon", ("triton",)),
        "decode_shares": decode_shares(data, decode),
        "decode_choices": facts.choices(decoding) if (decoding := facts.answer(data, answer.DECODING)) else [],
        "over_decode": over_decode,
        "rivals": {name: [label(peer) for peer in sorted(data.peers(name))] for name in (answer.GRID, answer.DECODE)},
        "calls": calls.calls(data),
        "stalls": (stalled := stalls(rows, found)),
        "stalled": " ".join(techniques.shown(program(bar.point.row)) for bar, *_ in stalled if bar.point.row),
        "certainty": {"grid": facts.certainty(over_grid), "decode": facts.certainty(over_decode)},
        "about_equal": ABOUT_EQUAL,
    }


def newest(datasets: Iterable[Dataset]) -> tuple[dict[str, versions.Beside], str, list[str]] | None:
    """The kernels, by language, of the newest Triton that compiled core Triton's and was timed beside the installed
    one, on the first GPU that has such; the GPU, and core Triton's problems."""
    for data in datasets:
        found: dict[str, dict[str, versions.Beside]] = {}
        for one in versions.beside(data, answer.VERSIONS):
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


def controlled(deciding: Iterable[answer.Deciding], language: str) -> str:
    """How many of the techniques an author controls in a language: 4, and 1 in pieces."""
    direct = [line.technique for line in deciding if line.said[language].counts == "direct"]
    pieces = [name for name in direct if (name, language) in PIECES]
    return f"{len(direct) - len(pieces)}{f', and {len(pieces)} in pieces' if pieces else ''}"


def of_best(data: Dataset, found: Answer, line: answer.Deciding) -> tuple[Ratio, str] | None:
    """Core Triton's kernel of a technique, or the one that its twin is again, over its best one with the same
    instructions, and these; None where it was not timed."""
    technique = techniques.get(f"{data.operator.name}/{line.technique}")
    policy = "reference" if line.cost.same else "best"
    point, _ = steps.together(data, found.problem, [(technique, "triton"), (technique, "cuda")], policy)
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
    return "hint" if said.grade == "automatic" else said.grade, STATES[said.grade]


def stalls(rows: Rows, found: Answer) -> list[tuple[Bar, str, list[tuple[str, float]]]]:
    """Of the bars of our kernels that multiply by wgmma: the GPU, and why their warps did not issue there, at the tile
    of the bar; the most first."""
    made = []
    for bar in found.of("wgmma"):
        row = bar.point.row
        if row and row.technique:
            profiled = counters.profiled(rows.fresh_first, row.technique, row.backend)
            here = [one for one, _ in profiled if (one.problem, one.tile) == (row.problem, row.tile)]
            here = [one for one in here if short_gpu(one.gpu) == found.gpu]
            if here and (reasons := counters.stalls(here[0])):
                made.append((bar, found.gpu, reasons))
    return made
