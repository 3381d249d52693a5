"""report, record, scorecard, compare: what the rows say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from harness import tables, techniques
from harness.cli.inspecting import inspected
from harness.cli.measuring import correctness
from harness.cli.options import AsJson, Names, chosen, load_experiment, where
from harness.cli.output import RECORDED, RUNS, console, run_file, show_failures
from harness.sources import ROOT

SITE = ROOT / "reports" / "site"


def report(names: Names = None) -> None:
    """The main job: compile, check and inspect both twins, time them if there is a GPU, build the site.

    With names, only these techniques are done anew. The site is built whatever failed; the exit code says that it did.
    """
    from harness import environment, inspection, outputs, results, runner, structured_heads
    from reports import build as site

    place = where(None)
    wanted = chosen(names)
    ladder = replace(load_experiment("ladder"), techniques=wanted)
    description = environment.describe()
    name = results.environment_id(description)
    with results.Writer(run_file("inspect")) as writer:
        writer.write({"kind": "environment", "id": name, "on": "cpu", "details": description})
        survey = inspected([*inspection.survey(ladder), *inspection.counted(wanted)])
        survey.append(structured_heads.row())
        survey += [row for folder in sorted(RECORDED.glob("*/outputs")) for row in outputs.held(wanted, folder)]
        for row in survey:
            writer.write({**row, "environment": name})
    code = [row for row in survey if row["kind"] == "code"]
    console.print(f"{sum(row['status'] == 'passed' for row in code)} of {len(code)} kernels compiled")
    experiment = ladder if place == "gpu" else correctness(place, wanted, techniques.TWINS)
    rows = [*survey, *runner.run(experiment, on=place, path=run_file(experiment.name))]
    console.print(tables.gates(row for row in rows if row["kind"] == "gate"))
    show_failures(rows)
    print(site.build(SITE))
    raise typer.Exit(tables.failed(rows))


def record(
    runs: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False)],
) -> None:
    """Merge runs into reports/recorded/, from which machines without a GPU report, and redraw README's figures."""
    from harness import record as recorded
    from reports import figures

    try:
        files = dict.fromkeys(path for run in runs for path in recorded.record(run, RECORDED))
    except ValueError as refusal:  # a file that holds no rows, or rows that are not recorded
        raise typer.BadParameter(str(refusal)) from None
    for path in [*files, *figures.readme(ROOT / "reports" / "figures")]:
        console.print(f"wrote {path.relative_to(ROOT)}", soft_wrap=True)


def scorecard(as_json: AsJson = False) -> None:
    """The promised ratios, from recorded rows and from fresh ones."""
    from harness import results
    from harness.scorecard import scorecard as compute

    files = [path for _, path in results.iter_recorded(RECORDED)] + sorted(RUNS.glob("*.jsonl"))
    card = compute(row for path in files for row in results.read(path))
    if as_json:
        print(json.dumps(card, indent=1))
        return
    table = Table(
        *(Column(name, overflow="fold") for name in ("ratio", "GPU", "value", "worst cell")), box=box.SIMPLE_HEAD
    )
    for entry in card["entries"]:
        value = f"{entry['value']:.3f}" if entry["value"] else f"incomplete: {entry['reason']}"
        name = f"{entry['name']} (theirs quoted)" if entry["quoted"] else entry["name"]
        table.add_row(name, entry["gpu"], value, entry["worst_cell"] or "")
    console.print(table)


def compare(
    base: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Rows of the baseline.")],
    new: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Rows to judge.")],
    accept: Annotated[bool, typer.Option("--accept", help="Let NEW take the baseline's place.")] = False,
) -> None:
    """SAME, FASTER, SLOWER, AMBIGUOUS, MISSING per case; exit 1 on SLOWER or MISSING, 2 when not comparable."""
    from harness import compare as comparison

    raise typer.Exit(comparison.main(base, new, accept, console))
