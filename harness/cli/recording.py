"""record: runs are kept, and recorded rows stay true when sources move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.catalog import techniques
from harness.catalog.sources import ROOT
from harness.cli.options import NAMES, bad_usage, chosen, refuse_without
from harness.cli.output import RECORDED, console


def record(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="FILE", exists=True, dir_okay=False)] = None,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Compile, here, what rows of earlier sources measured: of equal machine code, they count."
        ),
    ] = False,
    names: Annotated[list[str] | None, typer.Option("--technique", help="With --renew: only its rows.")] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW[:BACKEND,...]",
            help="A rung's rows, tiles and notes take its new name, or those of some backends alone.",
        ),
    ] = None,
) -> None:
    """Merge runs into reports/recorded/, from which machines without a GPU report, and redraw README's figures.

    --renew needs no GPU. A commit's kernels are compiled anew where no row tells what machine code was measured. Rename
    the kernel's files and its entry in the registry first, then --rename its rows, and --renew them.
    """
    from harness.expressibility import matrix
    from harness.rows import record as recorded
    from reports.draw import readme

    if not (runs or renew or rename):
        raise typer.BadParameter("FILE: got none, expected runs of reports/runs/, --renew or --rename")
    if not renew:
        refuse_without("--renew", "a run is recorded whole", {"--technique": names})
    with bad_usage():  # a file that holds no rows, or rows that are not recorded
        files = dict.fromkeys(path for names in rename or () for path in renamed(names))
        files |= dict.fromkeys(recorded.record(runs, RECORDED, matrix.proofs()) if runs else ())
    if renew:
        files |= dict.fromkeys(renewed(chosen(names)))
    for path in [*files, *readme.write_all(ROOT / "reports" / "figures")]:
        console.print(f"wrote {path.relative_to(ROOT)}", soft_wrap=True)


def renamed(names: str) -> list[Path]:
    """OLD=NEW[:BACKEND,...]: moves what is recorded about a technique and returns the files that changed."""
    from harness.operators.attention import tiles
    from harness.rows import record as recorded
    from harness.rows.rename import rename_in_note

    old, _, rest = names.partition("=")
    new, _, some = rest.partition(":")
    backends = tuple(some.split(",")) if some else ()
    if new not in NAMES or (old in NAMES) != bool(backends) or not set(backends) <= set(techniques.SERIES):
        raise typer.BadParameter(
            f"--rename: got {names!r}, expected OLD=NEW with NEW in the registry and OLD not, or OLD=NEW:BACKEND,... "
            f"with both in it and of {', '.join(techniques.SERIES)}; rename the files and the entry of the kernel first"
        )
    files, count = recorded.rename(RECORDED, old, new, backends)
    console.print(f"{count} rows of {old} are {new}'s")
    for table in sorted(tiles.FOLDER.glob("*.toml")):
        tiles.rename(table, old, new, backends)
    for note in sorted((ROOT / "reports" / "notes" / "attention").glob("*.md")):
        text = rename_in_note(note.read_text(), old, new, backends)
        moves = note.stem == old and not backends
        if text != note.read_text() or moves:
            path = note.with_stem(new) if moves else note
            note.rename(path).write_text(text)
            files.append(path)
    return files


def renewed(names: Sequence[str]) -> list[Path]:
    """Compares recorded rows of earlier sources with this checkout, says what became of them, and returns the files
    that changed."""
    from harness.machine.progress import Interrupts, Progress
    from harness.rows import record as recorded
    from harness.rows import renew
    from harness.rows.reading import checkout_hashes
    from harness.variants.recompiling import compile_all, identify_all

    with Interrupts() as interrupts, Progress() as progress:

        def compile(programs: Sequence[renew.Program]) -> Iterator[tuple[renew.Program, str | renew.Unknown]]:
            progress.say(f"{len(programs)} programs of recorded rows and of this checkout are compared")
            answers = compile_all(programs, stop=lambda: interrupts.requested)
            for done, (program, answer) in enumerate(answers, 1):
                label = f"{program.technique} {program.backend} {program.tile.slug}"
                progress.count("compile", done, len(programs), label)
                yield program, answer
            if interrupts.requested:  # what was compiled is kept, and the next call goes on
                raise typer.Exit(interrupts.exit_code)

        files, outcome = recorded.renew(RECORDED, checkout_hashes(), compile, names, identify_all)
    console.print(f"{outcome.renewed} rows renewed; {outcome.different} are of other machine code")
    for reason, count in outcome.unknown.most_common():
        console.print(f"{count} rows not compared: {reason}", soft_wrap=True)
    return files
