"""expressibility: what each language can say, shown by compiling. No GPU needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from harness.catalog import techniques
from harness.cli.options import AsJson, missing, refuse, require_known, technique_called
from harness.cli.output import RECORDED, console, run_file, shown, write_run
from harness.machine.progress import Progress
from harness.rows import results

if TYPE_CHECKING:
    from harness.expressibility import matrix
    from harness.expressibility.claims import Claim
    from harness.expressibility.survey import Todo
    from harness.expressibility.verdicts import Verdict

SIGNS = {"proven": "[green]✓[/]", "refuted": "[red]✗[/]", "broken": "[yellow]![/]", "not run": "·"}

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="A technique, a probe or a proof; all of them by default.")
]


def expressibility(
    name: Name = None,
    triton: Annotated[
        list[str] | None, typer.Option(help="Compile with this Triton; repeat for several. Default: the installed one.")
    ] = None,
    rivals: Annotated[bool, typer.Option("--rivals", help="Show CuTe DSL and cuTile.")] = False,
    only_missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="Run only proofs without a current row, by default in every Triton that is here, and write rows.",
        ),
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Download missing compilers.")] = False,
    only_recorded: Annotated[
        bool, typer.Option("--recorded", help="Show what recorded rows prove; compile nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what each language can express of each technique, proven by compiling. Needs no GPU.

    With a NAME it shows what was compiled, what was found in it, and what was found in the control. Without one it
    shows the whole matrix of core Triton, Gluon, TLX and CUDA, or with --rivals that of CuTe DSL and cuTile.
    """
    from harness.build import tritons
    from harness.expressibility import matrix, survey

    if rivals:
        refuse("--rivals", "it is a whole table, and no Triton compiles it", {"NAME": name, "--triton": triton})
    if only_recorded:
        others = {"NAME": name, "--triton": triton, "--missing": only_missing, "--install": install, "--json": as_json}
        refuse("--recorded", "it shows the whole table", others)
        show_matrix(known_rows(), rivals=rivals)
        raise typer.Exit
    releases = matrix.VERSIONS["triton"]
    versions = triton or (releases if only_missing else [tritons.installed() or releases[0]])
    require_known("--triton", versions, releases)
    technique = None
    if name and any(kernel.name == name.rpartition("/")[2] for kernel in techniques.kernels()):
        technique = technique_called(name)
        name = techniques.key(technique)
    both = (*matrix.claims(), *matrix.claims_of_rivals())
    claims: Sequence[Claim]
    if name is None:
        claims = matrix.claims_of_rivals() if rivals else matrix.claims()
    elif not (claims := [claim for claim in both if concerns(claim, name)]):
        if technique:
            where = f"a Claim in harness/operators/{technique.operator}/claims grades it"
            console.print(f"{name} is not graded yet: {where}", soft_wrap=True)
            raise typer.Exit
        known = {proof.name for claim in both for proof in claim.proofs} | {claim.technique for claim in both}
        require_known("NAME", [name], sorted(known | probes()), "`twinkernels expressibility`")
    asked = survey.todo(claims, (*versions, "", *(matrix.VERSIONS[rival][0] for rival in matrix.RIVALS)))
    if name is not None:
        asked = [each for each in asked if each[1].name == name] or asked
    if only_missing and not (asked := survey.without_row(asked, known_rows())):
        console.print("every proof has a current row")
        raise typer.Exit
    left_out = ""
    if not install and (name is not None or only_missing):
        asked = without_missing(asked)
    elif not install and all(map(tritons.is_here, triton or ())):  # else it ends with what it needs
        asked, left_out = compiled_here(asked)
    found = judged(asked, install) if asked else []
    keep = found and (name is None or only_missing)
    rows = written(found) if keep else [survey.row(*each) for each in found]
    if as_json:
        print(json.dumps(rows, indent=1))
    elif name is None:
        show_matrix([*known_rows(), *rows], rivals=rivals)
    else:
        for each in found:
            console.print(*explained(*each), sep="\n", soft_wrap=True, highlight=False)
    if left_out:
        typer.echo(left_out, err=True)
    raise typer.Exit(any(row["status"] != "passed" for row in rows))


def show_matrix(rows: Sequence[Mapping[str, Any]], *, rivals: bool) -> None:
    """The table of all cells, and how many of them these rows prove."""
    from harness.expressibility import matrix

    cells = (matrix.rivals if rivals else matrix.cells)(rows)
    console.print(table(cells, matrix.RIVALS if rivals else matrix.DIALECTS))
    done, every = matrix.proven(cells)
    console.print(f"{done} of {every} cells are proven in every version of their column")
    if later := matrix.not_graded(cells):
        console.print(f"not graded yet: {', '.join(later)}", soft_wrap=True)


def concerns(claim: Any, name: str) -> bool:
    """Whether a claim is about the technique, the probe or the proof of this name."""
    programs = [program for proof in claim.proofs for program in (proof.subject, proof.control)]
    return name in {claim.technique, *(proof.name for proof in claim.proofs)} or any(
        name == getattr(program, "name", None) for program in programs
    )


def probes() -> set[str]:
    from harness.catalog.sources import ROOT

    return {path.stem for path in (ROOT / "triton_kernels" / "probes").glob("[a-z]*.py")}


def known_rows() -> list[dict[str, Any]]:
    return results.read_recorded(RECORDED, results.COMPILERS, "expressibility")


def judged(asked: Sequence[Todo], install: bool) -> list[tuple[Todo, Verdict]]:
    """Verdicts in the order of `asked`, with progress. Installs compilers that are missing, or ends with what to do."""
    from harness.build import tritons
    from harness.expressibility import survey

    for version, dialect in sorted(set().union(*map(needed, asked))):
        if not tritons.is_here(version, dialect):
            if not install:
                try:
                    tritons.variables(version, dialect)
                except tritons.MissingTriton as error:
                    missing(str(error))
            size = tritons.megabytes(version, dialect)
            console.print(f"installing {tritons.name(version, dialect)}" + (f", {size} MB" if size else ""))
            tritons.install(version, dialect)
    found = {}
    with Progress() as progress:
        progress.say(f"compiling for {len(asked)} proofs; a second time they come from build/")
        for each, verdict in survey.run(asked):
            found[each] = verdict
            progress.count("proofs", len(found), len(asked), each[1].name)
    return [(each, found[each]) for each in dict.fromkeys(asked)]


def needed(each: Todo) -> set[tuple[str, str]]:
    """The compilers of a proof, (version, dialect): the one under examination, and those that its programs name."""
    claim, proof, version = each
    named = {
        (own, getattr(program, "dialect", None) or "triton")
        for program in (proof.subject, proof.control)
        if (own := getattr(program, "version", None))
    }
    return named | ({(version, claim.dialect)} if version else set())


def without_missing(asked: list[Todo]) -> list[Todo]:
    """Those whose compilers are here, where there are such; the others are named, with what they need."""
    from harness.build import tritons

    lacking = {each: not_here(each) for each in asked}
    here = [each for each in asked if not lacking[each]]
    if not here:
        return asked
    for (_, proof, _), needs in lacking.items():
        if needs:
            names = " and ".join(tritons.name(*one) for one in needs)
            console.print(f"not run: {proof.name} needs {names}; add --install", soft_wrap=True, highlight=False)
    return here


def compiled_here(asked: Sequence[Todo]) -> tuple[list[Todo], str]:
    """Those whose compilers are here, and a line about the others, whose recorded verdicts are shown all the same."""
    from harness.build import tritons

    needs = {each: not_here(each) for each in asked}
    here = [each for each in asked if not needs[each]]
    # Triton and Gluon are one package.
    lacking = {tritons.name(*one): one for one in sorted({one for found in needs.values() for one in found})}
    names = " and ".join(lacking)
    size = sum(tritons.megabytes(*one) or 0 for one in lacking.values())
    count = len(asked) - len(here)
    line = f"shown as recorded: {count} proofs need {names}, not here; --install downloads that ({size} MB)"
    return here, line if count else ""


def not_here(each: Todo) -> list[tuple[str, str]]:
    """The compilers of a proof that are not on this machine."""
    from harness.build import tritons

    return sorted(one for one in needed(each) if not tritons.is_here(*one))


def written(found: Iterable[tuple[Todo, Verdict]]) -> list[dict[str, Any]]:
    from harness.expressibility import survey
    from harness.machine import environment

    path = run_file("expressibility")
    rows = write_run(path, environment.describe(), (survey.row(*each) for each in found))
    console.print(f"`twinkernels record {shown(path)}` keeps it", soft_wrap=True)
    return rows


def table(cells: Iterable[matrix.Cell], dialects: Mapping[str, str]) -> Table:
    """Technique by dialect: the grade of the newest version, its fault, and a sign for each version."""
    from harness.expressibility.claims import VERSIONS

    heads = [f"{title}\n{' '.join(VERSIONS[dialect])}".strip() for dialect, title in dialects.items()]
    columns = Column("technique", no_wrap=True), *(Column(head, overflow="fold") for head in heads)
    shown = Table(*columns, title="What each language can say", title_justify="left")
    by_technique: dict[str, list[matrix.Cell]] = {}
    for cell in cells:
        by_technique.setdefault(cell.technique, []).append(cell)
    for technique, row in by_technique.items():
        shown.add_row(technique, *(said(cell) for cell in row))
    return shown


def said(cell: matrix.Cell) -> Text:
    grades = dict.fromkeys(
        " ".join(filter(None, (mark.grade, mark.fault and f"({mark.fault})")))
        for mark in cell.marks.values()
        if mark.grade
    )
    signs = " ".join(SIGNS.get(mark.state, " ") for mark in cell.marks.values())
    return Text.from_markup(f"{' / '.join(grades)} {signs}")


def explained(each: Todo, verdict: Verdict) -> list[str]:
    """One proof as lines of text."""
    from harness.expressibility import matrix

    claim, proof, version = each
    fault = f", {claim.fault}" if claim.fault else ""
    shown = matrix.Shown(proof, version, verdict.state, verdict.reason)
    return [
        "",
        f"{proof.name}: {proof.shows}",
        f"  {claim.technique} in {matrix.backend(claim.dialect, version)}: {claim.grade}{fault}. {claim.says}",
        f"  source   {shown.file}  ({proof.subject.label})",
        f"  control  {shown.control_file}  ({proof.control.label})",
        f"  looked   in {proof.detector.text} for {proof.detector.pattern}",
        *(f"  subject  {line}" for line in verdict.lines or ["nothing found"]),
        *(f"  control  {line}" for line in verdict.control_lines or ["nothing found"]),
        f"  again    {shown.command}",
        *([f"  alone    {shown.alone}"] if shown.alone else []),
        f"  verdict  {verdict.state}" + (f": {verdict.reason}" if verdict.reason else ""),
    ]
