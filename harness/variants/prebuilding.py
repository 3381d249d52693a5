"""Compiling ahead of loading: many kernels at once, so that a run does not wait for one compiler after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness import processes, techniques
from harness.variants.case import Case, environment_of
from harness.variants.cuda import build_cuda, constants, gpu_arch
from harness.variants.triton import compile_triton


def prebuild(
    cases: Iterable[Case],
    progress: Callable[[int, int, str], None] | None = None,
    *,
    seconds: float = 300.0,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Compiles the kernels of all cases in parallel, as this GPU will load them, in processes that have their
    environment. `progress(done, total, label)` follows each.

    Who takes longer than `seconds` is ended, and all are as soon as `stop()`. A kernel that does not compile is left
    for `load` and the first launch, which say so in its row.
    """
    arch = gpu_arch()
    jobs: dict[tuple[tuple[str, str], ...], dict[Any, processes.Job]] = {}
    for case in cases:
        if case.technique is None or case.tile is None:
            continue
        technique = techniques.get(case.technique)
        if techniques.unsupported(technique, case.backend, case.problem, case.tile):
            continue
        if case.backend == "cuda":
            jobs.setdefault((), {})[technique.path, *sorted(constants(case).items())] = _build_library, (case, arch)
        else:
            environment = tuple(sorted((environment_of(case) or {}).items()))
            program = technique.path, case.problem, case.tile
            jobs.setdefault(environment, {})[program] = _compile_program, (case, arch)
    done, total = 0, sum(map(len, jobs.values()))
    for environment, group in jobs.items():
        found = processes.answers(group.values(), dict(environment), seconds=seconds, stop=stop)
        for (_, (case, _)), answer in found:
            done += 1
            if progress:
                progress(done, total, f"{case} (failed)" if isinstance(answer, processes.NoAnswer) else str(case))


def _build_library(case: Case, arch: str) -> None:
    from harness import machine_code

    machine_code.disassemble(build_cuda(case, arch).library)  # the gate wants it: here it is read in parallel


def _compile_program(case: Case, arch: str) -> None:
    """Leaves the Triton program in Triton's cache, where the launcher finds it."""
    from harness import machine_code

    machine_code.read_triton(compile_triton(case, arch))
