"""The operator of attention's backward pass: its problems, what its gate accepts, what its checks refuse."""

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import operators
from harness.catalog import experiments
from harness.catalog.cases import of_experiment
from harness.catalog.promises import FASTEST
from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention_backward import arguments, reference
from harness.operators.attention_backward.problem import Problem
from tests.conftest import CHECKOUT
from tests.support import wrong_gradients
from tests.support.wrong_gradients import CAUSAL, GROUPED, MANY_KEYS, RAGGED, SQUARE, UNSEEING, Tiled

BACKWARD = operators.get("attention_backward")
SLUG = "attention_backward-b4-h16k2-n4096-d128-bf16-causal"


def test_a_slug_names_a_problem() -> None:
    problem = operators.parse(SLUG)
    assert (problem.slug, type(problem), problem.heads_kv) == (SLUG, Problem, 2)
    assert Problem.from_dict(problem.to_dict()) == problem
    forward = operators.parse(SLUG.removeprefix("attention_backward-"))
    assert forward.operator == "attention"
    assert forward != problem


def test_five_products_are_counted() -> None:
    full, causal = (Problem.square(4, 16, 4096, 128, causal=causal) for causal in (False, True))
    assert full.flops == 5 * 2 * 4 * 16 * 4096 * 4096 * 128 == 2 * causal.flops
    assert full.least_flops == full.flops
    assert causal.least_flops == full.flops * 4097 // 8192
    assert full.bytes == 8 * 2 * 4 * 16 * 4096 * 128 + 4 * 4 * 16 * 4096


def test_names_of_experiments_are_still_those_of_earlier_operators() -> None:
    assert operators.names()[:3] == ("attention", "gemm", "attention_backward")
    for name, operator in (("ladder", "attention"), ("grid", "gemm"), ("attention_backward/grid", BACKWARD.name)):
        assert experiments.load(name).problems[0].operator == operator


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
def test_truth_is_what_autograd_gives(dtype: str, causal: bool) -> None:
    problem = Problem(1, 4, 2, 72, 136, 64, dtype, causal)
    sample = BACKWARD.inputs(problem, "normal", 0, "cpu")
    q, k, v, do = (sample.tensors[name].double() for name in ("q", "k", "v", "do"))
    inputs = tuple(tensor.requires_grad_() for tensor in (q, k, v))
    scores = q @ k.repeat_interleave(2, 1).mT * problem.scale
    if causal:
        scores = scores.masked_fill(torch.ones(72, 136).tril(136 - 72) == 0, -torch.inf)
    o = scores.softmax(-1) @ v.repeat_interleave(2, 1)
    exact = {**sample.tensors, "o": o.detach(), "lse": scores.logsumexp(-1).detach()}
    found = reference.truth(exact, **sample.scalars)
    for gradient, expected in zip(found.values(), torch.autograd.grad(o, inputs, do), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-13)
    for name in ("o", "lse"):
        info = torch.finfo(sample.tensors[name].dtype)
        rounded = sample.tensors[name].double()
        torch.testing.assert_close(rounded, exact[name], rtol=info.eps / 2, atol=info.tiny * info.eps)


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = BACKWARD.inputs(GROUPED, "shifted", 0, "cpu")
    whole = reference.truth(sample.tensors, **sample.scalars)
    monkeypatch.setattr("harness.operators.attention.reference.CHUNK_BYTES", 2**16)
    for name, gradient in reference.truth(sample.tensors, **sample.scalars).items():
        torch.testing.assert_close(gradient, whole[name], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "problem",
    [SQUARE, CAUSAL, GROUPED, RAGGED, UNSEEING, pytest.param(MANY_KEYS, marks=pytest.mark.slow)],
    ids=lambda problem: problem.slug,
)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_right_kernel_passes(problem: Problem, dtype: str) -> None:
    verdict = gates.gate(Tiled(), replace(problem, dtype=dtype), device="cpu", repeats=2)
    assert verdict.passed, verdict.reason
    assert verdict.varied == ()


class OneUlpOff(Tiled):
    """D is an ulp of fp32 larger than the exact one, as sums in another order may be."""

    def before(self, tensors: dict[str, Tensor]) -> None:
        super().before(tensors)
        self.dots *= 1 + torch.finfo(torch.float32).eps


def test_where_dp_and_d_cancel_fp32_sums_may_be_off_by_an_ulp() -> None:
    """With one key dQ and dK are nothing but that; a D that is off by what 16 bits are is found out."""
    problem = Problem(1, 1, 1, 64, 1, 64)
    verdict = gates.gate(OneUlpOff(), problem, device="cpu", repeats=2)
    assert verdict.passed, verdict.reason
    assert not gates.gate(wrong_gradients.WithoutD(), problem, device="cpu", repeats=2).passed
    gradients = BACKWARD.exact(SQUARE, BACKWARD.inputs(SQUARE, "normal", 0, "cpu")).gradients.values()
    assert all((one.arithmetic.max_abs <= one.yardstick.max_abs / 100).all() for one in gradients)


class ScoresAnUlpHigher(Tiled):
    def p_of(self, s: Tensor, lse: Tensor) -> Tensor:
        return super().p_of(s, lse).mul_(1 + torch.finfo(torch.float32).eps * s.abs())


class ScoresOffByTwoUlps(wrong_gradients.ScoresOffBySixteenUlps):
    ulps = 2


@pytest.mark.parametrize(
    ("kernel", "problem", "seed"),
    [
        (ScoresAnUlpHigher, Problem(1, 2, 2, 2210, 108, 64, "fp16"), 0),
        (ScoresOffByTwoUlps, Problem(1, 2, 2, 64, 40, 64, "fp16"), 2437),
    ],
)
def test_the_last_bits_of_scores_may_round_ds_the_other_way(kernel: type[Tiled], problem: Problem, seed: int) -> None:
    """A few dS, near the middle of two numbers, turn a small error of dQ in one row into a large one."""

    def verdict(launch: Tiled) -> gates.Verdict:
        return gates.gate(launch, problem, distributions=("negative_scores",), seeds=(seed,), device="cpu", repeats=2)

    assert verdict(kernel()).passed, verdict(kernel()).reason
    assert verdict(wrong_gradients.ScoresOffBySixteenUlps()).check == "max_error"


@pytest.mark.parametrize("problem", [SQUARE, GROUPED, CAUSAL], ids=lambda problem: problem.slug)
def test_plain_pytorch_passes_as_a_peer(problem: Problem) -> None:
    def launch(tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
        for name, gradient in reference.plain_pytorch(tensors, **scalars).items():
            tensors[name].copy_(gradient)

    assert gates.gate(launch, problem, device="cpu", peer=True).passed


@pytest.mark.parametrize("wrong", wrong_gradients.WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_kernel_is_caught(wrong: type[Tiled]) -> None:
    """On every distribution, unless its fault shows in some alone; in the way that it says."""
    for distribution in wrong.distributions or ("normal", "shifted", "negative_scores"):
        verdict = gates.gate(wrong(), wrong.problem, distributions=(distribution,), device="cpu", repeats=2)
        assert (verdict.passed, verdict.check) == (False, wrong.check), (distribution, verdict.reason)


def test_padding_that_scores_zero_shows_nowhere_else() -> None:
    """Why a distribution has scores near -120."""
    wrong = wrong_gradients.MissingKeysScoreZero
    others = [name for name in BACKWARD.distributions if name not in wrong.distributions]
    assert gates.gate(wrong(), wrong.problem, distributions=others, device="cpu", repeats=2).passed


class Varying(Tiled):
    """The last bit of dQ changes from launch to launch, as atomics change it; or much more."""

    launches, off = 0, 2.0**-10

    def scale_of_dq(self, scale: float) -> float:
        self.launches += 1
        return scale * (1 + self.off * (self.launches % 3 == 0))


def test_a_kernel_whose_bits_vary_must_say_so() -> None:
    silent = gates.gate(Varying(), SQUARE, device="cpu", repeats=3)
    assert (silent.passed, silent.check) == (False, "not_repeatable")
    told = gates.gate(Varying(), SQUARE, device="cpu", repeats=3, may_vary=True)
    assert (told.passed, told.varied) == (True, ("dq",)), told.reason


def test_a_kernel_whose_bits_may_vary_is_judged_at_every_launch() -> None:
    kernel = Varying()
    kernel.off = 0.5
    verdict = gates.gate(kernel, SQUARE, device="cpu", repeats=3, may_vary=True)
    assert (verdict.passed, verdict.check) == (False, "max_error")
    assert "launch 3" in str(verdict.reason)


def test_a_number_with_the_bits_of_poison_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given, scalars = launched(SQUARE)
    Tiled()(given, scalars)
    bits = int(given["dk"].view(torch.int16)[0, 0, 0, 0])
    monkeypatch.setitem(arenas.POISON["finite"], 2, bits)
    kernel = Varying()
    kernel.launches = 1  # the second launch, over the finite poison, differs in dQ
    verdict = gates.gate(kernel, SQUARE, distributions=("normal",), device="cpu", repeats=2, may_vary=True)
    assert (verdict.passed, verdict.varied) == (True, ("dq",)), verdict.reason


class WritesOverNanOnly(Tiled):
    def __call__(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> None:
        before = tensors["dk"][0, 0, 0].clone()
        super().__call__(tensors, scalars)
        tensors["dk"][0, 0, 0] = torch.where(before.isnan(), tensors["dk"][0, 0, 0], before)


def test_a_row_left_as_it_was_is_unwritten() -> None:
    verdict = gates.gate(WritesOverNanOnly(), SQUARE, device="cpu", repeats=2, may_vary=True)
    assert (verdict.passed, verdict.check) == (False, "unwritten")


def launched(problem: Problem = GROUPED) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    sample = BACKWARD.inputs(problem, "normal", 0, "cpu")
    q, k, v = (sample.tensors[name] for name in ("q", "k", "v"))
    outputs = {"dq": torch.empty_like(q), "dk": torch.empty_like(k), "dv": torch.empty_like(v)}
    return {**sample.tensors, **outputs}, sample.scalars


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda t: t.pop("do"), ValueError, "tensors: got q, k, v, o, lse, dq, dk, dv, expected q, k, v, o, do, lse"),
        (lambda t: t.update(do=t["do"].float()), TypeError, "do.dtype: got torch.float32, expected torch.float16"),
        (lambda t: t.update(dk=t["dq"].clone()), ValueError, r"dk.shape: got \(1, 4, 128, 64\), expected \(1, 2, 128"),
        (lambda t: t.update(dq=t["do"]), ValueError, "dq: got memory that overlaps do"),
        (lambda t: t.update(dv=t["dk"]), ValueError, "overlaps d[kv]"),
        (lambda t: t.update(dq=t["dq"][:, :1].expand(1, 4, 128, 64)), ValueError, r"dq.stride\(\): got 0 for heads"),
        (lambda t: t.update(do=t["do"].requires_grad_()), ValueError, "do.requires_grad: got True"),
        (lambda t: t.update(do=t["do"].mT.contiguous().mT), ValueError, r"do.stride\(-1\): got 128, expected 1"),
        (lambda t: t.update(do="do"), TypeError, "do: got str, expected a torch.Tensor"),
        (lambda t: t.update(lse=t["lse"].double()), TypeError, "lse.dtype: got torch.float64"),
    ],
)
def test_bad_input_is_refused_by_name(
    change: Callable[[dict[str, Tensor]], object], error: type[Exception], words: str
) -> None:
    given, scalars = launched()
    BACKWARD.validate(GROUPED, given, scalars)
    change(given)
    with pytest.raises(error, match=words):
        BACKWARD.validate(GROUPED, given, scalars)


def test_the_structure_is_that_of_the_header() -> None:
    header = (CHECKOUT / "cuda_kernels" / "attention_backward" / "attention_backward.cuh").read_text()
    body = re.sub(r"//.*", "", header.partition("struct AttentionBackwardArgs {")[2].partition("};")[0])
    kinds = {"const void*": ctypes.c_void_p, "void*": ctypes.c_void_p, "const float*": ctypes.c_void_p,
             "float*": ctypes.c_void_p, "Strides": arguments.Strides, "int32_t": ctypes.c_int32,
             "float": ctypes.c_float}  # fmt: skip
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, names = re.fullmatch(rf"({'|'.join(map(re.escape, kinds))})\s+(.+)", declaration).groups()  # type: ignore[union-attr]
        fields += [(name.strip().replace("d_o", "do"), kinds[kind]) for name in names.split(",")]
    assert fields == arguments.AttentionBackwardArgs._fields_


def test_scratch_memory_lies_one_after_another_and_has_room_for_a_last_tile() -> None:
    given, scalars = launched()
    workspace = torch.empty(arguments.scratch_bytes(GROUPED) + 64, dtype=torch.uint8)
    found = arguments.structure(given, scalars, workspace)
    rows = 4 * 1 * 4 * found.scratch_rows
    ends = [found.dq_sums + rows * 64, found.dots + rows, found.lse_log2 + rows]
    assert [found.dots, found.lse_log2, found.workspace] == ends
    for seq_q, block_m in ((1, 128), (80, 80), (128, 80), (4096, 80), (4097, 128)):
        tiles = -(-seq_q // block_m)
        assert arguments.scratch_rows(Problem(1, 1, 1, seq_q, 64, 64)) >= tiles * block_m


def of_autograd(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, *, causal: bool, scale: float):
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do}
    return tuple(reference.yardstick(tensors, scale=scale, causal=causal).values())


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda *_, **__: None, TypeError, r"mine: got NoneType, expected a tuple \(dq, dk, dv\)"),
        (lambda q, k, v, *_, **__: (q, q, v), ValueError, "mine: got dk of"),
        (lambda q, k, v, *_, **__: (q, k, 1.0), TypeError, "mine: got float for dv"),
    ],
)
def test_a_users_function_is_told_what_it_should_return(
    function: Callable[..., Any], error: type[Exception], words: str
) -> None:
    given, scalars = launched()
    with pytest.raises(error, match=words):
        BACKWARD.adapt(function, "mine", takes_out=False)(given, scalars)


def test_a_users_function_is_called_by_its_names() -> None:
    given, scalars = launched()
    found = BACKWARD.adapt(of_autograd, "mine", takes_out=False)(given, scalars)
    expected = BACKWARD.exact(GROUPED, BACKWARD.inputs(GROUPED, "normal", 0, "cpu"))
    assert BACKWARD.compare(found, expected).passed


def test_what_the_scorecard_promises_is_timed() -> None:
    for promise in BACKWARD.promises():
        experiment = experiments.load(BACKWARD.experiment(promise.experiment))
        rivals = promise.rivals if promise.theirs == FASTEST else (promise.theirs,)
        assert set(rivals) <= set(experiment.peers)
        technique = promise.technique or "flagship"
        timed = {
            case.problem
            for case in of_experiment(experiment)
            if (case.technique, case.backend) == (technique, promise.ours)
        }
        assert timed == set(experiment.problems)


def test_a_shard_of_the_grid_has_one_kernel_of_each_rung() -> None:
    grid = experiments.load("attention_backward/grid")
    for number in range(4):
        assert len({(one.head_dim, one.causal) for one in grid.problems[number::4]}) == 1
    assert {problem.head_dim for problem in grid.problems} == {64, 128}
    assert {problem.heads // problem.heads_kv for problem in grid.problems} == {1, 8}
