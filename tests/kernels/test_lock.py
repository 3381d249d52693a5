"""Locked machine code is what the compilers make: twelve programs, chosen by the commit, are compiled again."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from random import Random

import pytest

from harness.catalog import sources, techniques
from harness.machine import processes
from harness.rows import lock
from harness.setup import doctor
from harness.variants import locking

COUNT = 12


def chosen() -> list[tuple[lock.Kernel, locking.Program]]:
    """Of kernels whose locked source is this checkout's, by a compiler that is here."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=sources.ROOT, capture_output=True, text=True).stdout
    found = []
    for kernel in lock.read().values():
        technique = techniques.find(kernel.technique)
        here = kernel.backend in ("cuda", *techniques.SERIES) and (kernel.backend == "cuda" or kernel.ptxas[:2] == "12")
        if technique and here and kernel.source == sources.source_sha256(kernel.backend, technique.path)[: lock.DIGITS]:
            found += [(kernel, (problem, tile, sass)) for (tile, sass), problem in kernel.cells.items()]
    return Random(commit.strip()).sample(found, min(COUNT, len(found)))


def test_programs_chosen_by_the_commit_compile_to_what_is_locked() -> None:
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    wrong, kernels = [], defaultdict(dict)
    for kernel, (problem, tile, sass) in chosen():
        kernels[kernel.key][problem, tile] = kernel, sass
    for programs in kernels.values():
        kernel = next(iter(programs.values()))[0]
        for program, answer in locking.compile_all(kernel, programs):
            said = answer.reason if isinstance(answer, processes.NoAnswer) else answer
            if said != programs[program][1]:
                wrong.append(f"{kernel.technique} {kernel.backend} {' '.join(program)}: {said}")
    assert not wrong
