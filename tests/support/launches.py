"""Functions of q, k, v, o, lse, scale and causal where the harness has tensors and scalars by name."""

from collections.abc import Callable
from typing import Any

from harness.measure import gate as gates
from harness.operators.protocol import Problem, Verdict


def by_name(function: Callable[..., object]) -> Callable[..., object]:
    """A function of q, k, v, o, lse, scale and causal as one of tensors and scalars."""
    return lambda tensors, scalars: function(**tensors, **scalars)


def gate(function: Callable[..., object], problem: Problem, **options: Any) -> Verdict:
    """The gate of such a function, on the CPU unless `device` says otherwise."""
    return gates.gate(by_name(function), problem, **{"device": "cpu", **options})
