"""list, doctor, build, inspect: what is here, and what the compilers make of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from harness import operators
from harness.catalog import sources, techniques, tiles
from harness.catalog.cases import of_experiment
from harness.catalog.entries import Tile
from harness.cli.measuring import refuse_hours
from harness.cli.options import (
    Arch,
    AsJson,
    Backends,
    Names,
    On,
    Problems,
    Ptxas,
    chosen,
    chosen_archs,
    chosen_backends,
    chosen_problems,
    chosen_tile,
    completing,
    experiments,
    load_experiment,
    operator_of,
    refuse,
    refuse_without,
    require_gpu,
    require_known,
    where,
)
from harness.cli.output import conclude, console, one_off_file, show_failures
from harness.machine.progress import Progress
from harness.rows import results, tables

if TYPE_CHECKING:
    from harness.inspection import survey


def list_techniques(as_json: AsJson = False) -> None:
    """Show the ladders with their techniques, the ablations and the experiments."""
    rows: list[dict[str, Any]] = []
    for technique in techniques.rungs():
        parent = techniques.parent(technique)
        files = {
            language: str(path.relative_to(operators.root(technique.operator))) if path.exists() else None
            for language in techniques.LANGUAGES
            for path in [sources.kernel_file(language, technique.path)]
        }
        rows.append(
            {
                "name": technique.name,
                "operator": technique.operator,
                "ladder": technique.ladder,
                "idea": technique.change,
                "builds_on": parent.name if parent else None,
                "mma": technique.mma,
                **files,
            }
        )
    ablations = [
        {"name": one.name, "idea": one.idea, "builds_on": one.builds_on[0], "cuda": sources.shown("cuda", one.path)}
        for operator in operators.every()
        for one in operator.ablations
    ]
    if as_json:
        print(json.dumps({"techniques": rows, "ablations": ablations, "experiments": experiments()}, indent=1))
        return
    wide = console.width >= 100
    for ladder in (ladder for operator in operators.every() for ladder in operator.ladders):
        name = Column("technique", no_wrap=True)
        more = ("instructions", "CUDA", "Triton", "Gluon") if wide else ()
        table = Table(name, "idea", *more, title=f"{ladder.operator}, {ladder.title}", title_justify="left")
        for row in rows:
            if (row["operator"], row["ladder"]) == (ladder.operator, ladder.name):
                present = ["yes" if row[language] else Text("no", "red") for language in ("cuda", "triton")]
                cells = (row["mma"], *present, "yes" if row["gluon"] else "") if wide else ()
                shown = techniques.shown(techniques.get(f"{row['operator']}/{row['name']}"))
                table.add_row(shown, row["idea"], *cells)
        console.print(table)
    heads = Column("ablation", no_wrap=True), "idea"
    table = Table(*heads, title="Ablations: a CUDA kernel less something, no rung", title_justify="left")
    for ablation in ablations:
        table.add_row(ablation["name"], ablation["idea"])
    console.print(table)
    table = Table(Column("experiment", no_wrap=True), Column("question", overflow="fold"))
    for experiment, question in experiments().items():
        table.add_row(experiment, question)
    console.print(table)


def doctor(as_json: AsJson = False) -> None:
    """Check this machine: what is installed, what is missing, what needs it, and how to get it."""
    from harness.setup import doctor as examination

    raise typer.Exit(examination.main(as_json))


def build(
    names: Names = None,
    arch: Arch = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="Compile what this experiment runs, at its tiles.", autocompletion=completing(experiments())),
    ] = None,
    backends: Backends = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="With --experiment: use the tiles tuned on this GPU, such as h200; default: the GPU here."),
    ] = None,
    lock: Annotated[
        bool, typer.Option("--lock", help="What recorded rows measured and has been edited since: kernels.lock.")
    ] = False,
) -> None:
    """Compile kernels ahead of time, in parallel; exit code 1 if one does not compile.

    `run` of an experiment uses what `build --experiment` compiled.

    A backend with a version, such as gluon@3.9.0, is compiled by that Triton (`expressibility --install` downloads it)
    into build/cubins. A GPU machine with another Triton needs only these cubins to run it.
    """
    from harness.inspection import survey
    from harness.machine import environment

    asked = chosen(names)
    if lock:
        others = {"--arch": arch, "--experiment": experiment, "--backend": backends, "--gpu": gpu}
        refuse("--lock", "recorded rows say what it compiles", others)
        write_lock(names and asked)
    wanted = load_experiment(experiment or operator_of(names).experiment("ladder"))
    twins = chosen_backends(
        backends, techniques.SERIES, default=wanted.backends if experiment else (), further=techniques.ON_REQUEST
    )
    archs = chosen_archs(arch)
    if gpu:
        require_known("--gpu", [gpu], sorted(table.stem for table in tiles.all_tables()))
    if not experiment:
        refuse_without("--experiment", "only an experiment has the tiles of a GPU", {"--gpu": gpu})
    if experiment:
        chosen_on = gpu or results.slug_of(environment.describe()["gpu"])
        all_cases = of_experiment(replace(wanted, backends=twins), chosen_on)
        stems = {name.rpartition("/")[2] for name in asked}
        cases = [case for case in all_cases if case.technique and (not names or case.technique in stems)]
        ladders = {
            case: techniques.ladder_of(techniques.at(str(case.technique), case.problem)) for case in cases if case.tile
        }
        cells: list[survey.Cell] = [(case, place) for case in ladders for place in archs or ladders[case].archs]
    else:
        cells = survey.cells(asked, twins, wanted.problems, archs)
    rows = inspected(cells)
    show_failures(rows)
    passed = sum(row["status"] == "passed" for row in rows)
    console.print(f"{passed} of {len(rows)} compiled")
    declined = Counter(row["reason"].partition("; got ")[0] for row in rows if row["status"] == "unsupported")
    for reason, count in declined.most_common():
        console.print(f"{count} declined: {reason}", markup=False)
    raise typer.Exit(tables.failed(rows))


def write_lock(names: Sequence[str] | None) -> NoReturn:
    """Brings kernels.lock up to date for these techniques, or for all that have recorded rows."""
    from harness.build import locking
    from harness.machine.progress import Interrupts, Progress
    from harness.rows import frame
    from harness.rows.lock import PATH

    with Interrupts() as interrupts, Progress() as progress:
        rows = (row for row in frame.rows() if row["kind"] != "environment")
        wanted = names or list(map(techniques.shown, techniques.kernels()))
        done = locking.update(rows, wanted, progress=partial(progress.count, "lock"), stop=lambda: interrupts.requested)
    for program, said in done.failed.items():
        console.print(f"{program}: {said}", style="red", highlight=False, soft_wrap=True)
    console.print(
        f"{done.compiled} programs compiled: {done.same} as measured, their rows count; {done.different} are others now"
        f"; {PATH.name} is written",
        soft_wrap=True,
    )
    raise typer.Exit(interrupts.exit_code if interrupts.requested else bool(done.failed))


def inspect(
    names: Names = None,
    backends: Backends = None,
    problem: Problems = None,
    arch: Arch = None,
    ptxas: Annotated[
        Ptxas | None, typer.Option(help="Assemble Triton's code by its own ptxas (bundled) or by nvcc's (shared).")
    ] = None,
    on: Annotated[
        On | None, typer.Option("--on", help="cpu: run the CUDA kernels here and count; gpu: compile for the GPU here.")
    ] = None,
    ncu: Annotated[bool, typer.Option("--ncu", help="Launch the kernels on this GPU under ncu.")] = False,
    tile: Annotated[
        str | None, typer.Option(help="A slug such as 128x128-s2-w8; each technique's reference tile by default.")
    ] = None,
    binary: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Read this library or cubin instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile kernels here and show registers, spills, shared memory and instructions. Needs no GPU.

    --on cpu runs the CUDA kernels and counts bank conflicts, sectors, bytes and executions, instruction by instruction.
    --ncu reads bank conflicts, cache hit rates and occupancy from the GPU's counters.
    --binary reads the main loops of somebody else's library, and shows what they issue under a product.
    """
    from harness.inspection import survey

    if binary:
        others = {"TECHNIQUE": names, "--backend": backends, "--problem": problem, "--arch": arch, "--ptxas": ptxas}
        more = {"--on": on, "--ncu": ncu, "--tile": tile}
        refuse("--binary", "a binary is read as it is", {**others, **more})
        main_loops_of(binary, as_json)
    if ncu:
        refuse(
            "--ncu",
            "ncu counts what this GPU runs",
            {"--arch": arch, "--ptxas": ptxas, "--on": on},
        )
        counted_by_ncu(chosen(names, problem), backends, problem, chosen_tile(tile), as_json)
    if on is On.cpu:
        other = set(backends or ()) - {"cuda"}
        why = "there g++ compiles the CUDA twins, for this processor"
        refuse("--on cpu", why, {"--arch": arch, "--ptxas": ptxas, "--backend": other, "--tile": tile})
        cells, show = survey.on_cpu(chosen(names, problem), chosen_problems(problem, ())), tables.memory
        if problem:
            refuse_hours([case for case, _ in cells])
    else:
        problems = chosen_problems(problem, [operator_of(names, problem).benchmark])
        asked = chosen(names, problem)
        twins = chosen_backends(backends, techniques.SERIES, of=asked, further=techniques.ON_REQUEST)
        archs = chosen_archs(arch)
        if on is On.gpu:
            from harness import build

            refuse("--on gpu", "its architecture is the GPU's", {"--arch": arch})
            where(on)
            archs = (build.gpu_arch(),)
        cells, show = survey.cells(asked, twins, problems, archs), tables.code
        if at := chosen_tile(tile):
            cells = [(replace(case, tile=at), place) for case, place in cells]
    rows = inspected(cells, (ptxas or Ptxas.bundled).value)
    conclude(
        rows,
        lambda rows: Group(*show(rows), *tables.declined(rows)),
        as_json=as_json,
        checked=True,
        done="compiled" if on is not On.cpu else "counted",
    )


def main_loops_of(binary: Path, as_json: bool) -> NoReturn:
    """Prints what of the softmax each kernel of a library issues under a product, and exits."""
    from harness.build import machine_code

    try:
        found = machine_code.main_loops(binary)
    except machine_code.DisassemblerError as error:
        raise typer.BadParameter(f"--binary: {error}; name a library or cubin with CUDA kernels") from None
    if not found:
        raise typer.BadParameter(
            f"--binary: got {binary.name}, expected a kernel with wgmma and exponentials in a loop"
        )
    if as_json:
        print(json.dumps(found, indent=1))
        raise typer.Exit
    for one in found:
        loop = one["main_loop"]
        counts = (f"{n} of {loop['all'][kind]} {kind}" for kind, n in loop["under_products"].items())
        console.print(Text(one["kernel"], style="bold"))
        console.print(f"  {loop['instructions']} instructions; under a product: {', '.join(counts)}")
        console.print(Text(f"  {loop['sequence']}\n", style="dim"))
    raise typer.Exit


def inspected(cells: Sequence[survey.Cell], ptxas: str = "bundled") -> list[dict[str, Any]]:
    """Rows of kind code or counters, made in parallel, in the order of `cells`; a bar or lines say how far that is."""
    from harness.inspection import survey

    rows = {}
    with Progress() as progress:
        progress.say(
            f"compiling {len(cells)} kernel{'s' if len(cells) != 1 else ''}; a second time they come from build/"
        )
        for cell, fields in survey.inspect(cells, ptxas):
            rows[cell] = survey.row(cell, fields, ptxas)
            progress.count("compile", len(rows), len(cells), f"{cell[0]} {cell[1] or 'on this CPU'}")
    return [rows[cell] for cell in cells]


def counted_by_ncu(
    names: Sequence[str], backends: list[str] | None, slugs: list[str] | None, tile: Tile | None, as_json: bool
) -> None:
    """Launches the twins under ncu, at `tile` or at each one's own, and exits."""
    from harness.inspection import hardware_counters

    require_gpu(operator_of(names, slugs).name)
    twins = chosen_backends(
        backends, techniques.SERIES, of=names, default=techniques.LANGUAGES, further=techniques.ON_REQUEST
    )
    path = one_off_file("ncu")
    cases = hardware_counters.cases(names, twins, chosen_problems(slugs, ()))
    cases = list(dict.fromkeys(replace(case, tile=tile or case.tile) for case in cases))
    rows = hardware_counters.run(cases, path)[1:]
    conclude(rows, tables.hardware_counters, as_json=as_json, path=path)
