"""versions: did another Triton change a kernel? Compiles here; on a GPU it times what changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from harness.catalog import sources, techniques, tiles
from harness.catalog.entries import NamedExperiment, Tile
from harness.cli.options import (
    AsJson,
    Backends,
    NamesOrFiles,
    Problems,
    bad_usage,
    chosen,
    chosen_archs,
    chosen_backends,
    chosen_problems,
    chosen_tile,
    gpu_is_here,
    missing,
    operator_of,
    refuse,
    refuse_without,
    split,
)
from harness.cli.output import console, one_off_file, show_failures
from harness.rows import tables

if TYPE_CHECKING:
    from harness.expressibility.versions import Compiled, Difference, File, Twin

CHANGED = 3
"""Exit code when a program changed."""
ARCH = "sm_90a"
LANGUAGES = ("triton", "triton_native", "gluon")


def versions(
    names: NamesOrFiles = None,
    triton: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION,...",
            help="Compare the others with the first. Default: the installed one and the newest known.",
        ),
    ] = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="Compare with the newest Triton of the package index.")
    ] = False,
    backends: Backends = None,
    problem: Problems = None,
    tile: Annotated[
        str | None, typer.Option(help="A slug such as 128x128-s2-w8; by default the one that `tune` chose.")
    ] = None,
    signature: Annotated[
        str | None,
        typer.Option(
            help="Of FILE.py:KERNEL, for a file without run(): types of the parameters, multiples that they are, and "
            'values of constants, as in "*fp16:16, i32, 64".'
        ),
    ] = None,
    num_warps: Annotated[int | None, typer.Option(help="With --signature.")] = None,
    num_stages: Annotated[int | None, typer.Option(help="With --signature.")] = None,
    arch: Annotated[str, typer.Option(help="sm_80, sm_90a or sm_120a.")] = ARCH,
    as_json: AsJson = False,
) -> None:
    """Did another Triton change a kernel? Needs no GPU; exit code 3 if a program changed.

    A file of your own has a function run() that makes its arguments and launches its kernels. Without a GPU nothing is
    launched: tensors have shapes and no memory. Kernels of the ladders are named as in `list`.

    Each Triton that is not here is downloaded into build/triton. What changed is timed if there is a GPU of
    that architecture, by cubins of all versions in turn.
    """
    from harness.expressibility import versions as compiling

    words, files = split(names)
    of_file = {"--signature": signature, "--num-warps": num_warps, "--num-stages": num_stages}
    if (files and words) or len(files) > 1:
        raise typer.BadParameter(f"TECHNIQUE|FILE: got {' and '.join(names or ())}, expected one file, or techniques")
    if not newest:
        known = triton.split(",") if triton else [installed(), techniques.RELEASES[-1]]
    else:
        known = [*(triton.split(",") if triton else [installed()]), newest_of_index()]
    found = list(dict.fromkeys(version.strip() for version in known))
    for version in found:
        if not compiling.is_known(version):
            raise typer.BadParameter(f"--triton: got {version!r}, expected versions such as 3.6.0,3.9.0")
    if len(found) < 2 and not newest:
        raise typer.BadParameter(f"--triton: got {found[0]} alone, expected at least two, such as 3.6.0,3.9.0")
    if len(found) < 2:
        console.print(f"triton {found[0]} is the only one asked for: nothing to compare it with")
        raise typer.Exit
    chosen_archs(arch)
    ended: dict[str, str] = {}
    twins: list[Twin] = []
    if files:
        refuse(
            "a file", "its run() says what it launches", {"--backend": backends, "--problem": problem, "--tile": tile}
        )
        file = own_file(files[0], arch, signature, num_warps, num_stages)
        get(found)
        compiled, ended = compiling.of_file(file, found)
    else:
        refuse_without("a file", "kernels of the ladders have arguments of their own", of_file)
        twins = chosen_twins(words, backends, problem, tile, arch, found)
        get(found)
        compiled = compiling.of_twins(twins, found)
    differences = compared(compiled, found)
    if as_json:
        print(json.dumps({"programs": told(differences), "ended": ended}, indent=1))
    else:
        show(differences, ended, found[0])
    changed = [name for name, by_version in differences.items() if any(not one.is_same for one in by_version.values())]
    if changed and not as_json and gpu_is_here():
        if files:
            time_file(file, {name: compiled[name] for name in changed})
        else:
            time_twins([twin for twin in twins if twin.label in changed], found)
    if not compiled or all(all(one.failed) for by_version in differences.values() for one in by_version.values()):
        raise typer.Exit(1)
    raise typer.Exit(CHANGED if changed else bool(ended))


def installed() -> str:
    from harness.build import tritons

    return tritons.installed() or techniques.RELEASES[0]


def newest_of_index() -> str:
    """The newest release of Triton that the package index has."""
    command = [sys.executable, "-m", "pip", "index", "versions", "triton"]
    done = subprocess.run(command, capture_output=True, text=True)
    if found := re.search(r"Available versions: ([\w.]+)", done.stdout):
        return found[1]
    said = done.stderr.strip()[-400:] or "it named no version"
    missing(f"--newest: the package index did not answer ({said}); try again with a network")


def get(found: Sequence[str]) -> None:
    """Downloads the Tritons that are not here."""
    from harness.build import tritons

    for version in found:
        if not tritons.is_here(version):
            size = f" ({tritons.MEGABYTES[version]} MB)" if version in tritons.MEGABYTES else ""
            typer.echo(f"downloading triton {version}{size} into build/triton", err=True)
            try:
                tritons.install(version)
            except RuntimeError as error:
                missing(f"--triton: {error}; carry build/triton/{version} here from a machine with a network")


def own_file(name: str, arch: str, signature: str | None, num_warps: int | None, num_stages: int | None) -> File:
    """The file of the user's: with a signature its kernel, else its run()."""
    from harness.catalog import own
    from harness.expressibility.versions import File

    options = {"num_warps": num_warps, "num_stages": num_stages}
    with bad_usage("TECHNIQUE|FILE: "):
        try:
            kernel = own.parse(name if name.endswith(".cu") or ".py:" in name else f"{name}:run")
        except ValueError as error:
            takes = "FILE.py with run(), which makes its arguments and launches, or FILE.py:KERNEL with --signature"
            raise ValueError(f"{error}; `versions` takes {takes}") from None
    if kernel.path.suffix != ".py":
        raise typer.BadParameter(f"TECHNIQUE|FILE: got {name}, expected a .py file: Triton compiles no other")
    if signature is None:
        named = {f"--{option.replace('_', '-')}": value for option, value in options.items()}
        refuse_without("--signature", "run() says with which options it launches", named)
        if kernel.function != "run":
            raise typer.BadParameter(
                f"TECHNIQUE|FILE: got {name} without --signature; add it, or name a file with run()"
            )
        return File(kernel.path, arch)
    given = tuple((option, value) for option, value in options.items() if value is not None)
    return File(kernel.path, arch, str(kernel.function), signature, given)


def chosen_twins(
    words: Sequence[str],
    backends: list[str] | None,
    slugs: list[str] | None,
    tile: str | None,
    arch: str,
    found: Sequence[str],
) -> list[Twin]:
    """Every kernel of the ladders that is asked for and that no version declines."""
    from harness.expressibility.versions import Twin

    names, asked = chosen(list(words), slugs), chosen_tile(tile)
    problems = chosen_problems(slugs, [operator_of(list(words), slugs).benchmark])
    series = chosen_backends(backends, LANGUAGES, of=names)
    twins: list[Twin] = []
    for name in names:
        for problem in problems:
            technique = techniques.at(name, problem)
            for backend in sources.series(series, technique.path):
                best = asked or tile_of(name, backend, problem)
                if not any(
                    techniques.unsupported(technique, f"{backend}@{version}", problem, best) for version in found
                ):
                    twins.append(Twin(name, backend, best.slug, arch, of=problem))
    if not twins:
        raise typer.BadParameter(f"--tile: nothing that is asked for takes {tile or 'its tile'}; name another")
    return twins


def tile_of(name: str, backend: str, problem: Any) -> Tile:
    """The tile that `tune` chose on an H200, else the registry's."""
    best = tiles.best_tile(name, backend, problem, "h200")
    return best or techniques.reference_tile(techniques.at(name, problem), problem.tile_key)


def compared(compiled: Compiled, found: Sequence[str]) -> dict[str, dict[str, Difference]]:
    """Program -> version -> how it differs from that of the first version."""
    from harness.expressibility.versions import difference

    return {
        name: {version: difference(texts.get(found[0], {}), texts.get(version, {})) for version in found[1:]}
        for name, texts in compiled.items()
    }


def told(differences: Mapping[str, Mapping[str, Difference]]) -> dict[str, Any]:
    return {name: {version: asdict(one) for version, one in each.items()} for name, each in differences.items()}


def show(differences: Mapping[str, Mapping[str, Difference]], ended: Mapping[str, str], first: str) -> None:
    """First the programs whose machine code is the same, then what moved in each of the others."""
    for version in next(iter(differences.values()), {}):
        same = [name for name, each in differences.items() if each[version].is_same]
        console.print(
            Text(f"{first} and {version}: {len(same)} of {len(differences)} programs have the same machine code")
        )
        for name in same:
            console.print(Text(f"  {name}", "dim"))
    for name, each in differences.items():
        for version, one in each.items():
            if not one.is_same:
                console.print(Text(f"\n{name}", "bold"))
                console.print(*explained(one, first, version), sep="\n", soft_wrap=True)
    for version, words in ended.items():
        console.print(Text(f"run() ended early in {version}: {words}", "red"), soft_wrap=True)


def explained(one: Difference, first: str, version: str) -> list[Any]:
    if any(one.failed):
        said = zip((first, version), one.failed, strict=True)
        return [Text(f"  {which}: {f'fails: {words}' if words else 'compiles'}") for which, words in said]
    table = Table(Column("moved", no_wrap=True), *(Column(which, justify="right") for which in (first, version)))
    for what, (before, after) in one.moved.items():
        table.add_row(what, str(before), str(after))
    shown: list[Any] = [table] if one.moved else [Text("  the same instructions in another order, or other operands")]
    if one.ttgir:
        shown.append(Text("TTGIR parts at:"))
        for which, (number, line) in zip((first, version), one.ttgir, strict=True):
            shown.append(Text(f"  {which} line {number}: {line}"))
    else:
        shown.append(Text("TTGIR has the same operations: LLVM or ptxas made the difference"))
    return shown


def time_file(file: File, changed: Compiled) -> None:
    """Times the programs of a file that changed, those of all versions in one group, from cubins."""
    from harness.measure import launches

    if file.signature is not None:
        console.print("not timed: a signature has no arguments; give the file a run()")
        return
    made = {
        name: {version: {each: texts[each] for each in ("launch", "cubin")} for version, texts in by_version.items()}
        for name, by_version in changed.items()
        if all("cubin" in texts for texts in by_version.values())
    }
    try:
        times = launches.run(file.path, made)
    except RuntimeError as error:
        console.print(Text(f"not timed: {error}", "red"), soft_wrap=True)
        return
    table = Table("ms", *(Column(version, justify="right") for version in next(iter(changed.values()))))
    for name, by_version in times.items():
        table.add_row(name, *(one if isinstance(one, str) else f"{one:.4f}" for one in by_version.values()))
    console.print(table)


def time_twins(twins: Sequence[Twin], found: Sequence[str]) -> None:
    """Times kernels of the ladders that changed, those of all versions in one group, from cubins."""
    if unknown := [version for version in found if version not in techniques.RELEASES]:
        console.print(f"not timed: no series is of triton {' and '.join(unknown)}")
        return

    from harness.catalog.cases import Case
    from harness.inspection import survey
    from harness.measure import runner

    problems = tuple(dict.fromkeys(twin.of for twin in twins))
    experiment = NamedExperiment(name="versions", problems=problems, backends=(), one_group=True)
    cases = [
        Case("versions", twin.technique, f"{twin.backend}@{version}", twin.of, Tile.parse(str(twin.tile)))
        for twin in twins
        for version in found
    ]
    for _ in survey.inspect((case, twins[0].arch) for case in cases):  # leaves cubins, which the run launches
        pass
    path = one_off_file("versions")
    rows = runner.run(experiment, on="gpu", path=path, selected=cases)
    console.print(tables.timings(rows))
    show_failures(rows)
