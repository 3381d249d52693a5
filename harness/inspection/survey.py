"""Compiles and reads many kernels at once: (case, architecture) -> the fields of a row of kind `code`; and runs CUDA
twins on the CPU to count what their instructions do: (case, None) -> the fields of a row of kind `counters`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from harness import build, operators
from harness.catalog import techniques
from harness.catalog.cases import Case, at_reference_tiles, declined, source_sha256
from harness.catalog.entries import NamedExperiment
from harness.machine import processes
from harness.machine.environment import scrub
from harness.operators.protocol import Problem
from harness.rows import making

Cell = tuple[Case, str | None]
"""A case and the architecture that it is compiled for; None for the CPU, on which it is run and counted."""

MEASURED = "sm_90a"
"""The architecture of the recorded rows."""


def survey(experiment: NamedExperiment, everything: bool = False) -> list[Cell]:
    """What a report shows: the first problem on the measured architecture; with `everything`, all problems there and
    the first on the other architectures too."""
    names, backends, problems = experiment.techniques, experiment.backends, experiment.problems
    if not everything:
        return cells(names, backends, problems[:1], (MEASURED,), experiment.name)
    everywhere = cells(names, backends, problems[:1], None, experiment.name)
    return list(dict.fromkeys([*everywhere, *cells(names, backends, problems, (MEASURED,), experiment.name)]))


def cells(
    names: Iterable[str],
    backends: Sequence[str],
    problems: Sequence[Problem],
    archs: Sequence[str] | None = None,
    experiment: str = "inspect",
) -> list[Cell]:
    """Every technique at its reference tile, on `archs` or all that its ladder names. triton_native is a series of its
    own on Hopper only: elsewhere it is the same program as triton."""
    found: list[Cell] = []
    for name in names:
        technique = techniques.at(name, problems[0])
        for arch in archs or techniques.ladder_of(technique).archs:
            here = [backend for backend in backends if backend != "triton_native" or arch == MEASURED]
            found += [(case, arch) for case in at_reference_tiles(experiment, [name], here, problems)]
    return found


def on_cpu(names: Iterable[str], problems: Sequence[Problem] = ()) -> list[Cell]:
    """The CUDA twin of every technique on the CPU, at its reference tile; by default on the operator's `counted`."""
    found = ((name, problems or (counted_problem(name),)) for name in names)
    return [(case, None) for name, chosen in found for case in at_reference_tiles("memory", [name], ("cuda",), chosen)]


def counted_problem(technique: str) -> Any:
    """The small problem on which the CPU counts the instructions of a technique."""
    operator = operators.get(techniques.get(technique).operator)
    return operator.counted or operator.benchmark.smaller


def count(case: Case) -> dict[str, Any]:
    """Runs a CUDA twin, or a .cu file of the user's, once on the CPU: `compiler` of its row, and `details`, what its
    instructions cost in shared and global memory at the addresses of this run, as {"sites": ..., "totals": ...}. Raises
    build.Unsupported, CompileError and Diagnosed."""
    from harness.measure import arenas

    variant = build.load(case, on="cpu")
    assert isinstance(variant, build.CpuCudaVariant), f"{case}: only CUDA kernels run thread by thread"
    given = arenas.make(case.problem, operators.of(case.problem).distributions[0], 0, "cpu")
    details = variant.counters(given, arenas.make_outputs(case.problem, "cpu"))
    return {"compiler": variant.compiler, "details": details}


def inspect(cells: Iterable[Cell], ptxas: str = "bundled") -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its row's fields (status, reason, code, compiler, mma), in order of completion."""

    def environment(cell: Cell) -> list[tuple[str, str]]:
        return sorted((build.environment_of(cell[0]) or {}).items())

    for variables, batch in groupby(sorted(cells, key=environment), key=environment):
        jobs = [(inspect_one, (case, arch, ptxas)) for case, arch in batch]
        for (_, (case, arch, _)), fields in processes.answers(jobs, dict(variables)):
            if isinstance(fields, processes.NoAnswer):
                fields = {"status": "crashed", "reason": scrub(fields.reason)}
            yield (case, arch), fields


def inspect_one(case: Case, arch: str | None, ptxas: str) -> dict[str, Any]:
    """Runs in a process of its own environment."""
    from harness.build import compiling

    if reason := declined(case):
        return {"status": "unsupported", "reason": reason}
    try:
        fields = compiling.inspect(case, arch, ptxas) if arch else count(case)
    except build.Unsupported as error:
        return {"status": "unsupported", "reason": scrub(str(error))}
    except build.Diagnosed as error:
        status = "data_race" if isinstance(error, build.DataRace) else "launch_error"
        return {"status": status, "reason": error.lines[0], "details": {"diagnosis": error.lines}}
    except Exception as error:  # whatever a compiler front end raises on a broken kernel
        status = "import_error" if isinstance(error, (ImportError, FileNotFoundError)) else "compile_error"
        return {"status": status, "reason": scrub(f"{type(error).__name__}: {error}".strip())}
    return {"status": "passed", **fields}


def row(cell: Cell, fields: Mapping[str, Any], ptxas: str = "bundled") -> dict[str, Any]:
    """The whole row of kind `code` or `counters`, but for its environment. Of `ptxas` "shared" it says so, and is told
    from the row of the same case by its language's own assembler."""
    case, arch = cell
    kind, assembler = "code" if arch else "counters", ptxas if ptxas != "bundled" else None
    sha256 = source_sha256(case)
    return making.about(case, on="cpu", source_sha256=sha256, kind=kind, arch=arch, assembler=assembler, **fields)
