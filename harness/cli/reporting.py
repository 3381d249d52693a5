"""report, scorecard, compare: what the rows say."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

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
from harness.cli.output import RUNS, Row, console, run_file, show_failures, write_run
from harness.machine.progress import Progress
from harness.rows import results, tables

if TYPE_CHECKING:
    from harness.inspection.survey import Cell
    from harness.rows.reusable import ReusableRows

SITE = ROOT / "reports" / "site"
FEW = 8
"""Cells that a message names."""


def report(
    names: Names = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All problems and architectures; without it, one each.")
    ] = False,
) -> None:
    """Compile, check and inspect the kernels, time them if there is a GPU, and build reports/site/index.html.

    The first site, from recorded rows, is there within a minute; what is computed here joins it. With names, only these
    techniques are looked at, and their pages are drawn first. Each kernel is compiled for one problem and architecture,
    and without a GPU checked on one problem; --all takes all of them. Work that an earlier report or run did with the
    same kernels and compilers is not repeated. The site is built even if a kernel fails; the exit code is 1 then.
    """
    wanted = chosen(names)

    from harness.expressibility import matrix
    from harness.inspection import survey
    from harness.machine import environment
    from harness.measure import runner
    from harness.rows.reading import checkout_hashes
    from harness.rows.reusable import ReusableRows

    place = where(None)
    description, hashes = environment.describe(), checkout_hashes()
    known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    if not names and not (SITE / "index.html").is_file():
        console.print(f"{drawn()} shows recorded rows; what is computed here joins them", soft_wrap=True)
    ladder = replace(load_experiment(operator_of(names).experiment("ladder")), techniques=wanted)
    if names:  # their pages at once, from one build of each; the rest of what they are made of follows
        looked_at(survey.cells(wanted, ladder.backends, ladder.problems[:1], (survey.MEASURED,)), description, known)
        for page in drawn_first(wanted):
            console.print(str(page), soft_wrap=True)
        known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    read, fresh = looked_at([*survey.survey(ladder, everything), *survey.on_cpu(wanted)], description, known)
    with Progress() as progress:
        progress.say("computing on this CPU what pages draw beside rows")
        for operator in operators.every():
            if operator.pictures:
                operator.pictures()
    if fresh and not names and (everything or place == "gpu"):  # else the rest takes minutes
        drawn()
    code = [row for row in read if row["kind"] == "code"]
    console.print(f"{sum(row['status'] == 'passed' for row in code)} of {len(code)} kernels compiled")
    experiment = ladder
    if place == "cpu":
        experiment = correctness(operator_of(names), place, wanted, techniques.TWINS)
        experiment = experiment if everything else replace(experiment, problems=experiment.problems[:1])
    path = run_file(experiment.name)
    launches = ON_A_CPU if everything else {**ON_A_CPU, "repeats": len(ON_A_CPU["scheduler_seeds"])}
    gate = launches if place == "cpu" else {}
    ran = runner.run(experiment, on=place, path=path, reusable=[*known.environments, *known.rows], gate=gate)
    if all(row["kind"] == "environment" for row in ran):
        path.unlink(missing_ok=True)
    about = {"experiment": experiment.name, "on": place}
    reused = [row for row in known.rows if about.items() <= row.items() and row.get("technique") in (*wanted, None)]
    if count := len(reused) + len(read) - fresh:
        console.print(
            f"{count} rows of earlier reports and runs were used again: same kernels, compilers and harness. "
            f"`twinkernels run {experiment.name}` makes them anew",
            soft_wrap=True,
        )
    rows = [*read, *reused, *ran]
    console.print(tables.gates(row for row in rows if row["kind"] == "gate"))
    show_failures(rows)
    if later := [name for name in matrix.not_graded(matrix.cells([])) if name in wanted]:
        console.print(f"not graded yet, what each language can say of {', '.join(later)}", soft_wrap=True)
    print(drawn())
    raise typer.Exit(tables.failed(rows))


def looked_at(cells: Sequence[Cell], description: Row, known: ReusableRows) -> tuple[list[Row], int]:
    """What compilers and the CPU make of the cells, as rows, and how many of them are fresh: those that are not
    `known`. They are on disk."""
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


def drawn_first(names: Iterable[str]) -> list[Path]:
    """Builds the pages of these techniques alone, into the site that is there, and returns their paths."""
    from reports import build as site

    pages = [site.page_of(techniques.get(name)) for name in names]
    with Progress() as progress, TemporaryDirectory() as folder:
        progress.say(f"drawing {', '.join(pages)}")
        site.build(Path(folder, "site"), only=pages, progress=partial(progress.count, "pages"))
        shutil.copytree(Path(folder, "site"), SITE, dirs_exist_ok=True)
    return [SITE / page for page in pages if (SITE / page).is_file()]
