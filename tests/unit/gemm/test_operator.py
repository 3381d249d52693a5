"""The operator of matrix products: its problems, what its comparison accepts, what its checks refuse."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, linear

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.cases import of_experiment
from harness.catalog.entries import Technique, Tile
from harness.inspection.single_launch import DeviceTensor
from harness.measure import arenas
from harness.measure.gate import gate
from harness.operators.gemm.problem import CONTIGUOUS, Problem
from harness.operators.gemm.shapes import SHAPES

GEMM = operators.get("gemm")
RUNGS = GEMM.techniques


@pytest.mark.parametrize(
    "slug",
    [
        "gemm-m4096-n4096-k4096-bf16",
        "gemm-m1-n264-k8-fp16-bias",
        "gemm-m16-n8-k8-fp16-gelu-fp32",
        "gemm-m8-n8-k8-bf16-fp32",
        "gemm-m64-n8-k8-g32-bf16-fp32",
        "gemm-m8-n8-k16-bf16-mk",
        "gemm-m1-n8-k8-fp16-gelu-fp32-kn",
    ],
)
def test_a_slug_names_a_problem(slug: str) -> None:
    assert operators.parse(slug).slug == slug
    assert Problem.from_dict(Problem.parse(slug).to_dict()).slug == slug


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"m": 4, "contiguous": "mk"}, "problem.m: got 4, expected a multiple of 8"),
        ({"contiguous": "nk"}, "problem.contiguous: got 'nk', expected one of kk, mk, kn, mn"),
        ({"m": 64, "groups": 4, "contiguous": "kn"}, "problem.contiguous: got 'kn', expected kk for groups"),
    ],
)
def test_a_problem_that_no_memory_can_hold_is_refused(rest: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Problem(**{"m": 8, "n": 8, "k": 8, **rest})


def test_rows_of_products_with_k_contiguous_do_not_name_it() -> None:
    assert Problem(8, 8, 8).to_dict().keys() == {"m", "n", "k", "dtype", "epilogue", "out"}
    assert Problem(8, 8, 8, contiguous="kn").to_dict()["contiguous"] == "kn"


@pytest.mark.parametrize("size", [1024, 2048, 3072, 4096, 8192])
def test_flops_bytes_and_cells(size: int) -> None:
    problem = Problem.square(size)
    assert (problem.flops, problem.bytes) == (2 * size**3, 6 * size**2)
    assert problem.cells[1] == ("one_wave" if size <= 2048 else "many_waves")
    assert Problem(16, size, size).cells[1] == "few_rows"


def parts(count: int, dtype: torch.dtype, drop: int = 0) -> Callable[[Tensor, Tensor], Tensor]:
    """A sum over k in so many parts, each rounded to `dtype`, without the last `drop` products."""

    def multiply(a: Tensor, b: Tensor) -> Tensor:
        k = a.shape[1] - drop
        total = torch.zeros(len(a), len(b))
        for place in torch.arange(k).tensor_split(count):
            total = (total + (a[:, place].float() @ b[:, place].float().T).to(dtype).float()).to(dtype).float()
        return total

    return multiply


RIGHT = {"one sum in fp32": parts(1, torch.float32), "sixteen sums in fp32": parts(16, torch.float32)}
WRONG = {
    "four sums in bf16": (parts(4, torch.bfloat16), "max_error"),
    "four sums in fp16": (parts(4, torch.float16), "max_error"),
    "the last 8 of k dropped": (parts(1, torch.float32, 8), "max_error"),
    "the last of k dropped": (parts(1, torch.float32, 1), "max_error"),
    "zeros": (lambda a, b: torch.zeros(len(a), len(b)), "max_error"),
    "NaN": (lambda a, b: torch.full((len(a), len(b)), math.nan), "finite"),
    "one element of 4096 an ulp off": (
        lambda a, b: parts(1, torch.float32)(a, b) * (1 + 2.0**-7 * torch.eye(len(a), len(b)).cumprod(0)),
        "max_error",
    ),
}
PROBLEMS = [Problem(64, 64, 8192, dtype, "plain", out) for dtype in ("fp16", "bf16") for out in ("same", "fp32")]


@pytest.mark.parametrize(
    ("function", "declines"),
    [
        (lambda a, b: a @ b.T, {"bias", "gelu", "fp32"}),
        (lambda a, b, bias=None: linear(a, b, bias), {"gelu", "fp32"}),
        (lambda a, b, bias=None, *, out: out.copy_(linear(a, b, bias)), {"gelu"}),
        (lambda a, b, *bias, dtype, epilogue: finished(linear(a, b, *bias), epilogue).to(dtype), set()),
    ],
)
def test_a_users_function_declines_what_it_has_no_parameter_for(
    function: Callable[..., Tensor], declines: set[str]
) -> None:
    call = GEMM.adapt(function, "my.py:multiply", takes_out="out" in inspect.signature(function).parameters)
    for problem in (
        Problem(64, 64, 64, "fp16", *rest) for rest in (("plain",), ("bias",), ("gelu",), ("plain", "fp32"))
    ):
        expected = expect(problem, "normal")
        c = torch.empty(64, 64, dtype=torch.float32 if problem.out == "fp32" else torch.float16)
        tensors = {**expected.sample.tensors, "c": c}
        if {problem.epilogue, problem.out} & declines:
            with pytest.raises(NotImplementedError, match="it has no parameter"):
                call(tensors, GEMM.scalars(problem))
        else:
            answer = call(tensors, GEMM.scalars(problem))["c"]
            assert answer.dtype == c.dtype
            assert (answer.double() - expected.c).abs().max() < 0.1


def finished(c: Tensor, epilogue: str) -> Tensor:
    return gelu(c, approximate="tanh") if epilogue == "gelu" else c


@cache
def expect(problem: Problem, distribution: str) -> Any:
    return GEMM.exact(problem, GEMM.inputs(problem, distribution, 0, "cpu"))


def verdict(
    multiply: Callable[[Tensor, Tensor], Tensor], problem: Problem, distribution: str
) -> tuple[bool, str | None]:
    expected = expect(problem, distribution)
    sample = expected.sample
    dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    c = multiply(sample.tensors["a"], sample.tensors["b"]).to(dtypes[problem.c_dtype])
    found = GEMM.compare({"c": c}, expected)
    return found.passed, found.check


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.slug)
@pytest.mark.parametrize("distribution", GEMM.distributions)
@pytest.mark.parametrize("name", RIGHT)
def test_sums_in_fp32_pass(name: str, distribution: str, problem: Problem) -> None:
    assert verdict(RIGHT[name], problem, distribution) == (True, None)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.slug)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_caught_by_one_of_the_distributions(name: str, problem: Problem) -> None:
    multiply, check = WRONG[name]
    found = [verdict(multiply, problem, distribution) for distribution in GEMM.distributions]
    assert (False, check) in found


def test_bf16_in_fp16_is_found_out() -> None:
    def multiply(a: Tensor, b: Tensor) -> Tensor:
        return a.half().float() @ b.half().float().T

    assert verdict(multiply, Problem(64, 64, 128), "outliers")[0] is False


def tensors(problem: Problem) -> dict[str, Tensor]:
    sample = GEMM.inputs(problem, "normal", 0, "cpu")
    stored = arenas.Inputs(GEMM.input_specs(problem), sample).tensors
    return {**stored, "c": torch.empty(problem.m, problem.n, dtype=sample.tensors["a"].dtype)}


SMALL = Problem(16, 24, 32, "fp16")
EVERY_ORDER = [replace(SMALL, contiguous=contiguous) for contiguous in CONTIGUOUS]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda t: t.pop("b"), ValueError, "tensors: got a, c, expected a, b, c"),
        (lambda t: t.update(a=t["a"].bfloat16()), TypeError, "a.dtype: got torch.bfloat16, expected torch.float16"),
        (lambda t: t.update(b=t["b"][:16]), ValueError, r"b.shape: got \(16, 32\), expected \(24, 32\)"),
        (lambda t: t.update(a=t["a"].T.contiguous().T), ValueError, r"a.stride\(-1\): got 16, expected 1"),
        (
            lambda t: t.update(c=t["a"].new_empty(16, 27)[:, :24]),
            ValueError,
            r"c.stride\(0\): got 27, expected a multi",
        ),
        (lambda t: t.update(a=t["a"].new_empty(16, 41)[:, 1:33]), ValueError, r"a.stride\(0\): got 41"),
        (lambda t: t.update(b=t["b"].requires_grad_()), ValueError, "b.requires_grad: got True"),
        (lambda t: t.update(c=t["a"].flatten()[:384].view(16, 24)), ValueError, "c: got memory that overlaps a"),
        (lambda t: t.update(a="a"), TypeError, "a: got str, expected a torch.Tensor"),
    ],
)
def test_bad_input_is_refused_by_name(
    change: Callable[[dict[str, Tensor]], object], error: type[Exception], words: str
) -> None:
    given = tensors(SMALL)
    GEMM.validate(SMALL, given, {})
    change(given)
    with pytest.raises(error, match=words):
        GEMM.validate(SMALL, given, {})


@pytest.mark.parametrize("problem", EVERY_ORDER, ids=lambda problem: problem.contiguous)
def test_a_launch_without_torch_has_the_same_arguments(problem: Problem) -> None:
    given = tensors(problem)
    specs = {**GEMM.input_specs(problem), **GEMM.output_specs(problem)}
    named = {name: DeviceTensor(given[name].data_ptr(), spec) for name, spec in specs.items()}
    assert bytes(GEMM.structure(named, {}, None)) == bytes(GEMM.structure(given, {}, None))
    of_a, of_b = ({"m": 16, "n": 24, "k": 32}[dim] for dim in problem.contiguous)
    assert (GEMM.structure(given, {}, None).a_stride, GEMM.structure(given, {}, None).b_stride) == (of_a, of_b)


@pytest.mark.parametrize("problem", EVERY_ORDER, ids=lambda problem: problem.contiguous)
def test_tensors_stored_in_another_order_are_refused(problem: Problem) -> None:
    given = tensors(problem)
    GEMM.validate(problem, given, {})
    for name, dim in zip("ab", problem.contiguous, strict=True):
        (stride, right, wrong) = (-1, "contiguous()", given[name].T.contiguous().T)
        if dim != "k":
            (stride, right, wrong) = (0, "T.contiguous().T", given[name].contiguous())
        words = re.escape(f"{name}.stride({stride}): got {max(wrong.stride())}, expected 1; pass {name}.{right}")
        with pytest.raises(ValueError, match=words):
            GEMM.validate(problem, {**given, name: wrong}, {})


@pytest.mark.parametrize("contiguous", CONTIGUOUS[1:])
@pytest.mark.parametrize("technique", RUNGS, ids=lambda technique: technique.name)
def test_a_rung_that_reads_k_alone_says_so(technique: Technique, contiguous: str) -> None:
    problem = Problem.square(4096, contiguous=contiguous)
    tile = techniques.reference_tile(technique, problem.tile_key)
    for backend in ("cuda", "triton", "gluon"):
        reason = techniques.unsupported(technique, backend, problem, tile)
        if technique.name == "either_major":
            assert reason is None
        else:
            assert "k contiguous" in str(reason)


@pytest.mark.parametrize(
    ("name", "tile", "reason"),
    [
        ("l2_grid_order", Tile(128, 128, 3, 8), None),
        ("l2_grid_order", Tile(128, 192, 3, 8), None),
        ("l2_grid_order", Tile(128, 128, 1, 8), "stages must be 2 or more"),
        ("l2_grid_order", Tile(128, 128, 3, 8, (("block_k", 32),)), "block_k must be 64"),
        ("xor_swizzle", Tile(128, 128, 3, 8), "stages must be 1"),
        ("two_consumers", Tile(128, 192, 4, 8), None),
        ("two_consumers", Tile(128, 256, 5, 8), "shared memory"),
        ("two_consumers", Tile(256, 256, 2, 8), "block_m \\* block_n at most 4096"),
        ("pingpong", Tile(128, 128, 5, 8), None),
        ("pingpong", Tile(128, 256, 3, 8), "a tile each"),
        ("register_tiled", Tile(64, 64, 1, 8, (("block_k", 16),)), "8 x 8 elements"),
    ],
)
def test_a_tile_is_declined_with_its_reason(name: str, tile: Tile, reason: str | None) -> None:
    found = techniques.unsupported(techniques.get(f"gemm/{name}"), "cuda", Problem.square(1536), tile)
    assert (found is None) == (reason is None)
    assert reason is None or re.search(reason, str(found)), found


def test_the_scorecard_has_26_shapes() -> None:
    assert len(set(SHAPES)) == len(SHAPES) == 26
    assert {promise.experiment for promise in GEMM.promises()} == {"grid", "sustained", "grouped"}
    assert experiments.load("grid").problems == tuple(sorted(SHAPES, key=lambda problem: problem.flops))
    assert set(experiments.load("sustained").problems) < set(SHAPES)


def test_its_ladder_is_not_that_of_attention() -> None:
    found = experiments.load("gemm/ladder")
    assert {problem.operator for problem in found.problems} == {"gemm"}
    where = {one.name: {case.problem for case in of_experiment(found) if case.technique == one.name} for one in RUNGS}
    for technique in RUNGS:
        assert where[technique.name], f"{technique.name} runs nowhere"
        parent = techniques.parent(technique)
        assert parent is None or where[technique.name] & where[parent.name], f"{technique.name} without its parent"
    assert experiments.load("ladder").problems[0].operator == "attention"


SLUGS = (
    "gemm-m64-n64-k64-bf16",
    "gemm-m1-n8-k8-fp16-gelu",
    "gemm-m64-n8-k8-g4-bf16",
    "gemm-m64-n64-k64-bf16-mn",
)


def test_pages_call_problems_by_their_sizes() -> None:
    titles = [GEMM.problem_title(Problem.parse(slug)) for slug in SLUGS]
    assert titles == [
        "64 cubed  (bf16)",
        "1 x 8 x 8  (fp16, bias and GELU)",
        "64 x 8 x 8  (bf16, 4 groups)",
        "64 cubed  (bf16, m contiguous in A, n contiguous in B)",
    ]
    assert sorted(SHAPES, key=GEMM.problem_order)[0] == Problem.square(16_384)


@pytest.mark.parametrize("out", ["same", "fp32"])
def test_a_sum_over_the_padding_of_rows_is_told_as_one(out: str) -> None:
    def launch(tensors: dict[str, Tensor], _: object) -> None:
        a, b = (tensors[name].as_strided((16, 17), tensors[name].stride()) for name in ("a", "b"))
        tensors["c"].copy_(a.float() @ b.float().T)

    verdict = gate(launch, Problem(16, 16, 16, "fp16", "plain", out), device="cpu", padded=True)
    assert "between rows of an input, which is not contiguous" in str(verdict.reason)
