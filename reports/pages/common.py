"""What several pages show, and how an operator adds its own."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from markupsafe import Markup

from harness.catalog import techniques
from harness.operators.protocol import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Row
from reports.facts.answer import Choice
from reports.facts.expressibility import Known
from reports.facts.steps import own_problem

PLACE = Path(__file__).resolve().parent


class Page(NamedTuple):
    """A page: its path in the site, its template, and what makes the template's variables."""

    path: str
    template: str
    variables: Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Rows:
    """What the pages of one operator are made from."""

    main: Dataset
    """Of the GPU that the pages show first."""
    datasets: Sequence[Dataset]
    known: Known
    """What each language can say of the techniques, by proofs."""
    claims: Callable[..., str]
    """Checks a directional claim: prose.Claims."""
    of_all: Mapping[str, Rows] = field(default_factory=dict, repr=False)
    """The rows of every operator, by its name."""

    @property
    def fresh_first(self) -> list[Dataset]:
        """The datasets, those computed here before recorded ones."""
        return sorted(self.datasets, key=lambda data: (data.recorded, data is not self.main))

    def of_technique(self, name: str) -> Dataset:
        """That of the GPU shown first, or of the first one with a timing of a technique that counts."""
        order = (self.main, *self.datasets)
        return next((data for data in order if any(row.usable for row in data.of("timing", name))), self.main)

    def that_timed(self, experiment: str) -> Dataset:
        """The first GPU that timed an experiment; the one shown first where none did."""
        return next((data for data in self.datasets if data.timings(experiment)), self.main)


def of_operator(name: str) -> ModuleType | None:
    """The module of an operator's own pages, reports/pages/<operator>; None where it has none. It has

    pages(rows) -> the pages, the first of all operators' first one being index.html
    line(rows, gpu) -> its Line in the first page's table, of rows of this GPU if there are any; not of the first
    parts(technique), if any -> (template, variables) of what the page of a technique shows beside rows
    references(data), if any -> further functions of hand-written text
    """
    return importlib.import_module(f"reports.pages.{name}") if (PLACE / name).is_dir() else None


@dataclass(frozen=True)
class Line:
    """An operator in the first page's table. `path`: of its own answer. `between`: what is between its products, which
    is why languages differ there as they do. `gpu`: on which, less its maker."""

    title: str
    path: str
    between: str
    problem: str
    gpu: str
    choices: Sequence[Choice]


def other_operators(rows: Rows, data: Dataset) -> list[Line]:
    """The lines of the operators that have rows, but for that of `data`."""
    others = ((of_operator(name), one) for name, one in rows.of_all.items() if name != data.operator.name)
    lines = (module.line(one, data.gpu) for module, one in others if module)
    return [line for line in lines if line]


@dataclass(frozen=True)
class Figure:
    svg: Markup
    caption: str
    alt: str
    data: str
    """The files of downloads.experiments that have its numbers, less their ending; empty where there are none."""


def shown_problems(data: Dataset, experiment: str, technique: str) -> list[Problem]:
    """The problems on which a technique's page shows it: of each cell of the tile tables the one that the ladder has
    for it, else the one nearest to what `bench` times by default, of those on which it was timed if it was, and its
    parent too if that was."""
    cells: dict[str, list[Problem]] = {}
    timed: dict[Problem, set[str | None]] = {problem: set() for problem in data.problems(experiment)}
    for row in data.timings(experiment):
        timed[reading.problem_of(row)].add(row.technique)
    which = techniques.get(f"{data.operator.name}/{technique}")
    parent, own = techniques.parent(which), own_problem(which)
    alone = [problem for problem, names in timed.items() if technique in names]
    for problem in [problem for problem in alone if parent and parent.name in timed[problem]] or alone or timed:
        cells.setdefault(problem.cells[-1], []).append(problem)
    return [min(some, key=lambda one: (one != own, one.distance(data.operator.benchmark))) for some in cells.values()]


def between(values: Sequence[float]) -> str:
    """0.77 to 0.87; one number where they are equal."""
    return " to ".join(dict.fromkeys(f"{end(values):.2f}" for end in (min, max)))


def provenance(data: Dataset, rows: Sequence[Mapping[str, Any] | None]) -> str:
    text = data.provenance([row for row in rows if row])
    return f"{text[:1].upper()}{text[1:]}."


def spread(row: Row) -> str:
    """322 [321, 323]: median and quartiles of the speed."""
    speeds = list(map(reading.problem_of(row).tflops, row.samples_ms))
    low, middle, high = statistics.quantiles(speeds if len(speeds) > 1 else 2 * speeds, n=4, method="inclusive")
    digits = 1 if middle < 100 else 0
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
