"""check, sanitize, bench, run, tune: kernels are launched, and rows written to reports/runs/."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, NoReturn

import typer

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.cases import Case, of_experiment, of_grids, source_sha256
from harness.catalog.entries import MODES, NamedExperiment
from harness.cli import own_page, spreading
from harness.cli.options import (
    SERIES,
    AsJson,
    Backends,
    Names,
    NamesOrFiles,
    OfOperator,
    On,
    OwnTile,
    Problems,
    Ptxas,
    Shard,
    Where,
    bad_usage,
    chosen,
    chosen_backends,
    chosen_kernels,
    chosen_problems,
    chosen_tile,
    completing,
    load_experiment,
    missing,
    operator_of,
    part,
    refuse,
    refuse_without,
    require_gpu,
    require_known,
    split,
    where,
)
from harness.cli.output import Row, conclude, console, one_off_file, run_file, run_name
from harness.cli.own_page import Report
from harness.cli.spreading import Cluster, Gpus, Rows, command, refuse_to_spread
from harness.operators.protocol import Operator, Problem
from harness.rows import reading, results, tables

LIBRARIES = ", ".join(operators.peers())
SCHEDULER_SEEDS = (0, 1, 2)
"""Orders of warps that launches on a CPU take in turn: the plain one and two others."""
ON_A_CPU: dict[str, Any] = {"scheduler_seeds": SCHEDULER_SEEDS, "repeats": 2 * len(SCHEDULER_SEEDS)}
"""Fields of GateOptions: every order twice."""


def check(
    names: NamesOrFiles = None,
    backends: Backends = None,
    problem: Problems = None,
    on: Where = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="With --on cpu: run the CUDA kernels under ASan and UBSan.")
    ] = False,
    tile: OwnTile = None,
    operator: OfOperator = None,
    rows_file: Rows = None,
    report: Report = False,
    as_json: AsJson = False,
) -> None:
    """Check kernels against the exact result: the twins, or your own.

    On a CPU, CUDA kernels run thread by thread, in three orders of warps in turn; Triton kernels run in its
    interpreter, and Python functions on CPU tensors.
    """
    names, files = split(names)
    rungs = chosen(names, problem, operator) if names or not files else ()
    of = operator_of(names, problem, operator)
    mine = chosen_kernels(files, chosen_tile(tile))
    if not files:
        key = of.benchmark.tile_key
        at = ", ".join(f"{name} at {techniques.reference_tile(techniques.get(name), key).slug}" for name in names)
        why = "it is for a .cu file of your own; a twin is checked at its own" + (f": {at}" if at else "")
        refuse_without("a file", why, {"--tile": tile})
        refuse_without("a file", "a twin has its own page", {"--report": report})
    if files and not names:
        refuse(files[0], "a kernel of your own has one backend", {"--backend": backends})
    place = where(on)
    if place == "cpu" and "gluon" in (backends or ()):
        from harness import build

        raise typer.BadParameter(
            f"--backend: got gluon with --on cpu, but {build.available('gluon', 'cpu')}; "
            "leave it out, or compile it with `twinkernels inspect --backend gluon`"
        )
    able = load_experiment(of.experiment("correctness"), place).backends
    wanted = chosen_backends(backends, able, of=rungs, further=techniques.ON_REQUEST if place == "gpu" else ())
    if sanitize:
        if place == "gpu":
            raise typer.BadParameter("--sanitize: got a GPU, expected --on cpu; `twinkernels sanitize` is for a GPU")
        if "cuda" not in wanted:
            raise typer.BadParameter(
                f"--backend: got {', '.join(wanted)}, but --sanitize is for CUDA twins; leave it out"
            )
        wanted = ("cuda",)

    from harness.measure import own, runner

    experiment = correctness(of, place, rungs, wanted)
    default = own.problems(of, place) if files else experiment.problems
    problems = chosen_problems(problem, default)
    experiment = replace(experiment, peers=() if files else experiment.peers, problems=problems)
    cases = [*of_experiment(experiment), *own.cases(experiment, mine, None)]
    if place == "cpu" and problem:
        refuse_hours(cases)
    path = rows_file or one_off_file(experiment.name)
    with sanitizers() if sanitize else nullcontext():
        rows = runner.run(
            experiment,
            on=place,
            path=path,
            resume=True,
            gate=ON_A_CPU if place == "cpu" else {},
            patient=rows_file is not None,
            selected=cases,
        )
    held = results.read(path) if rows_file and path.is_file() else rows
    if report:
        own_page.write(held, cases, path)
    gates = [row for row in rows if row["kind"] == "gate"]
    if rows_file and not gates:
        gates = known(held, cases, place)
        typer.echo(f"all {len(gates)} cells are in {rows_file} already", err=True)
    conclude(gates, tables.gates, as_json=as_json, log=path.with_suffix(".log"), checked=True, named=bool(problem))


def known(rows: Iterable[Row], cases: Iterable[Case], place: str) -> list[Row]:
    """The newest gate of each of these cases, of sources as they are now."""
    current = {str(case): source_sha256(case) for case in cases}
    named = {}
    for row in rows:
        if row["kind"] == "gate" and row["on"] == place and not row.get("tool"):
            name = reading.case(row)
            if current.get(name, "") == row.get("source_sha256"):
                named[name] = row
    return list(named.values())


def sanitize(
    names: Names = None,
    backends: Backends = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="memcheck, synccheck, racecheck or initcheck; repeat for several. Default: all four."),
    ] = None,
    tile: Annotated[
        str | None, typer.Option(help="A slug such as 256x64-s3-w8; each technique's reference tile by default.")
    ] = None,
    planted: Annotated[
        bool, typer.Option("--planted", help="Try whether the tools find bugs planted into kernels.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Launch kernels on a GPU under NVIDIA's compute-sanitizer, many processes at once."""
    from harness.inspection import sanitizer

    require_known("--tool", tool or (), sanitizer.OPTIONS)
    every = (*techniques.SERIES, techniques.HATCH)
    twins = chosen_backends(backends, every, of=chosen(names), default=techniques.LANGUAGES)
    at = chosen_tile(tile)
    if planted:
        refuse("--planted", "a bug is planted at its kernel's reference tile", {"--tile": tile})
    require_gpu(operator_of(names).name)
    tools = tool or list(sanitizer.OPTIONS)
    if planted:
        experiment, checks = "sanitizer_planted", sanitizer.planted(tools)
    else:
        cases = sanitizer.cases(chosen(names), twins, at)
        experiment, checks = "sanitizer", [sanitizer.Check(case, name) for name in tools for case in cases]
    path = one_off_file(experiment)
    rows = sanitizer.run(checks, experiment, path)[1:]
    conclude(rows, tables.gates, as_json=as_json, path=path, checked=True)


def bench(
    names: NamesOrFiles = None,
    backends: Backends = None,
    problem: Problems = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer", help=f"Time these libraries too: {LIBRARIES}.", autocompletion=completing(LIBRARIES.split(", "))
        ),
    ] = None,
    tile: Annotated[
        str | None,
        typer.Option(
            help="A slug such as 128x128-s2-w8; each technique's reference tile by default. Beside a file it is what "
            "a .cu file is built for; techniques have their best one."
        ),
    ] = None,
    operator: OfOperator = None,
    mode: Annotated[str, typer.Option(help="burst, sustained or idle.")] = "burst",
    report: Report = False,
    as_json: AsJson = False,
) -> None:
    """Time a few techniques, or a kernel of your own, on this GPU. `run` times whole experiments.

    A kernel of your own is timed beside the techniques and libraries that you name, by default beside the three fastest
    recorded techniques.
    """
    names, files = split(names)
    rungs = chosen(names, problem, operator) if names or not files else ()
    asked, of = chosen_tile(tile), operator_of(names, problem, operator)
    mine = chosen_kernels(files, asked)

    from harness.measure import own, runner

    require_known("--mode", [mode], MODES)
    if not files:
        refuse_without("a file", "a technique has its own page", {"--report": report})
    experiment = NamedExperiment(
        name="bench",
        problems=chosen_problems(problem, [of.benchmark]),
        techniques=rungs,
        backends=chosen_backends(backends, techniques.SERIES, of=rungs, further=techniques.ON_REQUEST),
        peers=chosen_backends(peers, of.peers, "--peer") if peers else of.default_peers,
        modes=(mode,),
    )
    require_gpu(of.name)
    if files:
        named = experiment.peers if peers or names else ()
        cases = own.beside_the_best(experiment, replace(mine, rungs=rungs, backends=experiment.backends, peers=named))
    else:
        cases = [
            replace(case, tile=asked or case.tile) if case.technique else case for case in of_experiment(experiment)
        ]
    path = one_off_file("bench")
    rows = runner.run(experiment, on="gpu", path=path, selected=cases)
    if report:
        own_page.write(rows, cases, path)
    log = path.with_suffix(".log")
    conclude(rows, tables.timings, as_json=as_json, log=log, one_off=path, named=bool(problem))


def run(
    context: typer.Context,
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="A name from `list`.", autocompletion=completing(experiments.shown().values())
        ),
    ],
    on: Annotated[On | None, typer.Option("--on", help="Default: gpu. On a CPU nothing is timed.")] = None,
    backends: Annotated[
        list[str] | None, typer.Option("--backend", help=f"Of {SERIES}; default: those of the experiment.")
    ] = None,
    shard: Shard = None,
    ptxas: Annotated[
        Ptxas, typer.Option(help="shared: nvcc's ptxas assembles Triton's code too, and rows say so.")
    ] = Ptxas.bundled,
    replicates: Annotated[
        int,
        typer.Option(
            min=1,
            help="Time the fastest kernels of each series in this many processes, on several boards if possible.",
        ),
    ] = 1,
    rows_file: Rows = None,
    gpus: Gpus = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment: check every kernel, time those that pass, write rows to reports/runs/."""
    wanted = load_experiment(experiment, (on or On.gpu).value)

    from harness.machine import environment
    from harness.measure import runner
    from harness.measure.fleet import Work

    if wanted.roofs:
        asked: dict[str, object] = {"--on": on is On.cpu, "--backend": backends, "--shard": shard}
        asked |= {"--ptxas": ptxas is Ptxas.shared, "--replicates": replicates > 1}
        refuse(wanted.name, "it measures a multiprocessor, whole", {**asked, "--gpus": gpus, "--cluster": cluster})
        measure_roofs(wanted, as_json)
    wanted = replace(
        wanted,
        problems=part(wanted.problems, shard),
        backends=chosen_backends(backends, wanted.backends, of=named(wanted), further=techniques.ON_REQUEST),
    )
    refuse_to_spread(gpus, cluster, {"--on cpu": on is On.cpu, "--shard": shard})
    if on is None and cluster is None:
        require_gpu(wanted.problems[0].operator)
    place = "gpu" if cluster and on is None else where(on or On.gpu)
    if place == "cpu":
        timed = {"--replicates": replicates > 1, "--ptxas": ptxas is Ptxas.shared}
        refuse("--on cpu", "there nothing is timed, nor assembled", timed)
    if ptxas is Ptxas.shared:
        cubins = {name: name in techniques.AS_CUBINS for name in wanted.backends}
        refuse("--ptxas shared", "a cubin is assembled already", cubins)
        wanted = assembled_by_nvcc(wanted, context)
    name = run_name(wanted.name + ("-shared" if wanted.assembler else ""), shard)
    path = rows_file or run_file(name)
    announce(experiment, quiet=as_json)
    if spreading.wanted(gpus, cluster):
        options: dict[str, object] = {"--backend": backends}
        options |= {"--ptxas": ptxas.value if wanted.assembler else None}
        cases = tuple(of_experiment(wanted, results.slug_of(environment.describe()["gpu"])))
        work = Work(
            command(["run", experiment], options),
            wanted.problems,
            cases,
            replicates=replicates,
            fields={"assembler": wanted.assembler} if wanted.assembler else None,
        )
        conclude(spreading.spread(work, path, gpus, cluster), tables.timings, path=path, as_json=as_json)
    rows = runner.run(
        wanted,
        on=place,
        path=path,
        resume=rows_file is not None,
        replicates=replicates,
    )
    conclude(rows, tables.timings, path=path, as_json=as_json)


def announce(experiment: str, *, quiet: bool) -> None:
    """The question that the run answers; on stderr where stdout is for a program."""
    question = experiments.question(experiment)
    typer.echo(question, err=True) if quiet else console.print(question)


def measure_roofs(experiment: NamedExperiment, as_json: bool) -> NoReturn:
    """Writes the rows of an experiment that has roofs; where there is no GPU for them, rows that say so."""
    from harness.measure import roofs

    announce(experiment.name, quiet=as_json)
    path = run_file(run_name(experiment.name))
    rows = [row for row in roofs.run(experiment, path) if results.what(row) == "roof"]
    conclude(rows, tables.roofs, as_json=as_json, path=path)


def tune(
    names: Names = None,
    backends: Backends = None,
    problem: Problems = None,
    shard: Shard = None,
    rows_file: Rows = None,
    gpus: Gpus = None,
    cluster: Cluster = None,
) -> None:
    """Sample every tile on this GPU, time the fastest and write harness/operators/<operator>/tiles/<gpu>.toml."""
    from harness.measure import tune as tuning
    from harness.measure.fleet import Work

    # A table needs all problems of its cells; rows alone are selected from afterwards, by whoever has them all.
    refuse_to_spread(gpus, cluster, {"--shard": shard})
    of = operator_of(names, problem)

    def together(one: Problem) -> Any:
        return one.cells[-1] if rows_file is None else one

    problems = part(chosen_problems(problem, load_experiment(of.experiment("ladder")).problems), shard, together)
    twins = chosen_backends(backends, techniques.SERIES, of=chosen(names, problem), further=techniques.ON_REQUEST)
    if cluster is None:
        require_gpu(of.name)
    path = rows_file or one_off_file(run_name("tune", shard))
    spreads = spreading.wanted(gpus, cluster)
    if spreads:
        options = {"--backend": backends, "--problem": problem}
        cases = tuple(of_grids(chosen(names, problem), twins, problems))
        work = Work(command(["tune", *(names or ())], options), problems, cases, "tune")
        spreading.spread(work, path, gpus, cluster)
    else:
        tuning.tune(chosen(names, problem), twins, problems, path, resume=rows_file is not None)
    if rows_file and not spreads:
        console.print(f"{rows_file} holds the rows; no table is written", soft_wrap=True)
    else:
        console.print(f"selected tiles are in {tuning.select(path, problems)}", soft_wrap=True)


def refuse_hours(todo: Sequence[Case]) -> None:
    """Bad usage for problems of a GPU's size, thread by thread; says how long it takes where that is minutes."""
    from harness.measure import effort

    with bad_usage("--"):
        if said := effort.refuse_hours(todo):
            typer.echo(said, err=True)


def named(experiment: NamedExperiment) -> list[str]:
    """What the command line calls the experiment's techniques."""
    return [techniques.shown(techniques.at(name, experiment.problems[0])) for name in experiment.techniques]


def correctness(of: Operator, place: str, names: Sequence[str], backends: Sequence[str]) -> NamedExperiment:
    """The gate's experiment, for a GPU or for a CPU."""
    whole = load_experiment(of.experiment("correctness"), place)
    backends = [backend for backend in whole.backends if backend in backends]
    return replace(whole, techniques=tuple(names), backends=tuple(backends))


@contextmanager
def sanitizers() -> Iterator[None]:
    """Processes started meanwhile run the CUDA twins under the sanitizers. Ends the command where g++ has none."""
    from harness import build

    try:
        found = build.sanitizer_environment()
    except build.Unsupported as error:
        missing(f"--sanitize: {error}")
    with variables(found):
        yield


def assembled_by_nvcc(experiment: NamedExperiment, context: typer.Context) -> NamedExperiment:
    """The experiment, this command and its workers with one assembler for both languages.

    All its series run, so that every ratio has its pair among rows of this assembler; a CUDA kernel is built as ever.
    """
    from harness.build import compiling

    try:
        found = compiling.shared_assembler()
    except FileNotFoundError as error:
        missing(str(error))
    context.with_resource(variables(found))
    return replace(experiment, assembler=Ptxas.shared.value)


@contextmanager
def variables(found: Mapping[str, str]) -> Iterator[None]:
    """The environment has these variables, for processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in found}
    os.environ.update(found)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
