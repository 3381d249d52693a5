"""What each page shows: the variables of its template, from datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness import results, scorecard, techniques
from harness.problem import Problem
from harness.techniques import LADDERS, TECHNIQUES, TWINS, Ladder, Technique
from reports import agreement, counters, evidence, figures, listing, machines, notes, resources, tuning
from reports.dataset import Dataset, Point, Row, quartiles
from reports.holes import group_holes
from reports.questions import question
from reports.scores import earlier, scored
from reports.spills import spills
from reports.verdict import lead, verdict

LADDER = "ladder"
LENGTHS = "sequence_length"
CENSUS_FIRST = (
    "instructions",
    "HMMA",
    "HGMMA",
    "LDSM",
    "LDSM.T",
    "LDGSTS",
    "UTMALDG",
    "UTMASTG",
    "SYNCS",
    "USETMAXREG",
    "MUFU.EX2",
)


@dataclass(frozen=True)
class Figure:
    svg: Markup
    caption: str
    alt: str


Drawn = Callable[[str], list[Figure]]


def index(data: Dataset | None, drawn: Drawn) -> dict[str, Any]:
    """`drawn`: a ladder's name -> its figures, which two pages show."""
    if data is None:
        return {"verdicts": []}
    rungs = [technique for technique in TECHNIQUES if _measured(data, technique)]
    problems = data.problems(LADDER)
    verdicts = [verdict(data, LADDER, technique) for technique in rungs]
    return {
        "verdicts": verdicts,
        "lead": lead(data, LADDER, verdicts),
        "ladders_drawn": [
            (ladder, drawn(ladder.name))
            for ladder in LADDERS.values()
            if any(technique.ladder == ladder.name for technique in rungs)
        ],
        "lengths": length_figures(data),
        "scorecard": scored(data),
        "headline": problems[0] if problems else None,
        "has_tuned": any(language.tuned for item in verdicts for language in item.languages.values()),
        "holes": len(data.holes()),
        "holed": {row.get("experiment") for row in data.holes()},
        "apart": {name: apart for name in LADDERS if (apart := parents_elsewhere(rungs_of(LADDERS[name])))},
    }


def ladder(data: Dataset | None, datasets: Sequence[Dataset], which: Ladder, drawn: Drawn) -> dict[str, Any]:
    """`datasets`: all of them, in the order in which they are asked for counters and machine code."""
    rungs = rungs_of(which)
    names = [rung.name for rung in rungs]
    return {
        "ladder": which,
        "rungs": rungs,
        "parents": {rung.name: parent for rung, parent in parents_elsewhere(rungs)},
        "figures": drawn(which.name),
        "tables": [ladder_table(data, problem, rungs) for problem in data.problems(LADDER)] if data else [],
        "holes": group_holes(r for r in data.holes(LADDER) if r.get("technique") in (None, *names)) if data else [],
        "earlier": [(backend, name) for backend in TWINS for name in earlier(data, LADDER, backend) if name in names]
        if data
        else [],
        "steps": counters.conflict_steps(datasets),
        "taken": (taken := resources.taken(datasets, rungs)),
        "built_for": resources.built_for(taken),
        "has_warps": any(item.fits is not None for item in taken),
        "has_active": any(item.active is not None for item in taken),
        "arch": resources.ARCH,
        "head_dim": resources.HEAD_DIM,
        "hit_rates": resources.hit_rates(datasets),
        "has_l2_orders": set(resources.L2_ORDERS) <= set(names),
        "assembled": resources.assembled(data, LADDER, rungs) if data else [],
    }


def ladder_table(data: Dataset, problem: Problem, rungs: Sequence[Technique]) -> dict[str, Any]:
    """One problem: per rung and twin the burst timing, the step, the sustained timing and the best tile; the peers."""

    def points(name: str | None, backends: Sequence[str], mode: str = "burst", best: bool = False) -> dict[str, Point]:
        return {backend: data.point(LADDER, problem, name, backend, mode, best=best) for backend in backends}

    peers = peers_of(data, LADDER)
    lines: list[dict[str, Any]] = [
        {
            "rung": rung,
            "burst": points(rung.name, TWINS),
            "sustained": points(rung.name, TWINS, "sustained"),
            "best": points(rung.name, TWINS, best=True),
            "gains": {backend: data.gain(LADDER, problem, rung, backend) for backend in TWINS},
        }
        for rung in rungs
    ]
    return {
        "problem": problem,
        "lines": lines,
        "burst": points(None, peers),
        "sustained": points(None, peers, "sustained"),
        "has_sustained": "sustained" in data.modes(LADDER),
        "has_best": any(point.counts for line in lines for point in line["best"].values()),
    }


def technique(data: Dataset | None, datasets: Sequence[Dataset], which: Technique) -> dict[str, Any]:
    """`datasets`: all of them, those of this machine first: what was computed here stands before what was recorded."""
    parent = techniques.parent(which)
    context: dict[str, Any] = {
        "technique": which,
        "parent": parent,
        "children": [other for other in TECHNIQUES if techniques.parent(other) == which],
        "listings": {language: listing.listing(which, language) for language in ("cuda", "triton")},
        "diffs": {language: parent and listing.diff(parent, which, language) for language in ("cuda", "triton")},
        "verdict": None,
        "step": None,
        "cells": [],
        "note": None,
        "machines": [],
        "tuned": [],
    }
    tables = code_tables(datasets, which)
    context["code"] = {dim: [table for table in tables if table["head_dim"] == dim] for dim in _dims(tables)}
    context["same_code"] = same_code(datasets, which)
    inspected = {backend for table in tables for backend in table["columns"]}
    context["uninspected"] = [backend for backend in ("cuda", "triton") if backend not in inspected]
    context["counters"] = counters_of(datasets, which, parent)
    context["hit_rates"] = resources.hit_rates(datasets) if which.name in resources.L2_ORDERS else []
    context["spills"] = spills(datasets, which)
    context["sanitized"] = evidence.sanitized(datasets, which)
    context["tools"] = evidence.TOOLS
    context["numerics"] = [table for dataset in datasets if (table := numerics_table(dataset, which))]
    if data is None:
        return context
    problems = data.problems(LADDER)
    svg = figures.step(data, LADDER, problems, which)
    cells = [
        (problem, mode, backend, data.point(LADDER, problem, which.name, backend, mode, best=best))
        for problem in problems
        for mode in data.modes(LADDER)
        for backend in TWINS
        for best in (False, True)
    ]
    shown = [point.row for *_, point in cells if point.row]
    context |= {
        "tuned": tuning.tuned(data, LADDER, which),
        "verdict": verdict(data, LADDER, which),
        "step": svg and Figure(Markup(svg), data.provenance(shown), f"TFLOPS of {which.name} and of its parent"),
        "cells": [cell for cell in cells if cell[3].row or cell[3].reason != "not measured"],
        "note": notes.render(which.name, data),
        "machines": machines.machines(data.environments_of(shown)),
    }
    return context


def counters_of(datasets: Sequence[Dataset], which: Technique, parent: Technique | None) -> dict[str, Any]:
    """What the CUDA twin did on a CPU, beside its parent on the same problem, and ncu's rows."""
    found = counters.counted(datasets, which.name)
    before = parent and found and counters.counted(datasets, parent.name, Problem.from_dict(found.row["problem"]))
    profiled = [line for backend in TWINS for line in counters.profiled(datasets, which.name, backend)]
    return {
        "counted": found,
        "parent": before and parent,
        "lines": counters.table(found, before or None) if found else [],
        "pictures": counters.pictures(found) if found else [],
        "ncu": profiled,
        "held": agreement.held(found, [row for row, _ in profiled]),
        "names": counters.NCU,
    }


def correctness(datasets: Sequence[Dataset]) -> dict[str, Any]:
    return {
        "matrices": evidence.matrices(datasets),
        "sanitized": (sanitized := evidence.sanitizer_table(datasets)),
        "ran": [
            (backend, tool)
            for backend in TWINS
            for tool in evidence.TOOLS
            if any((backend, tool) in found for _, found in sanitized)
        ],
        "planted": evidence.planted(datasets),
        "held_outputs": evidence.held(datasets),
        "group_holes": group_holes,
    }


def experiment(data: Dataset, name: str) -> dict[str, Any]:
    rows = [row for row in data.newest if row.get("experiment") == name]
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        by_problem.setdefault(scorecard.slug(row), []).append(row)
    ours = [row for row in rows if row.get("technique") and scorecard.is_current(row, data.hashes)]
    return {
        "data": data,
        "where": data.provenance(ours),
        "scored": scored(data, name),
        "current": lambda row: scorecard.is_current(row, data.hashes),
        "name": name,
        "question": question(name),
        "groups": by_problem,
        "total": len(rows),
        "holes": group_holes(data.holes(name)),
        "earlier": [(backend, rung) for backend in TWINS for rung in earlier(data, name, backend)],
        "pairs": data.pairs(name),
        "machines": machines.machines(data.environments_of(rows)),
    }


def ladder_figures(data: Dataset, rungs: Sequence[Technique]) -> list[Figure]:
    return [
        Figure(
            Markup(figures.ladder(data, LADDER, problem, rungs)),
            data.provenance(data.counting(LADDER, rungs)),
            f"TFLOPS per rung in CUDA and in Triton, {figures.cell_title(problem)}",
        )
        for problem in data.problems(LADDER)
    ]


def length_figures(data: Dataset) -> list[Figure]:
    found: dict[tuple[int, bool, str], list[Problem]] = {}
    for problem in data.problems(LENGTHS):
        found.setdefault((problem.head_dim, problem.causal, problem.dtype), []).append(problem)
    drawn = []
    for problems in found.values():
        svg = figures.lengths(data, LENGTHS, problems)
        if svg:
            caption = data.provenance(data.counting(LENGTHS))
            drawn.append(Figure(Markup(svg), caption, "TFLOPS against sequence length"))
    return drawn


def code_tables(datasets: Sequence[Dataset], which: Technique) -> list[dict[str, Any]]:
    """One table per architecture and head_dim: {arch, head_dim, where, columns: backend -> row, census: names}."""
    tables: dict[tuple[str, int], dict[str, Any]] = {}
    for dataset in datasets:
        for backend in TWINS:
            for row in dataset.codes(which.name, backend):
                name = (row["arch"], row["problem"]["head_dim"])
                table = tables.setdefault(name, {"arch": name[0], "head_dim": name[1], "columns": {}, "where": set()})
                if backend not in table["columns"]:
                    table["columns"][backend] = row
                    table["where"].add(dataset.provenance([row]))
    for table in tables.values():
        counts = [row["code"].get("census") or {} for row in table["columns"].values()]
        names = {name for count in counts for name in count if count[name]}
        table["census"] = sorted(names, key=lambda n: (CENSUS_FIRST.index(n) if n in CENSUS_FIRST else 99, n))
    order = LADDERS[which.ladder].archs
    return sorted(tables.values(), key=lambda t: order.index(t["arch"]) if t["arch"] in order else 9)


def same_code(datasets: Sequence[Dataset], which: Technique) -> list[bool]:
    """Of the kernels that were compiled here as recorded ones were: whether the instructions are the same."""
    rows: dict[bool, list[Row]] = {True: [], False: []}
    for dataset in datasets:
        for backend in TWINS:
            rows[dataset.recorded] += dataset.codes(which.name, backend)
    return [same for _, same in results.same_code(rows[False], rows[True])]


def _dims(tables: Iterable[dict[str, Any]]) -> list[int]:
    """Head dimensions that were compiled for: that of the headline first, then from the smallest."""
    return sorted({table["head_dim"] for table in tables}, key=lambda dim: (dim != resources.HEAD_DIM, dim))


def numerics_table(data: Dataset, which: Technique) -> dict[str, Any] | None:
    """Per backend and distribution the worst figures over all problems gated, or None without a gate row."""
    worst: dict[tuple[str, int], dict[str, Any]] = {}
    rows = [row for backend in TWINS for row in data.gates(which.name, backend)]
    for row in rows:
        for distribution, numbers in (row.get("numerics") or {}).items():
            name = (distribution, TWINS.index(row["backend"]))
            if name not in worst or _used(numbers) > _used(worst[name]):
                worst[name] = {**numbers, "backend": row["backend"], "status": row["status"]}
    if not rows:
        return None
    passed = [row for row in rows if row["status"] == "passed"]
    return {
        "where": data.provenance(rows),
        "lines": sorted(worst.items()),
        "passed": len(passed),
        "gated": len(rows),
        "holes": group_holes(row for row in rows if row["status"] != "passed"),
    }


def rungs_of(which: Ladder) -> list[Technique]:
    return [technique for technique in TECHNIQUES if technique.ladder == which.name]


def parents_elsewhere(rungs: Sequence[Technique]) -> list[tuple[Technique, Technique]]:
    """Rungs whose parent is not the rung above, and that parent."""
    above = [None, *rungs]
    pairs = [(rung, techniques.parent(rung), before) for rung, before in zip(rungs, above, strict=False)]
    return [(rung, parent) for rung, parent, before in pairs if parent and parent != before]


def peers_of(data: Dataset, name: str) -> list[str]:
    return sorted({row["backend"] for row in data.timings(name) if not row.get("technique")})


def spread(row: Row) -> str:
    """322 [321 to 323]: median and quartiles of TFLOPS."""
    low, middle, high = quartiles(row)
    digits = 1 if middle < 100 else 0
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _measured(data: Dataset, which: Technique) -> bool:
    return any(row.get("technique") == which.name for row in data.timings(LADDER))


def _used(numbers: dict[str, Any]) -> float:
    """Share of the limit that was used, infinite where the error is not finite."""
    used = [numbers.get("max_error_used"), numbers.get("rel_l2_used")]
    return max(float("inf") if share is None else share for share in used)
