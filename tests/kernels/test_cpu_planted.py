"""Bugs planted into the real kernels: each patch applies, the kernel as it is passes, and the diagnosis has its name.

A patch opens with prose, then `technique:` and `diagnosis:`; git ignores what stands before the first `diff`.
`wrong_answer` is the name for numbers that differ while every access is in order.
"""

from __future__ import annotations

import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from cuda_kernels import cpu_build
from harness.attention import reference
from harness.catalog import planted, techniques
from harness.catalog.problem import Problem
from tests.support.cpu_run import Run, copied, run

pytestmark = pytest.mark.spread

PATCHES = [bug.path for bug in planted.bugs()]
SEEDS = (0, 1, 2)
PROBLEMS = (
    Problem(1, 4, 2, 128, 640, 64, "fp16", True, "bshd"),  # five steps of 128 keys: rings of two wrap
    Problem(2, 4, 2, 256, 128, 64, "fp16", True, "bshd"),  # two batches; half of the rows see no key
)
"""Of one build. The second is small, and for bugs that are none on the first."""
RAGGED = Problem(1, 3, 1, 200, 331, 64, "fp16", True, "bshd")
"""For a kernel that takes any length, of the same build: a group of three, and warpgroups of a tile that end at another
key tile each."""
UNMASKED = Problem(1, 2, 2, 400, 640, 64, "fp16", False, "bshd")
"""For a kernel that declines masks: three tiles of 192 queries; rings of two wrap."""


def problems(name: str) -> tuple[Problem, ...]:
    technique = techniques.get(name)
    tile = techniques.reference_tile(technique, UNMASKED.head_dim)
    taken = [one for one in (*PROBLEMS, RAGGED) if not techniques.unsupported(technique, "cuda", one, tile)]
    return tuple(taken) or (UNMASKED,)


def is_right(result: Run, problem: Problem) -> bool:
    q, k, v = result.inputs.q, result.inputs.k, result.inputs.v
    o, lse = reference.truth(q, k, v, scale=problem.scale, causal=problem.causal)
    return torch.allclose(result.o.double(), o, rtol=0, atol=5e-3) and torch.allclose(
        result.lse.double(), lse, rtol=0, atol=1e-4
    )


def names(technique: str, root: Path, until: str | None = None) -> set[str]:
    """Names of the diagnoses over problems and seeds, up to the first launch that gives `until`."""
    found: set[str] = set()
    for problem, seed in product(problems(technique), SEEDS):
        result = run(technique, problem, seed=seed, root=root)
        found |= {line.partition(":")[0] for line in result.diagnosis.splitlines()}
        if not result.code and not is_right(result, problem):
            found.add("wrong_answer")
        if until in found:
            break
    return found


@cache
def names_unpatched(technique: str) -> set[str]:
    return names(technique, cpu_build.HERE)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_planted_bug_is_named(patch: Path, tmp_path: Path) -> None:
    bug = planted.read(patch)
    technique, diagnosis = bug.technique, bug.diagnosis
    root = copied(tmp_path)
    for check in (["--check"], []):
        applied = subprocess.run(
            ["git", "apply", "-p1", *check, str(patch)], cwd=tmp_path, capture_output=True, text=True
        )
        assert applied.returncode == 0, f"{patch.name} does not apply, renew it:\n{applied.stderr}"
    assert names_unpatched(technique) == set()
    assert diagnosis in names(technique, root, until=diagnosis)


def test_half_of_the_bugs_are_on_the_later_ladders() -> None:
    ladders = [techniques.get(bug.technique).ladder for bug in planted.bugs()]
    assert len(ladders) >= 20
    assert 2 * ladders.count("ampere") <= len(ladders)
