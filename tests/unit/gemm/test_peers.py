"""Libraries of matrix products, by stand-ins for those that are not installed."""

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness import build
from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.gemm import libraries, peers
from harness.operators.gemm.problem import CONTIGUOUS, Problem

PROBLEM = Problem(64, 64, 128)
GROUPS = Problem(64, 64, 128, groups=9)


class Matmul:
    """nvmath's, with two algorithms of which the heuristics name the slower one first."""

    plans: list[Any] = []  # noqa: RUF012 - of all instances

    def __init__(self, a: Any, b: Any, options: Any) -> None:
        self.a, self.b = a, b

    def plan(self, preferences: Any = None, algorithms: Any = None) -> list[str]:
        self.plans.append(preferences or list(algorithms))
        return ["first", "second"]

    def execute(self, algorithm: str) -> Any:
        assert algorithm == "second"
        return self.a @ self.b


def variant(monkeypatch: pytest.MonkeyPatch, backend: str, problem: Problem = PROBLEM, **functions: Any) -> Any:
    """The peer, whose library has these functions."""
    name = libraries.LIBRARIES[backend].module
    for module in {name.partition(".")[0], name}:
        stand_in = ModuleType(module)
        vars(stand_in).update(functions)
        monkeypatch.setitem(sys.modules, module, stand_in)
    return build.PeerVariant(build.Case("peers", None, backend, problem, None))


def test_the_best_of_the_heuristics_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matmul, "plans", [])
    monkeypatch.setattr(peers, "_fastest", lambda product, algorithms: algorithms[-1])
    library = variant(monkeypatch, "cublaslt", Matmul=Matmul)
    verdict = gates.gate(library.launch, PROBLEM, distributions=("normal", "positive"), device="cpu", peer=True)
    assert verdict.passed, verdict.reason
    assert Matmul.plans == [{"limit": peers.HEURISTICS}, ["second"]]


def test_a_library_that_compiles_itself_says_how_long_its_first_launch_took(monkeypatch: pytest.MonkeyPatch) -> None:
    def multiply(a: Any, b: Any, c: Any) -> None:
        c.copy_(a @ b.T)

    library = variant(monkeypatch, "deep_gemm", bf16_gemm_nt=multiply)
    assert library.of_compilers()["compile_s"] is None
    verdict = gates.gate(library.launch, PROBLEM, distributions=("normal",), device="cpu", peer=True)
    assert verdict.passed, verdict.reason
    first = library.of_compilers()["compile_s"]
    assert first > 0
    inputs, outputs = arenas.make(PROBLEM, "normal", 0, "cpu"), arenas.make_outputs(PROBLEM, "cpu")
    library.launch({**inputs.tensors, **outputs.tensors}, inputs.scalars)
    assert library.of_compilers()["compile_s"] == first
    quack = variant(monkeypatch, "quack", gemm=lambda a, b, out: out.copy_(a @ b))
    assert gates.gate(quack.launch, PROBLEM, distributions=("normal",), device="cpu", peer=True).passed


@pytest.mark.parametrize("contiguous", CONTIGUOUS)
def test_cublas_gets_matrices_in_the_order_of_the_problem(contiguous: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(PROBLEM, contiguous=contiguous)
    monkeypatch.setattr(peers, "_fastest", lambda product, algorithms: algorithms[-1])
    got = list[tuple[bool, bool]]()

    class Ordered(Matmul):
        def execute(self, algorithm: str) -> Any:
            got.append((self.a.stride(1) == 1, self.b.stride(0) == 1))
            return super().execute(algorithm)

    for library in (
        build.PeerVariant(build.Case("peers", None, "cublas", problem, None)),
        variant(monkeypatch, "cublaslt", problem, Matmul=Ordered),
    ):
        assert gates.gate(
            library.launch, problem, distributions=("normal",), device="cpu", peer=True, padded=True
        ).passed
    assert set(got) == {(contiguous[0] == "k", contiguous[1] == "k")}


@pytest.mark.parametrize("backend", libraries.GROUPED_RIVALS)
def test_a_library_multiplies_groups(backend: str) -> None:
    library = build.PeerVariant(build.Case("peers", None, backend, GROUPS, None))
    assert gates.gate(library.launch, GROUPS, device="cpu", peer=True, padded=True).passed


@pytest.mark.parametrize(
    ("backend", "problem", "words"),
    [
        ("cublaslt", replace(PROBLEM, epilogue="bias"), "plain products"),
        ("deep_gemm", replace(PROBLEM, dtype="fp16"), "use bf16"),
        ("inductor", replace(PROBLEM, out="fp32"), "the dtype of their inputs"),
        ("inductor", GROUPS, "one product"),
        ("quack", GROUPS, "one product"),
        ("deep_gemm", GROUPS, "multiples of 128 rows"),
        ("deep_gemm", replace(PROBLEM, contiguous="mk"), "with k contiguous"),
        ("quack", replace(PROBLEM, contiguous="kn"), "with k contiguous"),
        ("cublas", replace(GROUPS, out="fp32"), "the dtype of their inputs"),
        ("torch_grouped", PROBLEM, "timed on groups"),
        ("torch_grouped", replace(GROUPS, dtype="fp16"), "no kernel for other dtypes"),
    ],
)
def test_a_library_declines_what_it_cannot(backend: str, problem: Problem, words: str) -> None:
    with pytest.raises(build.Unsupported, match=words):
        build.PeerVariant(build.Case("peers", None, backend, problem, None))
