"""Compiles and reads many kernels at once: (case, architecture) -> the fields of a row of kind `code`; and runs CUDA
twins on the CPU to count what their instructions do: (case, None) -> the fields of a row of kind `counters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from harness import processes, sources, techniques, variants
from harness.environment import scrub
from harness.problem import Experiment, Problem
from harness.variants import Case

Cell = tuple[Case, str | None]
"""A case and the architecture that it is compiled for; None for the CPU, on which it is run and counted."""

MEASURED = "sm_90a"
"""The architecture of the recorded rows."""


def survey(experiment: Experiment) -> list[Cell]:
    """What a report shows: every problem on the measured architecture, the first problem on the others too."""
    names, backends, problems = experiment.techniques, experiment.backends, experiment.problems
    everywhere = cells(names, backends, problems[:1], None, experiment.name)
    return list(dict.fromkeys([*everywhere, *cells(names, backends, problems, (MEASURED,), experiment.name)]))


def cells(
    names: Iterable[str],
    backends: Sequence[str],
    problems: Sequence[Problem],
    archs: Sequence[str] | None = None,
    experiment: str = "inspect",
) -> list[Cell]:
    """Every technique at its reference tile, on `archs` or all that its ladder names.

    triton_native is a series of its own on Hopper only: elsewhere it is the same program as triton.
    """
    found: list[Cell] = []
    for name in names:
        technique = techniques.get(name)
        for arch in archs or techniques.LADDERS[technique.ladder].archs:
            for backend in sources.stated(backends, technique.path):
                if backend == "triton_native" and arch != MEASURED:
                    continue
                for problem in problems:
                    tile = techniques.reference_tile(technique, problem.head_dim)
                    found.append((Case(experiment, name, backend, problem, tile), arch))
    return found


def counted(names: Iterable[str], problems: Sequence[Problem] = ()) -> list[Cell]:
    """The CUDA twin of every technique on the CPU, at its reference tile; by default on counting's problem."""
    from harness import counting

    found: list[Cell] = []
    for name in names:
        for problem in problems or (counting.PROBLEM,):
            tile = techniques.reference_tile(techniques.get(name), problem.head_dim)
            found.append((Case("counters", name, "cuda", problem, tile), None))
    return found


def inspect(cells: Iterable[Cell], ptxas: str = "bundled") -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with its row's fields (status, reason, code, compiler, mma), in order of completion."""

    def environment(cell: Cell) -> list[tuple[str, str]]:
        return sorted((variants.environment_of(cell[0]) or {}).items())

    for variables, batch in groupby(sorted(cells, key=environment), key=environment):
        jobs = [(inspect_one, (case, arch, ptxas)) for case, arch in batch]
        for (_, (case, arch, _)), fields in processes.answers(jobs, dict(variables)):
            if isinstance(fields, processes.NoAnswer):
                fields = {"status": "crashed", "reason": scrub(fields.reason)}
            yield (case, arch), fields


def inspect_one(case: Case, arch: str | None, ptxas: str) -> dict[str, Any]:
    """Runs in a process of its own environment."""
    from harness import counting, machine_code

    assert case.technique is not None
    assert case.tile is not None
    technique = techniques.get(case.technique)
    if reason := techniques.unsupported(technique, case.backend, case.problem, case.tile):
        return {"status": "unsupported", "reason": reason}
    try:
        fields = machine_code.inspect(case, arch, ptxas) if arch else counting.count(case)
    except variants.Unsupported as error:
        return {"status": "unsupported", "reason": scrub(str(error))}
    except variants.Diagnosed as error:
        return {"status": "launch_error", "reason": error.lines[0], "details": {"diagnosis": error.lines}}
    except Exception as error:  # whatever a compiler front end raises on a broken kernel
        status = "import_error" if isinstance(error, (ImportError, FileNotFoundError)) else "compile_error"
        return {"status": status, "reason": scrub(f"{type(error).__name__}: {error}".strip())}
    return {"status": "passed", **fields}


def row(cell: Cell, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The whole row of kind `code` or `counters`, but for its environment."""
    case, arch = cell
    assert case.technique is not None
    assert case.tile is not None
    try:
        sha256 = sources.source_sha256(case.backend, techniques.get(case.technique).path)
    except FileNotFoundError:
        sha256 = None
    return {
        "kind": "code" if arch else "counters",
        "on": "cpu",
        "experiment": case.experiment,
        "technique": case.technique,
        "backend": case.backend,
        "problem": case.problem.to_dict(),
        "tile": case.tile.to_dict(),
        **({"arch": arch} if arch else {}),
        "source_sha256": sha256,
        **fields,
    }
