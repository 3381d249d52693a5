"""Every CUDA twin computes the right answer on the CPU, without a diagnosis."""

from __future__ import annotations

import pytest
import torch

from harness import reference, techniques
from harness.problem import Problem
from tests.cpu_run import run


def check(name: str, problem: Problem, seed: int = 0, distribution: str = "normal") -> None:
    result = run(name, problem, seed=seed, distribution=distribution)
    assert result.diagnosis == ""
    assert result.code == 0
    q, k, v = result.inputs.q, result.inputs.k, result.inputs.v
    o, lse = reference.truth(q, k, v, scale=problem.scale, causal=problem.causal)
    nearest, _ = reference.yardstick(q, k, v, scale=problem.scale, causal=problem.causal)
    allowed = 2 * (nearest.double() - o).abs().max() + 1e-5
    assert (result.o.double() - o).abs().max() <= allowed
    torch.testing.assert_close(result.lse.double(), lse, rtol=1e-5, atol=1e-5)
    assert result.inputs.unchanged()


PROBLEMS = (
    Problem(1, 2, 1, 128, 256, 128, "bf16", True, "bshd"),
    Problem(2, 2, 2, 256, 128, 64, "fp16", True, "bhsd"),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.slug)
@pytest.mark.parametrize("name", [technique.name for technique in techniques.TECHNIQUES])
def test_right(name: str, problem: Problem) -> None:
    check(name, problem, seed=1)
