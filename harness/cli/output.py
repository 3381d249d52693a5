"""Where a command's rows go: a file of reports/runs/, tables in the terminal, JSON for a program."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import RenderableType

from harness.catalog.sources import ROOT
from harness.machine.terminal import Plain
from harness.rows import making, results, tables

RUNS = ROOT / "reports" / "runs"
RECORDED = ROOT / "reports" / "recorded"

console = Plain()
if not console.is_terminal and "COLUMNS" not in os.environ:
    console.width = 160  # of a pipe or a file: a row of a table stays one line, for grep
console.width = max(console.width, 40)  # some say 0, and a table of no width is no table
Row = dict[str, Any]


def run_name(experiment: str, shard: str | None = None) -> str:
    """How the file of a run ends: ladder, or ladder-2of4 for a shard."""
    return experiment + (f"-{shard.replace('/', 'of')}" if shard else "")


def run_file(name: str) -> Path:
    """A new file for this run. Its name has milliseconds: groups are named after it, and processes on several GPUs may
    begin in the same second."""
    begin = f"{datetime.now(UTC):%Y%m%d-%H%M%S%f}"[:-3]
    return RUNS / f"{begin}-{name}.jsonl"


def one_off_file(name: str) -> Path:
    """A new file for a command in passing (check, bench, inspect, tune ...)."""
    file = run_file(name)
    return file.parent / results.ONE_OFF / file.name


def write_run(path: Path, description: Mapping[str, Any], rows: Iterable[Row]) -> list[Row]:
    """Writes rows as a run (`description`: environment.describe()), and returns them without the environment's."""
    with results.Writer(path) as writer:
        name = writer.write(making.environment(description, "cpu"))["id"]
        return [writer.write({**row, "environment": name}) for row in rows]


def shown(path: Path) -> Path:
    """As it is told: from the folder that the command was called in, where it is in it, so that it can be copied."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show_failures(rows: Iterable[Row]) -> None:
    """What failed, in red, with the words of whoever found it."""
    for text in tables.failures(rows):
        console.print(text, style="red", highlight=False, soft_wrap=True)


def conclude(
    rows: list[Row],
    show: Callable[[list[Row]], RenderableType],
    *,
    as_json: bool = False,
    path: Path | None = None,
    log: Path | None = None,
    one_off: Path | None = None,
    checked: bool = False,
    done: str = "checked",
    named: bool = False,
) -> NoReturn:
    """Prints the rows of a finished run and exits. `path` is the run's file, where `record` may take it, `log` where
    kernels printed, `one_off` the file of times that are compared rather than kept. `checked`: at least one row must be
    of something that ran; where all was declined, nothing was `done`, and the exit code is 3. `named`: the user chose
    the problems."""
    from harness.rows import record as recorded

    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        console.print(show(rows))
        show_failures(rows)
        if log and tables.failed(rows) and log.is_file() and log.stat().st_size:
            console.print(f"{shown(log)} has what kernels printed, and tracebacks", soft_wrap=True)
        if path and recorded.is_recordable(rows):
            console.print(f"`twinkernels record {shown(path)}` keeps it", soft_wrap=True)
        if one_off:
            console.print(f"{shown(one_off)} has the rows: `twinkernels compare` takes two such files", soft_wrap=True)
    if checked and all(row["status"] == "unsupported" for row in rows):
        step = (
            "; `--problem` names one that it takes; inputs have padded strides"
            if any(row.get("kernel") for row in rows)
            else ""
        )
        typer.echo(
            f"nothing was {done}: " + (f"every cell was declined{step}" if rows else "no cell was chosen"), err=True
        )
        raise typer.Exit(3)
    raise typer.Exit(tables.exit_code(rows, named=named))
