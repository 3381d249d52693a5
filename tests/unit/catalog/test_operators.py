"""Names of operators, and what is asked of the operators by name."""

from dataclasses import replace

import pytest

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.cases import Case
from harness.operators.attention.problem import Problem


def test_a_name_that_several_operators_have_needs_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    exp2 = techniques.get("exp2_softmax")
    assert techniques.get("attention/exp2_softmax") is exp2
    assert (techniques.shown(exp2), techniques.key(exp2)) == ("exp2_softmax", "exp2_softmax")
    others = [replace(exp2, name=name, operator=of) for name in ("exp2_softmax", "rows") for of in ("conv", "fft")]
    monkeypatch.setattr(techniques, "TECHNIQUES", (*techniques.TECHNIQUES, *others))
    assert techniques.get("conv/exp2_softmax") is others[0]
    assert techniques.shown(exp2) == "attention/exp2_softmax"
    assert [techniques.key(one) for one in (exp2, others[0])] == ["exp2_softmax", "conv/exp2_softmax"]
    assert techniques.of_qualified("exp2_softmax") is exp2, "as recorded rows and the lock call it"
    three = "attention/exp2_softmax or conv/exp2_softmax or fft/exp2_softmax"
    with pytest.raises(ValueError, match=f"got 'exp2_softmax', expected {three}"):
        techniques.get("exp2_softmax")
    with pytest.raises(ValueError, match="got 'rows', expected conv/rows or fft/rows"):
        techniques.get("rows")


def test_a_problem_says_the_operator_of_a_name() -> None:
    scalar = techniques.get("attention/scalar")
    problem = Problem.square(1, 1, 128, 64)
    assert techniques.at("scalar", problem) is scalar, "the problem says the operator"
    assert Case("x", "attention/scalar", "cuda", problem, None).technique == "scalar"


SLUGS = {
    "b4-h16": "expected a slug such as b4-h16-n4096-d128-bf16-causal",
    "attention_backward-b4-h16": "it has no length",
    "attention_backward-b4-h16-n64-d64-fp8-full": "its dtype is 'fp8'",
    "gemm-m16-n16-k16": "expected a slug such as gemm-m4096-n4096-k4096-bf16",
    "gemm-m16-n16-k12-bf16": "problem.k: got 12, expected a multiple of 8",
    "gemm-m0-n16-k16-bf16": "problem.m: got 0, expected a positive integer",
    "gemm-m16-n16-k16-g9-bf16": "problem.groups: got 9, expected at most half of m = 16",
    "gemm-m16-n16-k16-g2-bf16-bias": "problem.epilogue: got 'bias', expected plain for groups",
}


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        *((lambda slug=slug: operators.parse(slug), ValueError, words) for slug, words in SLUGS.items()),
        (lambda: operators.get("gem"), KeyError, "operator: got 'gem', expected one of attention"),
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
    assert experiments.load("attention/ladder") == experiments.load("ladder")
