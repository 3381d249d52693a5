"""The page of where the gap between core Triton and the flagship comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from harness.catalog.problem import Problem
from harness.operators.attention.gap import GLUON, SHARED, TERMS, TLX, WAYS, Term
from harness.rows.intervals import Estimate
from harness.rows.ledger import GOAL, Ledger, percent
from harness.rows.reading import Hashes
from harness.rows.twins import SURE
from reports.data import machines
from reports.data.dataset import Dataset, Row
from reports.data.questions import question
from reports.draw import ledger as drawing
from reports.facts import ledger
from reports.facts.ledger import Line
from reports.pages import downloads

PATH, NAME = "gap.html", "gap"
"""Of the page and of its files."""
WAITS = ": not measured yet"
"""How a reason ends that a run takes away."""


def page(datasets: Sequence[Dataset], codes: Sequence[Row] = (), hashes: Hashes | None = None) -> dict[str, Any]:
    """`datasets`: in the order in which they are asked for rows. `codes`: rows of machine code, which count where they
    are of `hashes`."""
    data, found = ledger.found(datasets)
    terms = [term for way in WAYS.values() for term in way]
    rows = [row for one in found for row in one.rows.values()]
    sections = [section(one) for one in found]
    told: dict[str, list[tuple[Problem, Line]]] = {term.name: [] for term in terms}
    for one in sections:
        for line in (line for each in (one, *one["others"]) for line in each["lines"]):
            told[line.term.name].append((one["ledger"].problem, line))
    return {
        "question": question(ledger.EXPERIMENT),
        "name": ledger.EXPERIMENT,
        "where": data.provenance(rows) if data else "",
        "ledgers": sections,
        "told": told,
        "counted": {one.problem: ledger.counted(data, one) for one in found} if data else {},
        "terms": terms,
        "language_of": {term.name: ledger.LANGUAGES[start] for start, way in WAYS.items() for term in way},
        "own_terms": TERMS,
        "refusals": {term.name: ledger.refusal(codes, term, hashes or {}) for term in terms if term.serialized},
        "evidence": {term.name: ledger.evidence(term) for term in terms},
        "orders": {term.name: orders(data, found, term, codes, told[term.name]) for term in terms} if data else {},
        "advice": {term.name: ledger.advice(term, told[term.name]) for term in terms},
        "untimed": {term.name: ledger.untimed(of_way(found[0], term), term) for term in terms} if found else {},
        "steps": {term.name: steps(found, term) for term in terms},
        "alike": {term.name: ledger.alike(found, term) for term in terms},
        "unpredicted": ledger.unpredicted(found),
        "files": [download(sections)] if sections else [],
        "stem": downloads.stem_of(data, ledger.EXPERIMENT) if data else "",
        "gain": ledger.gain,
        "goal": GOAL,
        "where_of": ledger.where,
        "waiting": waiting(sections),
        "unassembled": [one.problem for one in found if SHARED not in one.rows and SHARED not in one.refused],
        "minus": ledger.minus,
        "machines": machines.machines(data.environments_of(rows)) if data else [],
    }


def orders(
    data: Dataset, found: Sequence[Ledger], term: Term, codes: Sequence[Row], told: Sequence[tuple[Problem, Line]]
) -> list[ledger.Order]:
    """On the first problem that has them, the headline's, and where the term surely has the other sign most."""

    def on(one: Ledger) -> list[ledger.Order]:
        return ledger.orders(data, of_way(one, term), term, codes)

    first, shown = next(((one, shown) for one in found if (shown := on(one))), (None, []))
    if first is None:
        return []
    sizes = {problem: line.priced.size.value for problem, line in told if line.priced.size}
    sign = math.copysign(1, sizes.get(first.problem, 0.0))
    other = min(found, key=lambda one: sign * sizes.get(one.problem, 0.0))
    if sign * sizes.get(other.problem, 0.0) >= -SURE:
        return shown
    return shown + [replace(order, kernel=f"{order.kernel}, at {ledger.where(other.problem)}") for order in on(other)]


def steps(found: Sequence[Ledger], term: Term) -> list[str]:
    """What the language’s own kernels gain by a term, problem by problem."""
    return list(filter(None, (ledger.steps(of_way(one, term), term) for one in found)))


def of_way(one: Ledger, term: Term) -> Ledger:
    """The way that has the term."""
    return one.from_(next(start for start, way in WAYS.items() if term in way))


def download(sections: Sequence[dict[str, Any]]) -> downloads.Download:
    """The terms of every way, with the rows of the experiment's kernels."""
    ways = [one for section in sections for one in (section, *section["others"])]
    lines = [
        {
            "problem": one["ledger"].problem.slug,
            "from": one["ledger"].start,
            "term": line.term.name,
            "cause": line.cause,
            "left_out": _percent(line.priced.alone),
            "added": _percent(line.priced.added),
            "size": _percent(line.priced.size),
            "share_of_gap": line.share,
            "expected": line.expected,
            "note": line.priced.why,
        }
        for one in ways
        for line in one["lines"]
    ]
    return downloads.Download(NAME, lines, [row for one in ways for row in one["ledger"].rows.values()])


def _percent(estimate: Estimate | None) -> float | None:
    return percent(estimate.value) if estimate else None


def note(line: Line) -> str:
    """Why a term lacks a price. What only waits for a run the page says once."""
    told = [part for part in line.priced.why.split("; ") if not part.endswith(WAITS)]
    return "; ".join(told).replace(SHARED, "Triton by nvcc’s ptxas")


def notes(one: Ledger, line: Line) -> str:
    """What a table says beside a term."""
    written = "" if line.priced.own else ledger.written(one, line.term)  # one number for what core Triton gains
    told = ledger.other_tile(one, line.term), ledger.taken_out(line.priced), written, note(line)
    return "; ".join(filter(None, told))


def waiting(sections: Sequence[dict[str, Any]]) -> list[str]:
    """Kernels that a term lacks and that no run has timed, on whatever problem, less Triton's by nvcc's ptxas."""
    ways = [way for one in sections for way in (one, *one["others"]) if way["ledger"].gap]
    parts = (part for way in ways for line in way["lines"] for part in line.priced.why.split("; "))
    names = [part.removesuffix(WAITS) for part in parts if part.endswith(WAITS)]
    return [name for name in dict.fromkeys(names) if name != SHARED]


def section(one: Ledger) -> dict[str, Any]:
    """What the page says of one problem."""
    return {
        **way(one),
        "boards": ledger.boards(one),
        "missing": [f"{name}: {why}" for name, why in one.refused.items()],
        "goal": ledger.goal(one),
        "others": [way(one.from_(start)) for start in (GLUON, TLX)],
    }


def way(one: Ledger) -> dict[str, Any]:
    """Of the way from one language: its sentence, table and drawing."""
    lines, told = ledger.lines(one), ledger.sentence(one)
    title, _, remark = told.partition(". ")
    drawn = (drawing.WIDE, drawing.NARROW) if one.gap and one.remainder else ()
    return {
        "ledger": one,
        "title": title.removesuffix("."),
        "remark": remark,
        "by_cause": ledger.by_cause(one),
        "ends": ledger.ends(one),
        "lines": lines,
        "notes": {line.term.name: notes(one, line) for line in lines},
        "drawings": [Markup(drawing.waterfall(one, lines, width, told)) for width in drawn],
    }
