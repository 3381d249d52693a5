"""A command in the test's own process: what it said and its rows, and all of that as text for a test that fails."""

import time
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from harness import cli
from harness.rows import results, schema

STOPPED = (130, 143)
"""Exit codes of a command that Ctrl-C or SIGTERM ended."""
TAIL = 6000
"""Characters of each text that a failure shows."""


@dataclass(frozen=True)
class Ran:
    """`log` is what its workers printed, `rows` are those that it wrote into `folder`; `error` is the traceback of what
    it raised."""

    arguments: tuple[str, ...]
    code: int
    said: str
    folder: Path
    log: str
    rows: list[dict]
    error: str
    seconds: float

    def of(self, kind: str, **fields: object) -> list[dict]:
        """The rows of a kind that have these fields."""
        return [row for row in self.rows if row["kind"] == kind and fields.items() <= row.items()]

    @property
    def told(self) -> str:
        """All that may say why a test failed."""
        names = ("kind", "backend", "kernel", "status", "check", "reason")
        rows = ["  ".join(str(row[name]) for name in names if row.get(name)) for row in self.rows]
        parts = {"it said": self.said, "its rows": "\n".join(rows), "its log": self.log, "it raised": self.error}
        shown = [f"--- {name}:\n{text.strip()[-TAIL:]}" for name, text in parts.items() if text.strip()]
        return "\n".join([f"{' '.join(self.arguments)}: exit code {self.code} in {self.seconds:.0f} s", *shown])


made = cache(typer.main.get_command)
"""What typer makes of the command line anew at every call, in 40 ms."""


def invoke(*arguments: str) -> tuple[int, str]:
    """Exit code and everything printed, unwrapped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", made)
        result = CliRunner(env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).invoke(cli.app, arguments)
    return result.exit_code, result.output


def run(folder: Path, *arguments: str) -> Ran:
    """Runs a command whose rows go to `folder`. A signal that ended the command was for pytest: it ends too, rather
    than call the test failed and go on."""
    begin = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.cli.output.RUNS", folder)
        done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, arguments)
    log = "".join(path.read_text(errors="replace") for path in sorted(folder.rglob("*.log")))
    rows = [row for path in sorted(folder.rglob("*.jsonl*")) for row in results.read(path, schema.check)]
    raised = done.exc_info if done.exception and not isinstance(done.exception, SystemExit) else None
    error = "".join(traceback.format_exception(*raised)) if raised else ""
    ran = Ran(arguments, done.exit_code, done.output, folder, log, rows, error, time.monotonic() - begin)
    if ran.code in STOPPED:
        pytest.exit(f"a signal stopped {ran.told}")  # the failures until then are shown
    return ran
