"""report, scorecard, compare: what the rows say."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import operators
from harness.catalog import techniques
from harness.catalog.sources import ROOT
from harness.cli.inspecting import inspected
from harness.cli.measuring import ON_A_CPU, correctness
from harness.cli.options import (
    Names,
    chosen,
    load_experiment,
    operator_of,
    where,
)
from harness.cli.output import RECORDED, RUNS, Row, console, run_file, show_failures, write_run
from harness.machine.progress import Progress
from harness.rows import results, tables

if TYPE_CHECKING:
    from harness.catalog.entries import NamedExperiment
    from harness.inspection.survey import Cell
    from harness.rows.reading import Hashes
    from harness.rows.reusable import ReusableRows

SITE = ROOT / "reports" / "site"
FIRST = 2
"""Problems of the ladder that the first page's bars show."""


def report(
    names: Names = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All problems and architectures; without it, one each.")
    ] = False,
) -> None:
    """Compile, check and inspect the kernels, time them if there is a GPU, and build reports/site/index.html.

    On a GPU the first page comes first: the fastest kernels of each language are timed beside the libraries. Without
    one the first site, from recorded rows, is there within a minute. What is computed here joins it. With names, only
    these techniques are looked at, and their pages are drawn first. Each kernel is compiled for one architecture, and
    timed or, without a GPU, checked on one problem; --all takes all of them. Work that an earlier report or run did
    with the same kernels and compilers is not repeated. The site is built even if a kernel fails, or Ctrl-C stops the
    work; the exit code is 1 if a kernel fails.
    """
    wanted = chosen(names)

    from harness.expressibility import matrix
    from harness.machine import environment
    from harness.rows.reading import checkout_hashes

    place = where(None)
    description, hashes = environment.describe(), checkout_hashes()
    ladder = replace(load_experiment(operator_of(names).experiment("ladder")), techniques=wanted)
    if place == "gpu" and not everything:
        ladder = replace(ladder, problems=ladder.problems[:FIRST], tiles=("chosen",))
    with leaving_a_site():
        rows, again = _work(ladder, names, everything, place, description, hashes)
    if again:
        console.print(
            f"{again} rows of earlier reports and runs were used again: same kernels, compilers and harness. "
            f"`twinkernels run {operator_of(names).experiment(ladder.name)}` makes them anew",
            soft_wrap=True,
        )
    console.print(tables.gates(row for row in rows if row["kind"] == "gate"))
    show_failures(rows)
    keys = {techniques.key(techniques.get(name)) for name in wanted}
    if later := [name for name in matrix.not_graded(matrix.cells([])) if name in keys]:
        console.print(f"not graded yet, what each language can say of {', '.join(later)}", soft_wrap=True)
    print(drawn())
    raise typer.Exit(tables.failed(rows))


@contextmanager
def leaving_a_site() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        print(drawn())
        raise


def _work(
    ladder: NamedExperiment, names: Names, everything: bool, place: str, description: Row, hashes: Hashes
) -> tuple[list[Row], int]:
    """The rows of a report, old ones that count among them, and how many of these there are."""
    from harness.inspection import survey
    from harness.rows.reusable import ReusableRows

    wanted = ladder.techniques
    known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    if place == "gpu" and not names:
        for page in first_page(ladder, description, known):
            console.print(f"{page} shows what was timed here; the other pages follow", soft_wrap=True)
        known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    if not names and not (SITE / "data.html").is_file():
        console.print(f"{drawn()} shows recorded rows; what is computed here joins them", soft_wrap=True)
    if names:  # their pages at once, from one build of each; the rest of what they are made of follows
        from reports.data import names as pages

        looked_at(survey.cells(wanted, ladder.backends, ladder.problems[:1], (survey.MEASURED,)), description, known)
        for page in drawn_first([pages.page_of(techniques.get(name)) for name in wanted]):
            console.print(str(page), soft_wrap=True)
        known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    read, fresh = looked_at([*survey.survey(ladder, everything), *survey.on_cpu(wanted)], description, known)
    with Progress() as progress:
        progress.say("computing on this CPU what pages draw beside rows")
        for operator in operators.every():
            if operator.pictures:
                operator.pictures()
    if fresh and not names and everything:  # else the rest takes minutes
        drawn()
    code = [row for row in read if row["kind"] == "code"]
    console.print(f"{sum(row['status'] == 'passed' for row in code)} of {len(code)} kernels compiled")
    experiment = ladder if everything else replace(ladder, problems=ladder.problems[:1])
    if place == "cpu":
        experiment = correctness(operator_of(names), place, wanted, techniques.TWINS)
        experiment = experiment if everything else replace(experiment, problems=experiment.problems[:1])
    launches = ON_A_CPU if everything else {**ON_A_CPU, "repeats": len(ON_A_CPU["scheduler_seeds"])}
    gate = launches if place == "cpu" else {}
    ran: list[Row] = []
    for problem in experiment.problems:  # one at a time: what is done of it is on the pages if the rest is not
        ran += measured(replace(experiment, problems=(problem,)), place, known, gate=gate)
    about = {"experiment": experiment.name, "on": place}
    stems = {None, *(name.rpartition("/")[2] for name in wanted)}
    reused = [row for row in known.rows if about.items() <= row.items() and row.get("technique") in stems]
    return [*read, *reused, *ran], len(reused) + len(read) - fresh


def first_page(ladder: NamedExperiment, description: Row, known: ReusableRows) -> list[Path]:
    """Times what the first page's bars show, less libraries that compile themselves, and draws it; returns its path."""
    from harness.catalog import architectures
    from harness.catalog.cases import of_experiment
    from harness.rows import fastest

    of = operators.of(ladder.problems[0])
    arch = architectures.of_capability(description["gpu"]["capability"][0])
    best = {problem: fastest.of_each_series(RECORDED, arch, problem) for problem in ladder.problems}
    cases = [
        case
        for case in of_experiment(ladder, results.slug_of(description["gpu"]))
        if (case.is_peer and case.backend not in of.compiling_peers)
        or (case.technique, case.backend) in best[case.problem]
    ]
    if not any(case.technique for case in cases):
        return []
    console.print(f"timing first what the first page shows: {', '.join(map(str, cases))}", soft_wrap=True)
    measured(ladder, "gpu", known, selected=cases)
    return drawn_first(["index.html"])


def measured(experiment: NamedExperiment, place: str, known: ReusableRows, **options: Any) -> list[Row]:
    """Runs an experiment into a file of its own, but for what `known` rows say of it; returns the rows."""
    from harness.measure import runner

    path = run_file(experiment.name)
    ran = runner.run(experiment, on=place, path=path, reusable=[*known.environments, *known.rows], **options)
    if all(row["kind"] == "environment" for row in ran):
        path.unlink(missing_ok=True)
    return ran


def looked_at(cells: Sequence[Cell], description: Row, known: ReusableRows) -> tuple[list[Row], int]:
    """What compilers and the CPU make of the cells, as rows on disk, and how many of them are not `known`."""
    from harness.inspection import survey

    found = {cell: known.find(survey.row(cell, {})) for cell in cells}
    todo = [cell for cell, row in found.items() if row is None]
    made = dict(zip(todo, inspected(todo), strict=True)) if todo else {}
    read = [row for cell in cells if (row := found[cell] or made.get(cell))]
    fresh = [row for row in read if "environment" not in row]
    if fresh:
        write_run(run_file("inspect"), description, fresh)
    return read, len(fresh)


def drawn() -> Path:
    """Builds the site from all rows that there are and returns the path of its first page."""
    from reports import build as site

    with Progress() as progress:
        progress.say("drawing the site from the rows that there are")
        return site.build(SITE, progress=partial(progress.count, "pages"))


def drawn_first(pages: Sequence[str]) -> list[Path]:
    """Builds these pages alone, into the site that is there, and returns their paths."""
    from reports import build as site

    with Progress() as progress, TemporaryDirectory() as folder:
        progress.say(f"drawing {', '.join(pages)}")
        site.build(Path(folder, "site"), only=pages, progress=partial(progress.count, "pages"))
        shutil.copytree(Path(folder, "site"), SITE, dirs_exist_ok=True)
    return [SITE / page for page in pages if (SITE / page).is_file()]
