"""`check` and `bench` as functions, for work on a kernel from Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from harness.measure.own import Chosen
    from harness.operators.protocol import Operator, Problem

Kernel = Callable[..., Any] | str
"""A function at the top level of a file, "my_kernel.py:attend", "my_kernel.cu", or a technique's name."""


def check(
    kernels: Kernel | Sequence[Kernel],
    problems: str | Problem | Sequence[str | Problem] | None = None,
    *,
    on: str | None = None,
    tile: str | None = None,
    operator: str | None = None,
) -> pandas.DataFrame:
    """Checks kernels against the exact result: their error may be at most twice that of a careful 16-bit computation.

    A function is called as its operator says: `harness.operators.get(NAME).calling`. If it has a parameter `out`, it
    writes the first output into that. It raises NotImplementedError for what it does not support.

    `problems`: slugs, which say the operator too; by default those of the operator's experiment correctness, or for
    your own kernels 20 that have each value of each field, and most pairs of values. `operator`: its name, for your own
    kernels without `problems`; by default the first. `on`: gpu or cpu; by default gpu if there is one. `tile`: the tile
    that a .cu file is built for, such as "128x64-s2-w8".

    Returns one line for each kernel and problem: kernel, backend, problem, tile, status, check, reason, label, error
    (divided by the yardstick's, the worst of all distributions; at most 2), registers, spill_bytes. A kernel that
    crashes, hangs or is wrong is a line, not an exception. `attrs["rows"]` is the file of the rows.

    Functions run in a process of their own, which imports their file. In a script, call `check` below
    `if __name__ == "__main__":`.

    Raises ValueError for an unknown kernel, problem or tile, and for a problem whose launch takes a CPU minutes;
    TypeError for arguments of other types; RuntimeError if the device is missing, or if the call is in a file that is
    being imported to be checked.
    """
    from harness.cli.measuring import ON_A_CPU
    from harness.cli.options import gpu_is_here, load_experiment
    from harness.cli.output import one_off_file
    from harness.measure import effort, own, runner

    place = on or ("gpu" if gpu_is_here() else "cpu")
    if place not in ("gpu", "cpu"):
        raise ValueError(f"on: got {on!r}, expected gpu or cpu")
    chosen, named = _chosen(kernels, tile, peers=()), _problems(problems)
    which = _operator(chosen, named, operator)
    experiment = load_experiment(which.experiment("correctness"), place)
    backends = tuple(backend for backend in chosen.backends if backend in experiment.backends)
    default = own.problems(which, place) if chosen.kernels else experiment.problems
    wanted = replace(experiment, problems=named or default, peers=())
    cases = own.cases(wanted, replace(chosen, backends=backends), None)
    if place == "gpu":
        _require_gpu("check(on='gpu')")
    else:
        effort.refuse_hours(cases)
    path = one_off_file("check")
    gate = ON_A_CPU if place == "cpu" else {}
    rows = runner.run(wanted, on=place, path=path, selected=cases, gate=gate, patient=False)
    return frame(rows, str(path))


def bench(
    kernels: Kernel | Sequence[Kernel],
    problem: str | Problem | Sequence[str | Problem] | None = None,
    *,
    backends: Sequence[str] | None = None,
    tile: str | None = None,
    mode: str = "burst",
    operator: str | None = None,
) -> pandas.DataFrame:
    """Checks kernels, then times them on this machine's GPU, interleaved in one process, with a cold L2 cache.

    `kernels` are those that `check` takes, and names of libraries. If all of them are your own, the three fastest
    recorded techniques and two libraries are timed too. `problem`: by default the operator's `benchmark`. `backends`:
    in which languages techniques are timed; by default in all. `mode`: burst, sustained or idle.

    Returns one line for each kernel and problem, fastest first: the columns of `check`, and ms (the median), tflops and
    group. Only lines of one group were interleaved, so compare only these. Raises what `check` raises, and ValueError
    for an unknown backend or mode.
    """
    from harness.catalog.entries import NamedExperiment
    from harness.cli.output import one_off_file
    from harness.measure import own, runner, timing
    from harness.operators import peers

    if mode not in timing.MODES:
        raise ValueError(f"mode: got {mode!r}, expected one of {', '.join(timing.MODES)}")
    chosen = _chosen(kernels, tile, peers=peers())
    if unknown := [backend for backend in backends or () if backend not in chosen.backends]:
        raise ValueError(f"backends: got {unknown[0]!r}, expected some of {', '.join(chosen.backends)}")
    chosen = replace(chosen, backends=tuple(backends or chosen.backends))
    named = _problems(problem)
    problems = named or (_operator(chosen, named, operator).benchmark,)
    experiment = NamedExperiment(name="bench", problems=problems, peers=(), modes=(mode,))
    _require_gpu("bench")
    path = one_off_file("bench")
    cases = own.beside_the_best(experiment, chosen)
    return frame(runner.run(experiment, on="gpu", path=path, selected=cases), str(path))


def frame(rows: Iterable[Mapping[str, Any]], path: str) -> pandas.DataFrame:
    """The lines of `check` and `bench` from a run's rows: for each case the newest timing, else its gate."""
    import pandas

    from harness.rows import reading, results

    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        what = results.what(row)
        if what not in ("gate", "timing") and (what, row.get("status")) != ("cupti", "implausible"):
            continue
        about = {
            "kernel": reading.name_of(row) or row["backend"],
            "backend": row["backend"],
            "problem": reading.slug(row),
            "tile": reading.tile_slug(row),
        }
        line = lines.setdefault(tuple(about.values()), about)
        line |= {name: row.get(name) for name in ("status", "check", "reason")}
        line["label"] = (row.get("details") or {}).get("label") or line.get("label", "")
        if what == "gate":
            errors = reading.error_over_yardstick(row).values()
            line["error"] = max((error for error in errors if error is not None), default=None)
            line |= {name: (row.get("code") or {}).get(name) for name in ("registers", "spill_bytes")}
        elif what == "timing" and row.get("samples_ms"):
            line |= {"ms": reading.median_ms(row), "tflops": reading.tflops(row), "group": row["group"]}
    table = pandas.DataFrame(lines.values())
    table.attrs["rows"] = path
    if "ms" in table:
        return table.sort_values(["problem", "ms"], ignore_index=True)
    return table


def _chosen(kernels: Kernel | Sequence[Kernel], tile: str | None, peers: Sequence[str]) -> Chosen:
    from harness.catalog.entries import Tile
    from harness.measure import own

    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", "") == "harness.measure.isolated":
        raise RuntimeError(
            "check, bench: got a call while the process that measures imports your file; put it below "
            '`if __name__ == "__main__":`'
        )
    things = [kernels] if isinstance(kernels, str | PathLike) or callable(kernels) else kernels
    if not isinstance(things, Iterable) or not (things := list(things)):
        raise TypeError(f"kernels: got {kernels!r}, expected a function, a name, a file, or some of them")
    if not isinstance(tile, str | None):
        raise TypeError(f"tile: got {tile!r}, expected a slug such as '128x64-s2-w8'")
    named = [str(thing) if isinstance(thing, PathLike) else thing for thing in things]
    return own.choose(named, peers, Tile.parse(tile) if tile else None)


def _problems(problems: str | Problem | Sequence[str | Problem] | None) -> tuple[Problem, ...]:
    from harness import operators

    known: tuple[type, ...] = (str, *(operator.problem for operator in operators.every()))
    several: Any = [problems] if isinstance(problems, known) else () if problems is None else problems
    if not isinstance(several, Iterable) or not all(isinstance(one, known) for one in several):
        example = operators.every()[0].problem.example
        raise TypeError(f"problems: got {several!r}, expected slugs such as {example!r}")
    return tuple(operators.parse(one) if isinstance(one, str) else one for one in several)


def _operator(chosen: Chosen, problems: Sequence[Problem], name: str | None) -> Operator:
    """The operator of the techniques and problems. Raises ValueError where they are of several."""
    from harness import operators
    from harness.catalog import techniques

    found = {techniques.get(rung).operator for rung in chosen.rungs} | {problem.operator for problem in problems}
    found |= {name} if name else set()
    if len(found) > 1:
        raise ValueError(f"operator: got {' and '.join(sorted(found))} together, expected kernels and problems of one")
    return operators.get(next(iter(found), operators.FIRST))


def _require_gpu(what: str) -> None:
    from harness.cli.options import gpu_is_here

    if not gpu_is_here():
        raise RuntimeError(
            f"{what} needs a GPU: torch sees none; `twinkernels doctor` says what is missing, and check(on='cpu') "
            "needs none"
        )
