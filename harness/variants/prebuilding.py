"""Compiling ahead of loading: many kernels at once, so that a run does not wait for one compiler after another."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any

from harness import techniques
from harness.variants.case import Case, environment_of
from harness.variants.cuda import build_cuda, constants, gpu_arch
from harness.variants.triton import note_compile_time, triton_specialization


def prebuild(cases: Iterable[Case], progress: Callable[[int, int, str], None] | None = None) -> None:
    """Compiles the kernels of all cases in parallel, as this GPU will load them: CUDA libraries in threads that wait
    for nvcc, Triton programs in processes that have their environment. `progress(done, total, label)` follows each.

    A kernel that does not compile is left for `load` and the first launch, which say so in its row.
    """
    arch = gpu_arch()
    libraries: dict[Any, Case] = {}
    programs: dict[Any, dict[Any, Case]] = {}
    for case in cases:
        if case.technique is None or case.tile is None:
            continue
        technique = techniques.get(case.technique)
        if techniques.unsupported(technique, case.backend, case.problem, case.tile):
            continue
        if case.backend == "cuda":
            libraries[(technique.path, *sorted(constants(case).items()))] = case
        else:
            environment = tuple(sorted((environment_of(case) or {}).items()))
            programs.setdefault(environment, {})[technique.path, case.problem, case.tile] = case
    total = len(libraries) + sum(len(group) for group in programs.values())
    done = 0

    def follow(futures: Iterable[Future[str]]) -> None:
        nonlocal done
        for future in as_completed(futures):
            done += 1
            if progress:
                progress(done, total, "(failed)" if future.exception() else future.result())

    cores = len(os.sched_getaffinity(0))  # runs on several GPUs of a host share its cores by taskset
    with ThreadPoolExecutor(cores) as pool:
        follow([pool.submit(_build_library, case, arch) for case in libraries.values()])
    for environment, group in programs.items():
        jobs, spawn = min(len(group), cores), multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, spawn, initializer=_set_environment, initargs=(environment,)) as processes:
            follow([processes.submit(_compile_program, case, arch) for case in group.values()])


def _build_library(case: Case, arch: str) -> str:
    from harness import machine_code

    machine_code.disassemble(build_cuda(case, arch).library)  # the gate wants it: here it is read in parallel
    return str(case)


def _set_environment(variables: Iterable[tuple[str, str]]) -> None:
    os.environ.update(variables)


def _compile_program(case: Case, arch: str) -> str:
    """Leaves the Triton program in Triton's cache, where the launcher finds it."""
    from triton import knobs

    from harness import machine_code

    knobs.compilation.listener = note_compile_time
    machine_code.read_triton(triton_specialization(case, arch).compile())
    return str(case)
