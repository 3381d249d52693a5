"""Names of operators, and what is asked of the operators by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.cases import Case
from harness.operators.attention.problem import Problem


def test_a_bare_name_is_the_first_operators_and_else_the_error_lists_all(monkeypatch: pytest.MonkeyPatch) -> None:
    scalar = techniques.get("scalar")
    assert techniques.get("attention/scalar") is scalar
    others = [replace(scalar, name=name, operator=of) for name in ("scalar", "rows") for of in ("conv", "fft")]
    monkeypatch.setattr(techniques, "_others", others)
    assert techniques.get("scalar") is scalar
    assert techniques.get("conv/scalar") is others[0]
    assert [techniques.shown(one) for one in (scalar, others[0])] == ["scalar", "conv/scalar"]
    with pytest.raises(KeyError, match="got 'rows', expected one of conv/rows, fft/rows"):
        techniques.get("rows")
    problem = Problem.square(1, 1, 128, 64)
    assert techniques.at("scalar", problem) is scalar, "the problem says the operator"
    assert Case("x", "attention/scalar", "cuda", problem, None).technique == "scalar"


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: operators.get("gem"), KeyError, "operator: got 'gem', expected one of attention"),
        (lambda: operators.parse("b4-h16"), ValueError, "expected a slug such as b4-h16-n4096-d128-bf16-causal"),
        (lambda: operators.parse("b4-h16", "gem"), KeyError, "operator: got 'gem'"),
        (lambda: techniques.get("attention/absent"), KeyError, "technique: got 'attention/absent', expected one of"),
        (
            lambda: experiments.load("absent"),
            ModuleNotFoundError,
            "experiment: got 'absent', expected one of any_length",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(ask: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ask()  # type: ignore[operator]


def test_a_slug_names_its_operator() -> None:
    assert operators.parse("b1-h2-n128-d64-fp16-full") == Problem.square(1, 2, 128, 64, dtype="fp16")
    assert operators.of(Problem.square(1, 1, 128, 64)).name == "attention"
    assert experiments.load("attention/ladder") is experiments.load("ladder")
