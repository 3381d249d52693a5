"""Inputs with scores of -inf that are no mask, and with NaN, and what attention gives for them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from harness.operators.attention import reference
from harness.operators.attention.problem import Problem

HIDDEN = 260
"""Keys: two whole tiles and a few more."""
PROBLEMS = [
    Problem(1, 1, 1, 64, 700, head_dim, "fp16", causal) for head_dim in (64, 128, 256) for causal in (False, True)
]


def _hide(given: Mapping[str, Tensor], *keys: slice, others: float = 0.0) -> None:
    given["q"][..., -1], given["k"][..., -1] = 1, others
    for part in keys:
        given["k"][..., part, -1] = -torch.inf


def _nan(tensor: Tensor) -> None:
    tensor[0, 0, 5, 0] = torch.nan


CHANGES: dict[str, Callable[[Mapping[str, Tensor]], None]] = {
    "the first keys": lambda given: _hide(given, slice(HIDDEN)),
    "the last keys": lambda given: _hide(given, slice(-HIDDEN, None)),
    "keys at both ends": lambda given: _hide(given, slice(HIDDEN), slice(-HIDDEN, None)),
    "keys in between": lambda given: _hide(given, slice(HIDDEN // 2, HIDDEN * 3 // 2)),
    "the last keys, and low scores": lambda given: _hide(given, slice(-HIDDEN, None), others=-6e4),
    "all keys": lambda given: _hide(given, slice(None)),
    "NaN in a row of q": lambda given: _nan(given["q"]),
    "NaN in a row of k": lambda given: _nan(given["k"]),
}
"""What is -inf or NaN -> a function that makes it so in q and k, in place."""


def drawn(problem: Problem, change: str, device: str = "cpu") -> dict[str, Tensor]:
    """q, k and v: N(0, 1), changed."""
    torch.manual_seed(0)
    given = {
        name: torch.randn(1, 1, seq, problem.head_dim).half().to(device)
        for name, seq in {"q": problem.seq_q, "k": problem.seq_kv, "v": problem.seq_kv}.items()
    }
    CHANGES[change](given)
    return given


def difference(o: Tensor, lse: Tensor, given: Mapping[str, Tensor], problem: Problem) -> str:
    """How O or LSE differs from the truth, NaN where that is NaN; "" where both are right."""
    expected = reference.truth(**given, scale=problem.scale, causal=problem.causal)
    try:
        torch.testing.assert_close(o.double(), expected[0].double(), atol=4e-3, rtol=4e-3, equal_nan=True)
        torch.testing.assert_close(lse.double(), expected[1].double(), atol=2e-3, rtol=2e-3, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


Launch = Callable[[Mapping[str, Tensor], Mapping[str, Any]], object]


def differences(launch: Launch, problem: Problem, device: str = "cpu") -> dict[str, str]:
    """Change -> difference, of those for which the launch is wrong."""
    found = {}
    for change in CHANGES:
        given = drawn(problem, change, device)
        o = torch.empty_like(given["q"])
        lse = torch.empty(o.shape[:3], device=device)
        launch({**given, "o": o, "lse": lse}, {"scale": problem.scale, "causal": problem.causal})
        if wrong := difference(o, lse, given, problem):
            found[change] = wrong
    return found


def of_case(case: Any, on: str) -> dict[str, str]:
    """It runs in a process that `build.environment_of` asks for."""
    from harness import build

    return differences(build.load(case, on).launch, case.problem, "cuda" if on == "gpu" else "cpu")
