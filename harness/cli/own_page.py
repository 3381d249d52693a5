"""--report: one page about a kernel of the user's, beside the file of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.catalog.cases import Case
from harness.cli.output import RECORDED, Row
from harness.rows import making

Report = Annotated[
    bool,
    typer.Option("--report", help="Write a page about your kernel: speed, error, machine code, what next."),
]
ARCH = "sm_90a"
"""What a .cu file is compiled for where there is no GPU: the recorded rows are of this one."""


def write(rows: Sequence[Row], cases: Iterable[Case], path: Path) -> None:
    """Writes the page beside `path`, the file of the rows, and says where."""
    from reports.build import own_page

    compiled = {row["kernel"] for row in rows if row.get("kernel") and row.get("code")}
    mine: dict[str, Case] = {}
    for case in cases:
        if case.kernel and case.kernel.function is None and case.kernel.name not in compiled:
            mine.setdefault(case.kernel.name, case)
    target = path.with_suffix(".html")
    own_page([*rows, *map(_compiled, mine.values())], target, RECORDED)
    typer.echo(f"{target} is its page", err=True)


def _compiled(case: Case) -> Row:
    """A row of kind code: what nvcc makes of the user's .cu file, and the bank conflicts that a CPU counts."""
    from harness.inspection import memory
    from harness.machine.environment import headline
    from harness.measure import effort
    from harness.variants import CompileError, LaunchError, Unsupported, compiling

    about = making.about(case, on="cpu", source_sha256=None, arch=ARCH)
    try:
        row = {**about, "kind": "code", "status": "passed", **compiling.inspect(case, ARCH)}
    except RuntimeError as error:  # it does not compile, or there is no compiler
        return {**about, "kind": "code", "status": "compile_error", "reason": headline(str(error))}
    try:
        counted = memory.count(replace(case, problem=effort.smaller(case.problem)))
        row["details"] = {"totals": counted["details"]["totals"]}
    except (Unsupported, CompileError, LaunchError):
        pass  # the gate's row says what is wrong with it
    return row
