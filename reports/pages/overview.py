"""Pages that list: the techniques, what each language can say of them, the published ladders, regressions, the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.catalog import experiments
from harness.catalog.techniques import LADDERS, TECHNIQUES, experiment_of
from harness.expressibility.verdicts import files_of
from harness.rows import stats
from reports.data.dataset import Dataset
from reports.data.titles import THEMES, theme
from reports.facts import answer, history, matrix
from reports.facts.expressibility import LONG, Known
from reports.facts.gains import gains
from reports.facts.published import largest, steps
from reports.facts.scores import scored
from reports.pages import downloads


def techniques_page(data: Dataset, known: Known) -> dict[str, Any]:
    """Every technique by theme: its idea, what each language can say, what it buys in each."""
    problem = answer.headline(data)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in THEMES}
    for technique in TECHNIQUES:
        found[theme(technique.name)].append(
            {
                "technique": technique,
                "said": matrix.said_of(technique.name, known),
                "gains": gains(data, experiment_of(technique), technique) if data.raw else None,
                "cost": matrix.cost(data, problem, technique.name) if problem else None,
            }
        )
    return {
        "themes": {name: lines for name, lines in found.items() if lines},
        "languages": matrix.LANGUAGES,
        "long": LONG,
        "probed": bool(known),
    }


def published(data: Dataset) -> dict[str, Any]:
    """The articles whose ladders are measured here, and for each its largest step there and here."""
    found = []
    for name in experiments.about_articles():
        article = experiments.article(name)
        found.append({"article": article, "largest": largest(steps(data, article))})
    return {"found": found}


def regressions(data: Dataset) -> dict[str, Any]:
    """How headline cells moved from run to run, and how far they move although nothing changed."""
    pairs = stats.pairs(data.table("timing")) if data.recorded and data.rows else None
    limits = None if pairs is None else stats.limits(pairs, one_board=False)
    found = history.sections(data)
    each = {id(one): one for section in found for one in section.lines}.values()  # one may be in several sections
    table = [
        {
            "technique": line.technique,
            "language": line.backend,
            "problem": line.problem.slug,
            "tile": line.tile,
            "mode": moment.rows[-1]["mode"],
            "time": moment.time,
            "over_cudnn": moment.value,
            "source_sha256": moment.source,
            "verdict": line.verdict.verdict if line.verdict and moment is line.moments[-1] else "",
        }
        for line in each
        for moment in line.moments
    ]
    rows = [row for line in each for moment in line.moments for row in moment.rows]
    return {
        "sections": found,
        "unedited": [one for one in each if one.verdict and not one.edited],
        "noise": limits and limits.ratio,
        "files": [downloads.Download("regressions", table, rows)] if table else [],
    }


def data_page(data: Dataset, others: Sequence[Dataset]) -> dict[str, Any]:
    """`others`: datasets of other machines with timings."""
    return {
        "data": data,
        "scorecard": scored(data),
        "holes": len(data.holes()),
        "holed": {row.get("experiment") for row in data.holes()},
        "others": others,
        "ladders": LADDERS,
        "files": [one for timed in (data, *others) for one in downloads.experiments(timed)],
    }


def programs(known: Known) -> set[str]:
    """The files of all proofs, from the root of the repository, with what a program needs beside it."""
    proofs = [shown.proof for said in known.values() for shown in said.proofs]
    return {path for proof in proofs for program in (proof.subject, proof.control) for path in files_of(program)}
