"""The page of one technique: both sources, their machine code, what they count, their numerics and their times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from markupsafe import Markup

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES, rungs
from harness.operators.protocol import Problem
from harness.rows import reading, results
from reports.data.dataset import Dataset, Row, grouped
from reports.data.names import LANGUAGES, label, page_of, short_title, theme, title
from reports.draw import banks, figures
from reports.facts import counters, sanitizers, steps, tuning
from reports.facts.expressibility import LONG, said_of
from reports.facts.gains import Gain, Gains, gains
from reports.pages import downloads, guide, learn, listing, prose
from reports.pages.common import Figure, Rows, between, group_holes, of_operator, provenance, shown_problems

LINKED = "~: the two kernels were timed in two runs; each is compared with {} in its own run"
"""Of a gain between two groups; such a gain moves by a few percent from run to run."""
WHOLE = "flagship"
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


def page(rows: Rows, which: Technique) -> dict[str, Any]:
    data, datasets = rows.of_technique(which.name), rows.fresh_first
    parts: Any = getattr(of_operator(which.operator), "parts", lambda _: [])
    parent = techniques.parent(which)
    written = sources.series(techniques.LANGUAGES, which.path)
    parents = {language: techniques.parent(which, language) for language in written}
    place = rungs().index(which)
    experiment = data.experiment_of(which)
    problems = shown_problems(data, experiment, which.name)
    svg = figures.step(data, problems, which)
    taken = {backend: [steps.one_step(data, problem, which, backend) for problem in problems] for backend in SERIES}
    is_linked = any(step.ratio and step.ratio.linked for step in chain.from_iterable(taken.values()))
    cells = []
    for problem, mode, backend in product(problems, data.modes(experiment), SERIES):
        reference, best = (
            data.point(experiment, problem, which.name, backend, mode, best=best) for best in (False, True)
        )
        points = [reference] if best.row is reference.row else [reference, best]
        cells += [(problem, mode, backend, point) for point in points]
    shown = [point.row for *_, point in cells if point.row]
    caption = provenance(data, shown) + (f" {LINKED.format(label(str(data.operator.anchor)))}" if is_linked else "")
    first = data.operator.benchmark.tile_key
    tables = sorted(code_tables(datasets, which), key=lambda one: (one["tile_key"] != first, one["tile_key"]))
    inspected = {backend for table in tables for backend in table["columns"]}
    found = gains(data, experiment, which) if data.rows else None
    return {
        "technique": which,
        "shown": techniques.shown(which),
        "theme": theme(which),
        "lesson": next(
            (one for one in learn.sections() if techniques.of_qualified(one[1]["technique"]) is which), None
        ),
        "row_id": techniques.key(which).replace("/", "-"),
        "ptx": guide.ptx(which),
        "said": said_of(techniques.key(which), rows.known),
        "namesake": namesake(rows, which),
        "languages": LANGUAGES,
        "long": LONG,
        "programs": {name: sources.same_program(which.path, name) for name in written},
        "parts_of": parts(which),
        "before": rungs()[place - 1] if place else None,
        "after": rungs()[place + 1] if place + 1 < len(rungs()) else None,
        "parent": parent,
        "children": [other for other in rungs() if techniques.parent(other) == which],
        "listings": {language: listing.listing(which, language) for language in written},
        "excerpt": listing.excerpt(parent, which),
        "diffs": {language: before and listing.diff(before, which, language) for language, before in parents.items()},
        "parents": parents,
        "code": grouped(tables, lambda table: table["tile_key"]),
        "uninspected": [backend for backend in written if backend not in inspected],
        "counters": counters_of(datasets, which, parent),
        "spills": spills(datasets, which),
        "sanitized": sanitizers.sanitized(datasets, which),
        "tools": results.SANITIZERS,
        "numerics": [table for dataset in datasets if (table := numerics_table(dataset, which))],
        "tuned": tuning.tuned(data, experiment, which),
        "tuned_earlier": tuning.tried_earlier(data, which),
        "gains": found,
        "elsewhere": elsewhere(rows, which),
        "gained": gained(taken, problems, found),
        "step_words": figures.WORDS,
        "step": svg and Figure(Markup(svg), caption, title(which.name), downloads.stem(data, experiment)),
        "cells": [cell for cell in cells if cell[3].row or cell[3].reason != "not measured"],
        "note": prose.render(which.name, data, rows.claims, datasets=datasets) if data.rows else None,
        "machines": data.environments_of(shown),
    }


def gained(taken: Mapping[str, Sequence[steps.Step]], problems: Sequence[Problem], every: Gains | None = None) -> str:
    """What the figure shows, in CUDA or else in another language that has a gain: 0.77 to 0.87 times its parent's speed
    in Gluon, and on which problems where that is not all of them, or where `every`, the means below, are of more. The
    parent's program again, and a hint that the compiler dropped, are no gain."""
    for backend in sorted(taken, key=lambda backend: backend != "cuda"):
        told = {
            problem: step.gain.value
            for problem, step in zip(problems, taken[backend], strict=True)
            if step.gain and step.kind not in ("same", "dropped")
        }
        if told:
            some = ""
            mean = every.languages[backend].gain if every and backend in every.languages else None
            if len(told) < len(problems) or (mean and len(told) == 1 < mean.cells):
                some = f", {short_title(next(iter(told)))}" if len(told) == 1 else f", on {len(told)} problems"
            tile = ", its tile included" if any(step.has_tile for step in taken[backend]) else ""
            return f"{between([*told.values()])} times its parent’s speed in {label(backend)}{tile}{some}"
    return ""


def namesake(rows: Rows, which: Technique) -> tuple[Technique, str] | None:
    """Another operator's technique of this name that has a grade, and that operator's title."""
    graded = {technique for technique, _ in rows.known}
    others = (one for one in rungs() if one.name == which.name and one is not which and techniques.key(one) in graded)
    return next(((one, operators.get(one.operator).title) for one in others), None)


def elsewhere(rows: Rows, which: Technique) -> dict[str, list[tuple[str, str | None, Gain]]]:
    """Backend -> (operator's title, page, gain) of the technique of this name, where several operators have a gain
    without its tile; its own first, without a page. A flagship is a whole kernel and no technique."""
    found: dict[str, list[tuple[str, str | None, Gain]]] = {}
    namesakes = [one for one in rungs() if one.name == which.name and one.name != WHOLE]
    for one in sorted(namesakes, key=lambda one: one is not which):
        data = rows.of_all[one.operator].main if one.operator in rows.of_all else None
        what = gains(data, data.experiment_of(one), one).languages if data and data.rows else {}
        for backend, language in what.items():
            if language.gain and not language.same_program and not language.has_tile:
                path = None if one is which else page_of(one)
                found.setdefault(backend, []).append((operators.get(one.operator).title, path, language.gain))
    return {backend: gained for backend, gained in found.items() if len(gained) > 1}


def counters_of(datasets: Sequence[Dataset], which: Technique, parent: Technique | None) -> dict[str, Any]:
    """What the CUDA twin did on a CPU, beside its parent on the same problem, and ncu's rows."""
    found = counters.counted(datasets, which.name)
    before = parent and found and counters.counted(datasets, parent.name, reading.problem_of(found.row))
    profiled = [line for backend in SERIES for line in counters.profiled(datasets, which.name, backend)]
    return {
        "counted": found,
        "parent": before and parent,
        "lines": counters.table(found, before or None) if found else [],
        "pictures": [(site, banks.picture(site)) for site in found.on_banks] if found else [],
        "ncu": side_by_side(profiled),
        "names": counters.NCU,
    }


def side_by_side(profiled: Sequence[tuple[Row, str]]) -> list[dict[str, Any]]:
    """A table per problem and tile, the largest problem first: slug, tile, where, backend -> metrics, and names."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for row, where in sorted(profiled, key=lambda one: -reading.problem_of(one[0]).flops):
        slug, tile = row.problem, row.tile
        table = tables.setdefault((slug, tile), {"slug": slug, "tile": tile, "where": set(), "columns": {}})
        table["where"].add(where)
        table["columns"].setdefault(row.backend, row.details["metrics"])
    for table in tables.values():
        table["names"] = list(dict.fromkeys(name for metrics in table["columns"].values() for name in metrics))
    return list(tables.values())


def code_tables(datasets: Sequence[Dataset], which: Technique) -> list[dict[str, Any]]:
    """One table per architecture and key of the reference tile: {arch, tile_key, title, where, columns: backend -> row,
    before: backend -> the row of its parent, elsewhere: backend -> that parent, where it is not CUDA's, has_lock:
    whether a named barrier guards some of a softmax, census: names}."""
    parents = {backend: techniques.parent(which, backend) for backend in SERIES}
    tables: dict[tuple[str, int], dict[str, Any]] = {}
    for dataset in datasets:
        for backend in SERIES:
            for row in dataset.codes(which.name, backend):
                problem = reading.problem_of(row)
                name = (row.arch, problem.tile_key)
                about = {"arch": name[0], "tile_key": name[1], "title": f"{problem.tile_field} {name[1]}"}
                table = tables.setdefault(name, {**about, "columns": {}, "where": set()})
                if backend not in table["columns"]:
                    table["columns"][backend] = row
                    table["where"].add(dataset.provenance([row]))
    for table in tables.values():
        counts = [row["code"].get("census") or {} for row in table["columns"].values()]
        names = {name for count in counts for name in count if count[name]}
        loops = [row["code"].get("main_loop") or {} for row in table["columns"].values()]
        table["has_lock"] = any(any((loop.get("in_lock") or {}).values()) for loop in loops)
        key = table["arch"], table["tile_key"]
        before = {name: above for name, above in parents.items() if above and name in table["columns"]}
        codes = {name: [data.codes(above.name, name, *key) for data in datasets] for name, above in before.items()}
        table["before"] = {name: next(chain(*found)) for name, found in codes.items() if any(found)}
        table["elsewhere"] = {name: parents[name] for name in table["before"] if parents[name] != parents["cuda"]}
        table["census"] = sorted(names, key=lambda n: (CENSUS_FIRST.index(n) if n in CENSUS_FIRST else 99, n))
    order = techniques.ladder_of(which).archs
    return sorted(tables.values(), key=lambda t: order.index(t["arch"]) if t["arch"] in order else 9)


@dataclass(frozen=True)
class Spill:
    """Binaries of one twin that differ in no more than dtype, lengths and layout: the fewest and the most bytes."""

    backend: str
    arch: str
    cell: str
    tile: str
    reference: bool
    least: int
    most: int


def spills(datasets: Sequence[Dataset], technique: Technique) -> list[Spill]:
    """What this checkout's twins spill on the ladder's architectures: builds that do, the reference tile first."""
    archs = techniques.ladder_of(technique).archs
    every = (row for data in datasets for backend in SERIES for row in data.with_code(technique.name, backend))
    rows = [row for row in every if row.arch in archs and row.current and row.spill_bytes is not None]
    builds: dict[tuple[str, str, str, str], list[Row]] = grouped(
        rows, lambda row: (row.backend, row.arch, reading.problem_of(row).cells[-1], row.tile)
    )
    found = []
    for build, some in builds.items():
        counts = [row.spill_bytes for row in some]
        if any(counts):
            found.append(Spill(*build, bool(some[0].reference_tile), min(counts), max(counts)))
    order = [(backend, arch) for backend in SERIES for arch in archs]
    return sorted(found, key=lambda one: (order.index((one.backend, one.arch)), not one.reference, one.cell, one.tile))


def numerics_table(data: Dataset, which: Technique) -> dict[str, Any] | None:
    """Per backend and distribution the worst figures over all problems gated, or None without a gate row."""
    worst: dict[tuple[str, int], dict[str, Any]] = {}
    rows = [row for backend in SERIES for row in data.gates(which.name, backend)]
    for row in rows:
        for distribution, numbers in (row.numerics or {}).items():
            name = (distribution, SERIES.index(row.backend))
            if name not in worst or _used(numbers) > _used(worst[name]):
                worst[name] = {**numbers, "backend": row.backend, "status": row.status}
    if not rows:
        return None
    judged = [row.status for row in rows if row.status != "unsupported"]
    return {
        "where": data.provenance(rows),
        "lines": sorted(worst.items()),
        "passed": judged.count("passed"),
        "gated": len(judged),
        "declined": len(rows) - len(judged),
        "holes": group_holes(row for row in rows if row.status != "passed"),
    }


def _used(numbers: dict[str, Any]) -> float:
    """Share of the limit that was used, infinite where the error is not finite."""
    used = [numbers.get("max_error_used"), numbers.get("rel_l2_used")]
    return max(float("inf") if share is None else share for share in used)
