"""--report: one page about a kernel of the user's, beside the file of its rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import operators
from harness.catalog import own, sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Technique, Tile
from harness.cli.output import RECORDED, Row
from harness.machine.progress import Progress
from harness.rows import making

Report = Annotated[
    bool,
    typer.Option("--report", help="Write a page about your kernel: speed, error, machine code, what to try next."),
]
ARCH = "sm_90a"
"""What a .cu file is compiled for where there is no GPU: the recorded rows are of this one."""
LONGEST = 300.0
"""Seconds that nvcc has for a rung."""


def write(rows: Sequence[Row], cases: Sequence[Case], path: Path) -> None:
    """Writes the page beside `path`, the file of the rows, and says where."""
    from reports import build
    from reports.facts import resemblance
    from reports.pages import own as page

    mine: dict[str, Case] = {}
    for case in cases:
        if case.kernel and case.kernel.function is None:
            mine.setdefault(case.kernel.name, case)
    rows = [*rows, *(compiled(case) for name, case in mine.items() if page.code_of(name, rows) is None)]
    ladder = build.ladder(rows, RECORDED)
    codes = filter(None, (page.code_of(name, rows) for name in mine))
    beside = [rung for code in codes for rung in rungs(code, resemblance.candidates(code, ladder))]
    target = path.with_suffix(".html")
    build.own_page(rows, target, [*ladder, *beside])
    typer.echo(f"{target} is its page", err=True)


def rungs(row: Mapping[str, Any], candidates: Iterable[Technique]) -> list[Row]:
    """Rows of kind code: the rungs as the user's kernel was built. One that does not compile so is left out."""
    from harness.build import compiling
    from harness.machine import processes

    problem, tile = operators.problem_of(row["problem"], row.get("operator")), Tile.from_dict(row["tile"])
    jobs = {}
    for technique in candidates:
        taken = row["arch"] in techniques.ladder_of(technique).archs
        if taken and techniques.unsupported(technique, "cuda", problem, tile) is None:
            file = own.Kernel(sources.kernel_file("cuda", technique.path), None)
            jobs[Case(row["experiment"], None, own.BACKEND, problem, tile, file)] = technique
    found = []
    with Progress() as progress:
        built = processes.answers([(compiling.inspect, (case, row["arch"])) for case in jobs], {}, seconds=LONGEST)
        for done, ((_, (case, arch)), answer) in enumerate(built, 1):
            progress.step("rungs compiled at its tile", done, len(jobs), jobs[case].name)
            if not isinstance(answer, processes.NoAnswer):
                rung = replace(case, technique=jobs[case].name, backend="cuda", kernel=None)
                about = making.about(rung, on="cpu", source_sha256=None, arch=arch)
                found.append({**about, "kind": "code", "status": "passed", **answer})
    return found


def compiled(case: Case) -> Row:
    """A row of kind code: what nvcc makes of the user's .cu file, and the bank conflicts that a CPU counts."""
    from harness.build import CompileError, LaunchError, Unsupported, compiling
    from harness.inspection import survey
    from harness.machine.environment import headline

    about = making.about(case, on="cpu", source_sha256=None, arch=ARCH)
    try:
        row = {**about, "kind": "code", "status": "passed", **compiling.inspect(case, ARCH)}
    except RuntimeError as error:  # it does not compile, or there is no compiler
        return {**about, "kind": "code", "status": "compile_error", "reason": headline(str(error))}
    try:
        counted = survey.count(replace(case, problem=case.problem.smaller))
        row["details"] = {"totals": counted["details"]["totals"]}
    except (Unsupported, CompileError, LaunchError):
        pass  # the gate's row says what is wrong with it
    return row
