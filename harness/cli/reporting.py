"""report, scorecard, compare: what the rows say."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from harness.catalog import techniques
from harness.catalog.problem import MODES, Experiment
from harness.catalog.sources import ROOT
from harness.cli.inspecting import inspected
from harness.cli.measuring import ON_A_CPU, correctness
from harness.cli.options import (
    AsJson,
    Names,
    bad_usage,
    chosen,
    completing,
    experiments,
    load_experiment,
    refuse,
    require_known,
    require_words_of_cells,
    require_writable,
    split,
    where,
)
from harness.cli.output import RECORDED, RUNS, Row, console, run_file, show_failures, write_run
from harness.machine.progress import Progress
from harness.rows import results, tables

if TYPE_CHECKING:
    from harness.rows.reusable import ReusableRows

SITE = ROOT / "reports" / "site"
FEW = 8
"""Cells that a message names."""


def report(names: Names = None) -> None:
    """The main job: compile, check and inspect both twins, time them if there is a GPU, build the site.

    Where there is no site yet, it stands within a minute or so, from recorded rows. It is built anew when all is
    compiled, and at the end. With names, only these techniques are looked at. What an earlier report or run did with
    the same kernels, compilers and harness is not done again. The site is built whatever failed; the exit code says
    that it did.
    """
    wanted = chosen(names)

    from harness.expressibility import matrix
    from harness.machine import environment
    from harness.measure import runner
    from harness.rows import results
    from harness.rows.reading import checkout_hashes
    from harness.rows.reusable import ReusableRows

    place = where(None)
    description, hashes = environment.describe(), checkout_hashes()
    known = ReusableRows(results.fresh_runs(RUNS), description, hashes)
    if not (SITE / "index.html").is_file():
        console.print(f"{drawn()} shows recorded rows; what is computed here joins them", soft_wrap=True)
    ladder = replace(load_experiment("ladder"), techniques=wanted)
    read, fresh = looked_at(ladder, description, known)
    if fresh and not names:
        drawn()
    code = [row for row in read if row["kind"] == "code"]
    console.print(f"{sum(row['status'] == 'passed' for row in code)} of {len(code)} kernels compiled")
    experiment = ladder if place == "gpu" else correctness(place, wanted, techniques.TWINS)
    path = run_file(experiment.name)
    gate = ON_A_CPU if place == "cpu" else {}
    ran = runner.run(experiment, on=place, path=path, standing=[*known.environments, *known.rows], gate=gate)
    if all(row["kind"] == "environment" for row in ran):
        path.unlink(missing_ok=True)
    about = {"experiment": experiment.name, "on": place}
    stand = [row for row in known.rows if about.items() <= row.items() and row.get("technique") in (*wanted, None)]
    if count := len(stand) + len(read) - fresh:
        console.print(
            f"{count} rows of earlier reports and runs stand: same kernels, compilers and harness. "
            f"`twinkernels run {experiment.name}` makes them anew",
            soft_wrap=True,
        )
    rows = [*read, *stand, *ran]
    console.print(tables.gates(row for row in rows if row["kind"] == "gate"))
    show_failures(rows)
    if later := [name for name in matrix.not_graded(matrix.cells([])) if name in wanted]:
        console.print(f"not graded yet, what each language can say of {', '.join(later)}", soft_wrap=True)
    print(drawn())
    raise typer.Exit(tables.failed(rows))


def looked_at(ladder: Experiment, description: Row, known: ReusableRows) -> tuple[list[Row], int]:
    """What compilers and the CPU make of the ladder's techniques, as rows, and how many of them are fresh: those that
    are not `known`. They are on disk."""
    from harness.inspection import survey
    from harness.operators.attention import structured_heads

    cells = [*survey.survey(ladder), *survey.on_cpu(ladder.techniques)]
    found = {cell: known.find(survey.row(cell, {})) for cell in cells}
    todo = [cell for cell, row in found.items() if row is None]
    made = dict(zip(todo, inspected(todo), strict=True)) if todo else {}
    read = [row for cell in cells if (row := found[cell] or made.get(cell))]
    with Progress() as progress:
        progress.say("computing on this CPU: attention and errors of structured heads")
        structured_heads.update()
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


def compare(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", exists=True, help="Rows of the baseline: a file or a folder.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", exists=True, help="Rows to judge.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--technique", help="Only its cases, or those of a kernel of your own; repeat for several."),
    ] = None,
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="Only cases whose kernel, compiler or library is another in NEW.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Merge NEW into the baseline; refused where a case would be lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """SAME, FASTER, SLOWER, AMBIGUOUS, MISSING per case; exit 1 on SLOWER or MISSING, 2 when not comparable.

    Judged are the time and the ratio to the library peers of the same interleaved group; what both may move by though
    nothing changed comes from recorded replicates, on one board or on two. What is SAME is only counted.
    """
    from harness.rows import compare as comparison

    rungs, own_kernels = split(names)
    if accept:
        refuse("--accept", "it takes NEW whole", {"--technique": names, "--only-changed": only_changed})
    raise typer.Exit(
        comparison.main(
            base,
            new,
            RECORDED,
            accept=accept,
            as_json=as_json,
            techniques=(*own_kernels, *(chosen(rungs) if rungs else ())),
            only_changed=only_changed,
            console=console,
        )
    )


def history(
    words: Annotated[
        list[str], typer.Argument(metavar="CELL", help="Backend, technique, problem, tile: as many as tell it.")
    ],
    experiment: Annotated[
        str, typer.Option(help="Whose recorded rows.", autocompletion=completing(experiments()))
    ] = "ladder",
    gpu: Annotated[str, typer.Option(help="A folder of reports/recorded.")] = "h200",
    mode: Annotated[str, typer.Option(help="burst or sustained: how it was timed.")] = "burst",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for change-point tools; of one cell.")] = False,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw it: an .svg file.")] = None,
    as_json: AsJson = False,
) -> None:
    """One cell over the commits at which it was recorded: time, ratio to its group's anchor, board."""
    from harness.rows import history as past

    require_known("--mode", [mode], MODES)
    if not any(word.split() for word in words):
        raise typer.BadParameter("CELL: got no word, expected some of backend, technique, problem and tile")
    refuse("--json", "one output is one format", {"--csv": as_json and as_csv})
    if plot:
        if plot.suffix != ".svg":
            raise typer.BadParameter(f"--plot: got {str(plot)!r}, expected a file that ends in .svg")
        require_writable("--plot", plot.parent)
    given = [word for each in words for word in each.split()]
    require_known("--gpu", [gpu], sorted({name for name, _ in results.iter_recorded(RECORDED)}))
    require_known("--experiment", [experiment], sorted({path.parent.name for path in results.recorded(RECORDED, gpu)}))
    require_words_of_cells(given, past.words(RECORDED / gpu, experiment))
    with bad_usage(), Progress() as progress:
        progress.say(f"reading {experiment} at every commit that changed it")
        rows = past.recorded(RECORDED / gpu, experiment, partial(progress.step, "commits"))
    found = past.points(rows, given, mode)
    if not found:
        told = f"but no {mode} timing of {experiment} that is recorded has these words"
        raise typer.BadParameter(f"CELL: got {' '.join(words)!r}, {told}")
    if len(found) > 1 and (as_csv or plot):
        shown = "; ".join(list(found)[:FEW]) + ("; ..." if len(found) > FEW else "")
        raise typer.BadParameter(f"CELL: got {' '.join(words)!r}, expected one cell of these {len(found)}: {shown}")
    if as_csv:
        print(past.to_csv(next(iter(found.values()))), end="")
    elif as_json:
        print(json.dumps({name: [asdict(point) for point in points] for name, points in found.items()}, indent=1))
    else:
        for name, points in found.items():
            table = Table("time", "commit", "board", "source", "ms", "TFLOPS", "time / anchor's", title=name)
            for point in points:
                numbers = (f"{point.ms:.4f}", f"{point.tflops:.1f}", f"{point.ratio:.3f}" if point.ratio else "")
                names = (point.time, point.commit or "", point.board or "", point.source or "")
                table.add_row(*names, *numbers)
            console.print(table)
    if plot:
        from reports.draw import history as drawing

        name, points = next(iter(found.items()))
        plot.write_text(drawing.draw(name, points))
        console.print(f"wrote {plot}", soft_wrap=True)
