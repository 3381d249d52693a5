"""twinkernels: the command line. Commands choose and print; each imports the heavy modules that it needs."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from harness import sources, tables, techniques
from harness.problem import Experiment, Problem
from harness.sources import ROOT

if TYPE_CHECKING:
    from harness import inspection

PACKAGES = ("cuda_kernels", "triton_kernels", "harness", "experiments", "reports")
RUNS = ROOT / "reports" / "runs"
RECORDED = ROOT / "reports" / "recorded"
SITE = ROOT / "reports" / "site"

app = typer.Typer(
    help="What does each optimization of FlashAttention buy, and can Triton say it?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()


class On(StrEnum):
    gpu = "gpu"
    cpu = "cpu"


class Ptxas(StrEnum):
    bundled = "bundled"
    shared = "shared"


Names = Annotated[list[str] | None, typer.Argument(metavar="[TECHNIQUE]...", help="Names from `list`; all by default.")]
Backends = Annotated[list[str] | None, typer.Option("--backend", help="Repeat for several; all by default.")]
Problems = Annotated[list[str] | None, typer.Option("--problem", help="A slug such as b4-h16-n4096-d128-bf16-causal.")]
Arch = Annotated[str | None, typer.Option(help="sm_80, sm_90a or sm_120a; all that the ladder names by default.")]
Where = Annotated[On | None, typer.Option("--on", help="Default: gpu where there is one.")]
Shard = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Every Nth problem from the Ith: one process for each of N GPUs shares the work."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits: 0 fine, 1 something failed, 2 bad usage, 130 interrupted."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
        if ROOT / package not in folders[:1]:
            sys.exit(
                f"{package}: got {folders[0] if folders else 'no such package'}, expected {ROOT / package}. "
                f"Another distribution has a package of this name, or another checkout is installed here. "
                f"Run `python -m pip install -e {ROOT}` in a virtual environment of its own, or `make report`."
            )
    os.environ.setdefault("TRITON_CACHE_DIR", str(ROOT / "build" / "triton"))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))
    try:
        app(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


def unknown(kind: str, name: str, known: Iterable[str]) -> typer.BadParameter:
    """The error for a name that is not known, with the nearest ones."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
    return typer.BadParameter(f"{kind}: got {name!r}, {hint}")


def chosen(names: list[str] | None) -> tuple[str, ...]:
    """The techniques named, or all of them, in ladder order."""
    known = [technique.name for technique in techniques.TECHNIQUES]
    for name in names or []:
        if name not in known:
            raise unknown("technique", name, known)
    return tuple(name for name in known if not names or name in names)


def chosen_backends(names: list[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    for name in names or []:
        if name not in known:
            raise unknown("backend", name, known)
    return tuple(names or known)


def chosen_problems(slugs: list[str] | None, default: Sequence[Problem]) -> tuple[Problem, ...]:
    try:
        return tuple(Problem.parse(slug) for slug in slugs or []) or tuple(default)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def experiments() -> dict[str, str]:
    """Name of each experiment -> the question it asks. Read from the files' docstrings."""
    found = sorted(path for path in (ROOT / "experiments").glob("*.py") if path.stem != "__init__")
    return {path.stem: load_experiment(path.stem).question for path in found}


def load_experiment(name: str) -> Experiment:
    known = sorted(path.stem for path in (ROOT / "experiments").glob("*.py") if path.stem != "__init__")
    if name not in known:
        raise unknown("experiment", name, known)
    return importlib.import_module(f"experiments.{name}").EXPERIMENT


def where(on: On | None) -> str:
    """gpu or cpu: what was asked for, else gpu where torch sees one. Bad usage when a GPU is asked for in vain."""
    import torch

    if on is None:
        return "gpu" if torch.cuda.is_available() else "cpu"
    if on is On.gpu and not torch.cuda.is_available():
        raise typer.BadParameter("--on: got gpu, but torch sees none; `twinkernels doctor` says what is missing")
    return on.value


def chosen_archs(arch: str | None) -> tuple[str, ...] | None:
    """The one named; None stands for all that a technique's ladder names."""
    if arch is not None and arch not in techniques.CAPABILITY:
        raise unknown("--arch", arch, techniques.CAPABILITY)
    return (arch,) if arch else None


def correctness(place: str, names: Sequence[str], backends: Sequence[str]) -> Experiment:
    """The gate's experiment, for a GPU or for Triton's interpreter."""
    from experiments import correctness

    whole = correctness.EXPERIMENT if place == "gpu" else correctness.WITHOUT_GPU
    backends = [backend for backend in whole.backends if backend in backends]
    return replace(whole, techniques=tuple(names), backends=tuple(backends))


@contextmanager
def sanitizers() -> Iterator[None]:
    """Processes started meanwhile run the CUDA twins under the sanitizers. Bad usage where the compiler has none."""
    from harness import variants

    try:
        found = variants.sanitizer_environment()
    except variants.Unsupported as error:
        raise typer.BadParameter(f"--sanitize: {error}") from None
    before = {name: os.environ.get(name) for name in found}
    os.environ.update(found)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def inspected(cells: Sequence[inspection.Cell], ptxas: str = "bundled") -> list[dict[str, Any]]:
    """Rows of kind code and counters, made in parallel under a progress bar, in the order of `cells`."""
    from rich.progress import track

    from harness import inspection

    stderr = Console(stderr=True)
    if not stderr.is_terminal:
        stderr.print(f"compiling {len(cells)} kernels; a second time they come from build/")
    found = track(inspection.inspect(cells, ptxas), "compiling", len(cells), console=stderr, transient=True)
    rows = {cell: inspection.row(cell, fields) for cell, fields in found}
    return [rows[cell] for cell in cells]


def conclude(rows: list[dict[str, Any]], show: Callable[[Any], Any], path: Path, as_json: bool) -> None:
    """Prints the rows of a finished run and exits."""
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        console.print(show(rows))
        show_failures(rows)
        console.print(f"`twinkernels record {path.relative_to(ROOT)}` keeps it", soft_wrap=True)
    raise typer.Exit(tables.failed(rows))


def counted_by_ncu(names: Sequence[str], backends: Sequence[str], slugs: list[str] | None, as_json: bool) -> None:
    """Launches the twins under ncu and exits."""
    from harness import hardware_counters

    where(On.gpu)
    twins = chosen_backends(list(backends), techniques.TWINS)
    path = run_file("ncu")
    rows = hardware_counters.run(hardware_counters.cases(names, twins, chosen_problems(slugs, ())), path)[1:]
    conclude(rows, tables.hardware_counters, path, as_json)


def show_failures(rows: Iterable[dict[str, Any]]) -> None:
    for text in tables.failures(rows):
        console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)


def part(problems: Sequence[Problem], shard: str | None) -> tuple[Problem, ...]:
    """The problems of one shard, or all of them. Bad usage when `shard` is not I/N or has no problem."""
    if shard is None:
        return tuple(problems)
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard)
    if not found or not int(found[1]) <= int(found[2]) <= len(problems):
        raise typer.BadParameter(
            f"--shard: got {shard!r}, expected I/N such as 1/{len(problems)}: I from 1 to N, N at most the "
            f"{len(problems)} problems"
        )
    return tuple(problems[int(found[1]) - 1 :: int(found[2])])


def run_name(experiment: str, shard: str | None = None) -> str:
    """How the file of a run ends: ladder, or ladder-2of4 for a shard."""
    return experiment + (f"-{shard.replace('/', 'of')}" if shard else "")


def run_file(name: str) -> Path:
    return RUNS / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{name}.jsonl"


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """Ladders, techniques and experiments."""
    rows: list[dict[str, Any]] = []
    for technique in techniques.TECHNIQUES:
        parent = techniques.parent(technique)
        twins = {
            language: str(path.relative_to(ROOT)) if path.exists() else None
            for language in ("cuda", "triton")
            for path in [sources.kernel_file(language, technique.path)]
        }
        rows.append(
            {
                "name": technique.name,
                "ladder": technique.ladder,
                "idea": technique.idea,
                "builds_on": parent.name if parent else None,
                "mma": technique.mma,
                **twins,
            }
        )
    if as_json:
        print(json.dumps({"techniques": rows, "experiments": experiments()}, indent=1))
        return
    for ladder in techniques.LADDERS.values():
        table = Table("technique", "idea", "instructions", "CUDA", "Triton", title=ladder.title, title_justify="left")
        for row in rows:
            if row["ladder"] == ladder.name:
                present = ["yes" if row[language] else "[red]no[/]" for language in ("cuda", "triton")]
                table.add_row(row["name"], row["idea"], row["mma"], *present)
        console.print(table)
    table = Table("experiment", "question")
    for name, question in experiments().items():
        table.add_row(name, question)
    console.print(table)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What is here, what is missing, what it is for, how to get it."""
    from harness import doctor as examination

    raise typer.Exit(examination.main(as_json))


@app.command()
def build(
    names: Names = None, arch: Annotated[str | None, typer.Option(help="sm_80, sm_90a or sm_120a.")] = None
) -> None:
    """Compile both twins ahead of time, in parallel. A broken kernel gives its compiler's message and exit code 1."""
    from harness import inspection

    problems = load_experiment("ladder").problems
    survey = inspected(inspection.cells(chosen(names), techniques.TWINS, problems, chosen_archs(arch)))
    show_failures(survey)
    passed = sum(row["status"] == "passed" for row in survey)
    console.print(f"{passed} of {len(survey)} compiled")
    raise typer.Exit(tables.failed(survey))


@app.command()
def inspect(
    names: Names = None,
    backends: Backends = None,
    problem: Problems = None,
    arch: Arch = None,
    ptxas: Annotated[Ptxas, typer.Option(help="Triton's own assembler, or nvcc's for both.")] = Ptxas.bundled,
    on: Annotated[On, typer.Option("--on", help="cpu: run the CUDA twins here and count.")] = On.gpu,
    ncu: Annotated[bool, typer.Option("--ncu", help="Launch the twins on the GPU here and count.")] = False,
    as_json: AsJson = False,
) -> None:
    """Registers, spills, shared memory and instructions of both twins, compiled here; needs no GPU.

    With --on cpu: bank conflicts, sectors, bytes and executions of every instruction of the CUDA twins, as they run.
    With --ncu: bank conflicts, cache hit rates, occupancy and registers by the counters of the GPU.
    """
    from harness import inspection

    if ncu:
        counted_by_ncu(chosen(names), backends or ("cuda", "triton"), problem, as_json)
    if on is On.cpu:
        if arch or set(backends or ["cuda"]) != {"cuda"}:
            raise typer.BadParameter(
                "--on: got cpu with --arch or another --backend, but only CUDA twins run thread by thread, and on any "
                "processor; leave both out"
            )
        cells, show = inspection.counted(chosen(names), chosen_problems(problem, ())), tables.counters
    else:
        problems = chosen_problems(problem, [Problem.square(4, 16, 4096, 128)])
        twins = chosen_backends(backends, techniques.TWINS)
        cells, show = inspection.cells(chosen(names), twins, problems, chosen_archs(arch)), tables.code
    survey = inspected(cells, ptxas.value)
    if as_json:
        print(json.dumps(survey, indent=1))
    else:
        console.print(*show(survey))
        show_failures(survey)
    raise typer.Exit(tables.failed(survey))


@app.command()
def check(
    names: Names = None,
    backends: Backends = None,
    problem: Problems = None,
    on: Where = None,
    shard: Shard = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--scheduler-seed", "--seed", help="With --on cpu: another order of warps.")
    ] = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="With --on cpu: under ASan and UBSan.")] = False,
    save_outputs: Annotated[Path | None, typer.Option(file_okay=False, help="Keep O and LSE in this folder.")] = None,
    against: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Compare with O and LSE of another machine.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare every twin with the truth. On a CPU, CUDA twins run thread by thread, Triton's in its interpreter.

    Launches take the scheduler seeds in turn; 0, the default, is the plain order. --save-outputs and --against take
    CUDA twins through the same few problems on every machine.
    """
    from harness import outputs, runner
    from harness.worker import Extra

    place = where(on)
    wanted = chosen_backends(backends, techniques.TWINS)
    if (seeds or sanitize) and place == "gpu":
        raise typer.BadParameter("--scheduler-seed, --sanitize: got a GPU, which obeys neither; add --on cpu")
    if sanitize or save_outputs or against:
        if "cuda" not in wanted:
            raise typer.BadParameter(
                f"--backend: got {', '.join(wanted)}, but --sanitize, --save-outputs and --against are for CUDA twins; "
                "leave it out"
            )
        wanted = ("cuda",)
    experiment = correctness(place, chosen(names), wanted)
    if save_outputs or against:
        experiment = replace(experiment, problems=outputs.PROBLEMS, peers=())
    experiment = replace(experiment, problems=part(chosen_problems(problem, experiment.problems), shard))
    extra = Extra(tuple(seeds or ()), save_outputs and save_outputs.resolve(), against and against.resolve())
    with sanitizers() if sanitize else nullcontext():
        rows = runner.run(experiment, on=place, path=run_file(run_name(experiment.name, shard)), extra=extra)
    gates = [row for row in rows if row["kind"] == "gate"]
    if as_json:
        print(json.dumps(gates, indent=1))
    else:
        console.print(tables.gates(gates))
        show_failures(gates)
    raise typer.Exit(tables.failed(gates))


@app.command()
def sanitize(
    names: Names = None,
    backends: Backends = None,
    tool: Annotated[list[str] | None, typer.Option(help="memcheck, synccheck, racecheck, initcheck; all four.")] = None,
    planted: Annotated[bool, typer.Option("--planted", help="Do the tools find bugs planted into kernels?")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes at once; as many as cores by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Launch every twin on a GPU under the tools of NVIDIA's compute-sanitizer, in many processes at once."""
    from harness import sanitizer

    for name in tool or ():
        if name not in sanitizer.OPTIONS:
            raise unknown("--tool", name, sanitizer.OPTIONS)
    where(On.gpu)
    tools = tool or list(sanitizer.OPTIONS)
    if planted:
        experiment, checks = "sanitizer_planted", sanitizer.planted(tools)
    else:
        twins = chosen_backends(backends or ["cuda", "triton"], techniques.TWINS)
        cases = sanitizer.cases(chosen(names), twins)
        experiment, checks = "sanitizer", [sanitizer.Check(case, name) for name in tools for case in cases]
    path = run_file(experiment)
    conclude(sanitizer.run(checks, experiment, path, jobs=jobs)[1:], tables.gates, path, as_json)


@app.command()
def bench(
    names: Names = None,
    backends: Backends = None,
    problem: Problems = None,
    peers: Annotated[list[str] | None, typer.Option("--peer", help="Library peers to time beside.")] = None,
    mode: Annotated[str, typer.Option(help="burst or sustained.")] = "burst",
    as_json: AsJson = False,
) -> None:
    """Time a few techniques on a GPU, now. `run` does whole experiments."""
    from harness import runner, variants

    if mode not in ("burst", "sustained"):
        raise unknown("--mode", mode, ("burst", "sustained"))
    place = where(On.gpu)
    experiment = Experiment(
        name="bench",
        question="How fast are these, now?",
        problems=chosen_problems(problem, [Problem.square(4, 16, 4096, 128)]),
        techniques=chosen(names),
        backends=chosen_backends(backends, techniques.TWINS),
        peers=chosen_backends(peers, variants.PEERS) if peers else ("sdpa_cudnn", "sdpa_flash"),
        modes=(mode,),
        distributions=("normal",),
    )
    rows = runner.run(experiment, on=place, path=run_file("bench"))
    if as_json:
        print(json.dumps(rows, indent=1))
    else:
        console.print(tables.timings(rows))
        show_failures(rows)
    raise typer.Exit(tables.failed(rows))


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="A name from `list`.")],
    on: Annotated[On | None, typer.Option("--on", help="gpu by default; on cpu nothing is timed.")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="burst, sustained; the experiment's by default.")] = None,
    backends: Annotated[list[str] | None, typer.Option("--backend", help="The experiment's by default.")] = None,
    shard: Shard = None,
    ptxas: Annotated[
        Ptxas, typer.Option(help="shared: nvcc's assembles Triton too; rows of EXPERIMENT_shared_ptxas.")
    ] = Ptxas.bundled,
    max_seconds: Annotated[float | None, typer.Option(min=0.1, help="Cap on timing one group of kernels.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue the newest run of this experiment and shard.")] = False,
) -> None:
    """Run an experiment: gate every kernel, time what passed, write rows to reports/runs/."""
    from harness import runner

    wanted = load_experiment(experiment)
    place = where(on or On.gpu)
    for name in mode or []:
        if name not in ("burst", "sustained"):
            raise unknown("--mode", name, ("burst", "sustained"))
    wanted = replace(wanted, problems=part(wanted.problems, shard), backends=chosen_backends(backends, wanted.backends))
    if ptxas is Ptxas.shared:
        wanted = assembled_by_nvcc(wanted)
    name = run_name(wanted.name, shard)
    earlier = sorted(RUNS.glob(f"*[0-9]-{name}.jsonl"))
    path = earlier[-1] if resume and earlier else run_file(name)
    console.print(wanted.question)
    timing = {"max_seconds": max_seconds} if max_seconds else {}
    rows = runner.run(wanted, on=place, path=path, resume=resume, modes=mode, timing=timing)
    console.print(tables.timings(rows))
    show_failures(rows)
    console.print(f"`twinkernels record {path.relative_to(ROOT)}` keeps it", soft_wrap=True)
    raise typer.Exit(tables.failed(rows))


def assembled_by_nvcc(experiment: Experiment) -> Experiment:
    """The experiment under a name of its own, and this process and its workers with one assembler for both languages.

    All its series run, so that every ratio has its pair among rows of this name; a CUDA kernel is built as ever.
    """
    from harness import machine_code
    from harness.scorecard import SHARED_PTXAS

    try:
        os.environ.update(machine_code.shared_assembler())
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error)) from None
    return replace(experiment, name=f"{experiment.name}{SHARED_PTXAS}")


@app.command()
def report(names: Names = None) -> None:
    """The main job: compile, check and inspect both twins, time them if there is a GPU, build the site.

    With names, only these techniques are done anew.
    """
    from harness import environment, inspection, results, runner, structured_heads
    from reports import build as site

    place = where(None)
    wanted = chosen(names)
    ladder = replace(load_experiment("ladder"), techniques=wanted)
    description = environment.describe()
    name = results.environment_id(description)
    with results.Writer(run_file("inspect")) as writer:
        writer.write({"kind": "environment", "id": name, "on": "cpu", "details": description})
        survey = inspected([*inspection.survey(ladder), *inspection.counted(wanted)])
        for row in [*survey, structured_heads.row()]:
            writer.write({**row, "environment": name})
    code = [row for row in survey if row["kind"] == "code"]
    console.print(f"{sum(row['status'] == 'passed' for row in code)} of {len(code)} kernels compiled")
    experiment = ladder if place == "gpu" else correctness(place, wanted, techniques.TWINS)
    rows = runner.run(experiment, on=place, path=run_file(experiment.name))
    console.print(tables.gates(row for row in rows if row["kind"] == "gate"))
    show_failures([*survey, *rows])
    print(site.build(SITE))


@app.command()
def record(
    runs: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False)],
) -> None:
    """Merge runs into reports/recorded/, from which machines without a GPU report, and redraw README's figures."""
    from harness import record as recorded
    from reports import figures

    try:
        files = dict.fromkeys(path for run in runs for path in recorded.record(run, RECORDED))
    except recorded.Refused as refusal:
        raise typer.BadParameter(str(refusal)) from None
    for path in [*files, *figures.readme(ROOT / "reports" / "figures")]:
        console.print(f"wrote {path.relative_to(ROOT)}", soft_wrap=True)


@app.command()
def tune(names: Names = None, backends: Backends = None, problem: Problems = None, shard: Shard = None) -> None:
    """Time every tile of every technique on this GPU and write harness/tiles/<gpu>.toml."""
    from harness import tune as tuning

    problems = part(chosen_problems(problem, load_experiment("ladder").problems), shard)
    where(On.gpu)
    path = run_file(run_name("tune", shard))
    table = tuning.tune(chosen(names), chosen_backends(backends, techniques.TWINS), problems, path)
    console.print(f"selected tiles are in {table}", soft_wrap=True)


@app.command()
def scorecard(as_json: AsJson = False) -> None:
    """The promised ratios, from recorded rows and from fresh ones."""
    from harness import results
    from harness.scorecard import scorecard as compute

    files = [path for _, path in results.iter_recorded(RECORDED)] + sorted(RUNS.glob("*.jsonl"))
    card = compute(row for path in files for row in results.read(path))
    if as_json:
        print(json.dumps(card, indent=1))
        return
    table = Table("ratio", "GPU", "value", "worst cell", box=box.SIMPLE_HEAD)
    for entry in card["entries"]:
        value = f"{entry['value']:.3f}" if entry["value"] else f"incomplete: {entry['reason']}"
        name = f"{entry['name']} (theirs quoted)" if entry["quoted"] else entry["name"]
        table.add_row(name, entry["gpu"], value, entry["worst_cell"] or "")
    console.print(table)


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Rows of the baseline.")],
    new: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Rows to judge.")],
    accept: Annotated[bool, typer.Option("--accept", help="Let NEW take the baseline's place.")] = False,
) -> None:
    """SAME, FASTER, SLOWER, AMBIGUOUS, MISSING per case; exit 1 on SLOWER or MISSING, 2 when not comparable."""
    from harness import compare as comparison

    raise typer.Exit(comparison.main(base, new, accept, console))
