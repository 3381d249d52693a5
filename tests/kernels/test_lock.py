"""Locked machine code is what the compilers make: twelve programs, chosen by the commit, are compiled again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from harness.build import locking
from harness.catalog import experiments, sources, techniques
from harness.machine import processes
from harness.rows import lock
from harness.setup import doctor
from tests.support import chosen


def locked() -> Iterator[tuple[lock.Key, locking.Program, str]]:
    """(kernel, program, machine code) where the locked source is this checkout's, by a compiler that is here. Triton
    makes another program for padded tensors, which `compile_all` has not: padded gates are left out."""
    asked = (experiments.load(name) for name in experiments.names())
    padded = {problem.slug for experiment in asked if experiment.padded for problem in experiment.problems}
    for kernel in lock.read().values():
        technique = techniques.find(kernel.technique)
        here = kernel.backend in ("cuda", *techniques.SERIES) and (kernel.backend == "cuda" or kernel.ptxas[:2] == "12")
        if technique and here and kernel.source == sources.source_sha256(kernel.backend, technique.path)[: lock.DIGITS]:
            for (tile, sass), problem in kernel.cells.items():
                if kernel.backend == "cuda" or problem not in padded:
                    yield kernel.key, (problem, tile), sass


def test_programs_chosen_by_the_commit_compile_to_what_is_locked() -> None:
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    wrong, kernels = [], defaultdict[lock.Key, dict[locking.Program, str]](dict)
    for key, program, sass in chosen.by_commit(locked()):
        kernels[key][program] = sass
    for key, programs in kernels.items():
        for program, answer in locking.compile_all(lock.Kernel(*key), programs):
            said = answer.reason if isinstance(answer, processes.NoAnswer) else answer
            if said != programs[program]:
                wrong.append(f"{key[0]} {key[1]} {' '.join(program)}: {said}")
    assert not wrong
