"""What a file of experiments/ says to --help: python -m harness.cli.script experiments/<operator>/ladder.py run"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import typer

from harness.catalog.sources import ROOT
from harness.cli import app


def explain(script: str, command: str) -> None:
    """Its question, its own usage, and the options of its command; that of `run` is given its experiment."""
    found = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    question = ast.get_docstring(ast.parse((ROOT / script).read_text())) or ""
    remark = "Without a GPU and without options it prints what is recorded." if command == "run" else found.help or ""
    found.help = f"{question}\n\n{remark}"
    found.params = [parameter for parameter in found.params if parameter.name != "experiment"]
    found.main(["--help"], prog_name=f"python {Path(script)}")


if __name__ == "__main__":
    explain(*sys.argv[1:])
