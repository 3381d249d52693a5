"""The page of where the gap between core Triton and the flagship comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.ledger import TERMS
from harness.rows.ledger import Ledger
from reports.data import machines
from reports.data.dataset import Dataset
from reports.data.questions import question
from reports.draw import ledger as drawing
from reports.facts import ledger

PATH = "gap.html"


def page(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """`datasets`: in the order in which they are asked for rows."""
    data, found = ledger.found(datasets)
    rows = [row for one in found for row in one.rows.values()]
    return {
        "question": question(ledger.EXPERIMENT),
        "name": ledger.EXPERIMENT,
        "where": data.provenance(rows) if data else "",
        "ledgers": [section(one) for one in found],
        "counted": {one.problem: ledger.counted(data, one) for one in found} if data else {},
        "terms": TERMS,
        "evidence": {term.name: ledger.evidence(term) for term in TERMS},
        "orders": {term.name: ledger.order(data, found[0], term) for term in TERMS} if data and found else {},
        "gain": ledger.gain,
        "minus": ledger.minus,
        "machines": machines.machines(data.environments_of(rows)) if data else [],
    }


def section(one: Ledger) -> dict[str, Any]:
    """What the page says of one problem."""
    lines, told = ledger.lines(one), ledger.sentence(one)
    whole = one.gap is not None and one.remainder is not None
    return {
        "ledger": one,
        "sentence": told,
        "ends": ledger.ends(one),
        "lines": lines,
        "drawings": [
            Markup(drawing.waterfall(one, lines, width, told)) for width in (drawing.WIDE, drawing.NARROW) if whole
        ],
        "boards": ledger.boards(one),
        "missing": [f"{name}: {why}" for name, why in one.refused.items()],
    }
