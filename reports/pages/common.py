"""What several pages show, and how an operator adds its own."""

from __future__ import annotations

import importlib
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from markupsafe import Markup

from harness.catalog import techniques
from harness.operators.protocol import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Row, grouped, why, without_case
from reports.data.names import anchor
from reports.facts.answer import Choice
from reports.facts.expressibility import Known
from reports.facts.steps import own_problem

HEADING = re.compile(
    r'(?P<around><(?:section|div)\b[^>]* id="(?P<outer>[^"]+)"[^>]*>\s*)?'
    r"<(?P<tag>h[23])(?P<rest>[^>]*)>(?P<text>.*?)</(?P=tag)>",
    re.DOTALL,
)


class Page(NamedTuple):
    """A page: its path in the site, its template, and what makes the template's variables."""

    path: str
    template: str
    variables: Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Rows:
    """What the pages of one operator are made from. `main`: of the GPU shown first; `known`: what each language can say
    of the techniques, by proofs; `claims`: prose.Claims; `of_all`: the rows of every operator, by its name."""

    main: Dataset
    datasets: Sequence[Dataset]
    known: Known
    claims: Callable[..., str]
    of_all: Mapping[str, Rows] = field(default_factory=dict, repr=False)

    @property
    def fresh_first(self) -> list[Dataset]:
        """The datasets, those computed here before recorded ones."""
        return sorted(self.datasets, key=lambda data: (data.recorded, data is not self.main))

    def of_technique(self, name: str) -> Dataset:
        """That of the GPU shown first, or of the first one with a timing of a technique that counts."""
        order = (self.main, *self.datasets)
        return next((data for data in order if any(row.usable for row in data.of("timing", name))), self.main)


def of_operator(name: str) -> ModuleType | None:
    """The module of an operator's own pages, reports/pages/<operator>; None where it has none. It has

    pages(rows) -> the pages, the first of all operators' first one being index.html
    line(rows, gpu) -> its Line in the first page's table, of rows of this GPU if there are any; not of the first
    parts(technique), if any -> (template, variables) of what the page of a technique shows beside rows
    references(data), if any -> further functions of hand-written text
    """
    return importlib.import_module(f"reports.pages.{name}") if Path(__file__).with_name(name).is_dir() else None


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
    """`data`: the stem of the files of downloads.experiments with its numbers, empty where there are none."""

    svg: Markup
    caption: str
    alt: str
    data: str


def shown_problems(data: Dataset, experiment: str, technique: str) -> list[Problem]:
    """The problems on which a technique's page shows it, one of each cell of the tile tables: the ladder's own for it,
    else the nearest to `bench`'s default; of those on which it, and if possible its parent, was timed."""
    rows = grouped(data.timings(experiment), reading.problem_of)
    timed = {problem: {row.technique for row in rows[problem]} for problem in data.problems(experiment)}
    which = techniques.get(f"{data.operator.name}/{technique}")
    parent, own = techniques.parent(which), own_problem(which)
    alone = [problem for problem, names in timed.items() if technique in names]
    both = [problem for problem in alone if parent and parent.name in timed[problem]]
    cells = grouped(both or alone or timed, lambda problem: problem.cells[-1]).values()
    return [min(some, key=lambda one: (one != own, one.distance(data.operator.benchmark))) for some in cells]


def between(values: Sequence[float]) -> str:
    """0.77 to 0.87; one number where they are equal."""
    return " to ".join(dict.fromkeys(f"{end(values):.2f}" for end in (min, max)))


def provenance(data: Dataset, rows: Sequence[Mapping[str, Any] | None]) -> str:
    text = data.provenance([row for row in rows if row])
    return f"{text[:1].upper()}{text[1:]}."


def spread(row: Row) -> str:
    """322 [321, 323]: median and quartiles of the speed."""
    flops = reading.problem_of(row).flops
    speeds = [flops / ms / 1e9 for ms in row.samples_ms]
    low, middle, high = statistics.quantiles(speeds if len(speeds) > 1 else 2 * speeds, n=4, method="inclusive")
    digits = 1 if middle < 100 else 0
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


@dataclass
class Hole:
    """Rows that are not a pass for one reason. `cells`: backend, technique and where, row by row."""

    status: str
    check: str | None
    reason: str | None
    cells: list[tuple[str, str, str]]

    @cached_property
    def kernels(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((backend, technique) for backend, technique, _ in self.cells))


def group_holes(rows: Iterable[Row]) -> list[Hole]:
    """Holes with one status and reason together, whatever the kernel."""
    found: dict[tuple[Any, ...], Hole] = {}
    for row in rows:
        how = row.mode or row.tool
        reason, where = row.reason, [row.problem, row.kind, how, row.tile]
        if row.status == "unsupported" and reason:
            reason = without_case(reason)  # the cells say which
        if row.status == "not_converged" and row.samples_ms:
            reason = "the median is not certain enough after the time that it was given"
            where.append(why(row).partition(": ")[2])
        what = (row.status, row.check, reason)
        cell = (row.backend, row.technique or "", " ".join(filter(None, where)))
        found.setdefault(what, Hole(*what, [])).cells.append(cell)
    return list(found.values())


def anchored(page: str) -> str:
    """`page` with a link in each h2, and in each h3 that has an id, to its id: its own, that of the section which it
    opens, or else its words, with a number if an id has these words already. A heading with numbers from rows needs
    an id of its own: a link must outlive them."""
    taken = set(re.findall(r' id="([^"]+)"', page))

    def linked(found: re.Match[str]) -> str:
        rest, own = found["rest"], re.search(r' id="([^"]+)"', found["rest"])
        name = own[1] if own else found["outer"]
        if name is None:
            if found["tag"] == "h3":
                return found[0]
            words = anchor(re.sub(r"<[^>]+>|&[#\w]+;", "", found["text"])) or "heading"
            name = next(one for one in (words, *(f"{words}-{number}" for number in range(2, 999))) if one not in taken)
            taken.add(name)
            rest = f' id="{name}"{rest}'
        link = f'<a class="anchor" href="#{name}" aria-label="link to this heading">#</a>'
        return f"{found['around'] or ''}<{found['tag']}{rest}>{link}{found['text']}</{found['tag']}>"

    return HEADING.sub(linked, page)
