"""The page of where the gap between core Triton and the flagship comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.ledger import GLUON_TERMS, TERMS
from harness.catalog.problem import Problem
from harness.rows.ledger import Ledger
from reports.data import machines
from reports.data.dataset import Dataset, Row
from reports.data.questions import question
from reports.draw import ledger as drawing
from reports.facts import ledger
from reports.facts.ledger import Line

PATH = "gap.html"


def page(datasets: Sequence[Dataset], codes: Sequence[Row] = ()) -> dict[str, Any]:
    """`datasets`: in the order in which they are asked for rows. `codes`: rows of machine code."""
    data, found = ledger.found(datasets)
    terms = (*TERMS, *GLUON_TERMS) if any(one.from_gluon for one in found) or not found else TERMS
    rows = [row for one in found for row in one.rows.values()]
    sections = [section(one) for one in found]
    told: dict[str, list[tuple[Problem, Line]]] = {term.name: [] for term in terms}
    for one in sections:
        for line in (*one["lines"], *(one["gluon"]["lines"] if one["gluon"] else ())):
            told[line.term.name].append((one["ledger"].problem, line))
    return {
        "question": question(ledger.EXPERIMENT),
        "name": ledger.EXPERIMENT,
        "where": data.provenance(rows) if data else "",
        "ledgers": sections,
        "told": told,
        "counted": {one.problem: ledger.counted(data, one) for one in found} if data else {},
        "terms": terms,
        "refusals": {term.name: ledger.refusal(codes, term) for term in terms if term.serialized},
        "evidence": {term.name: ledger.evidence(term) for term in terms},
        "orders": {term.name: ledger.order(data, found[0], term) for term in terms} if data and found else {},
        "gain": ledger.gain,
        "minus": ledger.minus,
        "machines": machines.machines(data.environments_of(rows)) if data else [],
    }


def section(one: Ledger) -> dict[str, Any]:
    """What the page says of one problem."""
    return {
        **way(one),
        "boards": ledger.boards(one),
        "missing": [f"{name}: {why}" for name, why in one.refused.items()],
        "gluon": way(one.from_gluon) if one.from_gluon else None,
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
        "drawings": [Markup(drawing.waterfall(one, lines, width, told)) for width in drawn],
    }
