"""The checker is itself tested: right kernels pass, and every wrong one is rejected wherever it is wrong."""

import json
import math
import re
from dataclasses import replace

import pytest
import torch

from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention import inputs, reference
from harness.operators.attention.problem import Problem
from tests.support.launches import gate
from tests.support.wrong_kernels import RAGGED, SQUARE, WRONG, OIn16Bits, StaleOutput, Tiled, around

SHAPES = {
    "grouped": {"heads": 4, "heads_kv": 2, "seq_q": 128, "seq_kv": 128},
    "ragged, more keys": {"heads": 2, "heads_kv": 1, "seq_q": 70, "seq_kv": 203},
    "masked rows": {"heads": 2, "heads_kv": 2, "seq_q": 150, "seq_kv": 97},
    "one query": {"heads": 3, "heads_kv": 1, "seq_q": 1, "seq_kv": 257},
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tensors are small: two threads that wait for each other on a busy machine take ten times as long as one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, pytest.param(128, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_right_kernel_passes(shape, dtype, head_dim, causal):
    layout = "bshd" if (dtype == "bf16") == (head_dim == 128) else "bhsd"  # each with both values of all others
    problem = Problem(batch=2, head_dim=head_dim, dtype=dtype, causal=causal, layout=layout, **SHAPES[shape])
    verdict = gate(Tiled(), problem, repeats=2, padded=layout == "bshd")
    assert verdict.passed, verdict.reason
    assert verdict.status == "passed"
    assert list(verdict.numerics) == list(inputs.DISTRIBUTIONS)
    # Far from the limits, so that a GPU's other roundings pass, too.
    for figures in verdict.numerics.values():
        assert figures["max_error_used"] < 0.75
        assert figures["rel_l2_used"] < 0.85
        assert figures["lse_max_abs"] < 0.25 * figures["lse_tolerance"]


class Fp32Throughout(Tiled):
    """Rounds nothing but its output."""

    def product(self, p, v_tile):
        return p @ v_tile.float()


class Reversed(Tiled):
    """Takes the last keys first; under a causal mask the first tiles are hidden from most rows."""

    def starts(self, seq_kv):
        return reversed(super().starts(seq_kv))


class SplitKV(Tiled):
    """Two parts of the keys, each for itself; put together in fp32 by their log-sum-exp."""

    def attend(self, q, k, v, scale, causal):
        self.whole, middle, parts = len(k), (len(k) + 1) // 2, []
        for begin, end in ((0, middle), (middle, len(k))):
            self.begin = begin
            if end > begin:
                parts.append(super().attend(q, k[begin:end], v[begin:end], scale, causal))
        o, lse = (torch.stack(each) for each in zip(*parts, strict=True))
        total = lse.logsumexp(0)
        weight = (lse - total.masked_fill(total == -math.inf, 0.0)).exp()
        return (o * weight[..., None]).sum(0), total

    def last_key(self, row, seq_q, seq_kv):
        return super().last_key(row, seq_q, self.whole) - self.begin


class Lazy(Tiled):
    """Moves the running max only where it grows by more than 2^2."""

    def new_max(self, row_max, s):
        grown = torch.maximum(row_max, s.amax(1, keepdim=True))
        return torch.where(grown - row_max > 2.0, grown, row_max)


class QuarticExp(Tiled):
    """Every exp2 by a polynomial of degree 4 over the fraction: 4e-6 off at most."""

    coefficients = (1.000003597, 0.692969551, 0.241621323, 0.051717735, 0.013683983)

    def p_of(self, exponent):
        exponent = exponent.clamp(min=-126.0)
        fraction = exponent - exponent.floor()
        value = sum(factor * fraction**power for power, factor in enumerate(self.coefficients))
        return torch.ldexp(value, exponent.floor().int()).masked_fill(exponent == -126.0, 0.0)


class OddTilesFirst(Tiled):
    """Odd tiles of keys, then even ones."""

    def starts(self, seq_kv):
        tiles = list(super().starts(seq_kv))
        return tiles[1::2] + tiles[::2]


RIGHT = (Fp32Throughout, Reversed, SplitKV, Lazy, QuarticExp, OddTilesFirst)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", RIGHT)  # the gate remembers the exact results of one problem
@pytest.mark.parametrize("lengths", [(128, 256), (100, 77), (70, 203)])
@pytest.mark.parametrize(("causal", "dtype"), [(False, "bf16"), (True, "fp16")])
def test_no_false_alarm_on_another_right_way(causal, dtype, lengths, kernel):
    verdict = gate(kernel(), Problem(2, 2, 1, *lengths, 64, dtype, causal), repeats=2, padded=True)
    assert verdict.passed, verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("block_n", [16, 32, 48, 80, 128, 256])
def test_the_tile_of_a_right_kernel_does_not_matter(block_n):
    kernel = Tiled()
    kernel.block_n = block_n
    assert gate(kernel, OIn16Bits.problem, repeats=2).passed


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_no_false_alarm_at_any_length(causal):
    """Every length from 1 over two tiles: as many queries as keys, fewer and more."""
    for seq in range(1, 131):
        seq_kv = (seq, 131 - seq, seq + 64)[seq % 3]
        problem = Problem(1, 1, 1, seq, seq_kv, 64, ("bf16", "fp16")[seq % 2], causal)
        verdict = gate(Tiled(), problem, distributions=("normal", "negative_scores"), repeats=2, padded=True)
        assert verdict.passed, f"{problem.slug}: {verdict.reason}"


CELLS = [
    pytest.param(dtype, kernel, distribution, marks=[pytest.mark.slow] if dtype == "fp16" else [])
    for dtype in ("fp16", "bf16")
    for kernel in sorted(WRONG, key=lambda one: str(one.problem))
    for distribution in inputs.DISTRIBUTIONS
    if dtype == "bf16" or dtype in kernel.right_in or distribution not in kernel.right_on  # which is stated for bf16
]


@pytest.mark.parametrize(("dtype", "kernel", "distribution"), CELLS)
def test_a_wrong_kernel_is_rejected_where_it_is_wrong(dtype, kernel, distribution):
    problem = replace(kernel.problem, dtype=dtype)
    verdict = gate(kernel(), problem, distributions=(distribution,), repeats=2, padded=kernel.padded)
    if distribution in kernel.right_on or dtype in kernel.right_in:
        assert verdict.passed, f"right_on claims {distribution}: {verdict.reason}"
    else:
        assert not verdict.passed
        assert verdict.status == "wrong"
        assert distribution in verdict.reason


class SumOfRoundedP(Tiled):
    """Sums P as the product with V takes it."""

    def summed(self, p, dtype):
        return p.to(dtype).float()


class TaylorExp(Tiled):
    """Every exp2 by a polynomial of degree 3 about the nearest integer: up to 7e-4 too small."""

    coefficients = (1.0, math.log(2), math.log(2) ** 2 / 2, math.log(2) ** 3 / 6)
    whole = staticmethod(torch.round)

    def p_of(self, exponent):
        exponent = exponent.clamp(min=-126.0)
        whole = self.whole(exponent)
        value = sum(factor * (exponent - whole) ** power for power, factor in enumerate(self.coefficients))
        return torch.ldexp(value, whole.int()).masked_fill(exponent == -126.0, 0.0)


class MinimaxExp(TaylorExp):
    """The best polynomial of degree 3, FlashAttention-4's: 9e-5 off at most, now too small and now too large."""

    coefficients = (1.0, 0.695146143436431671, 0.227564394474029541, 0.077119089663028717)
    whole = staticmethod(torch.floor)


@pytest.mark.parametrize("kernel", [SumOfRoundedP, TaylorExp])
@pytest.mark.parametrize("distribution", ["normal", "shifted", "outliers"])
def test_only_the_log_sum_exp_tells_a_sum_of_something_else_than_p(kernel, distribution):
    """What the guide says of its limit: O passes."""
    verdict = gate(kernel(), SQUARE, distributions=(distribution,), repeats=2)
    assert verdict.check == "lse"
    figures = verdict.numerics[distribution]
    assert figures["max_error_used"] <= 1
    assert figures["rel_l2_used"] <= 1


def test_errors_of_both_signs_average_out_over_many_keys():
    assert gate(MinimaxExp(), OIn16Bits.problem, repeats=2).passed


def test_each_wrong_kernel_is_wrong_somewhere():
    assert [kernel for kernel in WRONG if not set(kernel.right_on) < set(inputs.DISTRIBUTIONS)] == []


def after(action):
    """A right kernel that then does `action(q, k, v, o, lse)`."""

    def launch(q, k, v, o, lse, *, scale, causal):
        Tiled()(q, k, v, o, lse, scale=scale, causal=causal)
        action(q, k, v, o, lse)

    return launch


def _between_heads(tensor):
    return tensor[0, 0].as_strided((1,), (1,), tensor[0, 0, -1].storage_offset() + tensor.stride(2))


FAULTS = {
    "zeros": ("max_error", lambda q, k, v, o, lse: o.zero_()),
    "a multiple of O": ("max_error", lambda q, k, v, o, lse: o.mul_(1.05)),
    "noise in every last place": ("rel_l2", lambda q, k, v, o, lse: o.mul_(1 + 2**-8)),
    "LSE in base 2": ("lse", lambda q, k, v, o, lse: lse.mul_(math.log2(math.e))),
    "LSE off in one row": ("lse", lambda q, k, v, o, lse: lse[0, 1, 7].add_(1e-3)),
    "LSE missing": ("finite", lambda q, k, v, o, lse: lse.fill_(math.nan)),
    "infinite O": ("finite", lambda q, k, v, o, lse: o[0, 0, 0, 0].fill_(math.inf)),
    "O keeps an element": ("unwritten", lambda q, k, v, o, lse: o[0, 1, 5, 3:4].view(torch.int16).fill_(0x7FAD)),
    "input zeroed": ("inputs_changed", lambda q, k, v, o, lse: v.zero_()),
    "input negated": ("inputs_changed", lambda q, k, v, o, lse: k[0, 0, 0, 0].neg_()),
    "write after O": ("guard_band", lambda q, k, v, o, lse: around(o, 1).fill_(1)),
    "write far after O": ("guard_band", lambda q, k, v, o, lse: around(o, 255 * 64).fill_(1)),
    "write before O": ("guard_band", lambda q, k, v, o, lse: around(o, -1).fill_(1)),
    "write after LSE": ("guard_band", lambda q, k, v, o, lse: around(lse, 1).fill_(1)),
    "write before K": ("guard_band", lambda q, k, v, o, lse: around(k, -8).fill_(1)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_own_check(fault):
    check, action = FAULTS[fault]
    verdict = gate(after(action), SQUARE, distributions=("normal",), repeats=2)
    assert (verdict.check, verdict.passed) == (check, False), verdict.reason


def test_a_write_between_heads_is_found_in_a_padded_arena():
    kernel = after(lambda q, k, v, o, lse: _between_heads(o).fill_(1))
    assert gate(kernel, RAGGED, distributions=("normal",), padded=True).check == "guard_band"


def test_a_right_answer_that_changes_once_in_ten_launches_is_not_repeatable():
    launches = []

    def flip_the_tenth(q, k, v, o, lse):
        launches.append(None)
        if len(launches) == 10:
            o[0, 0, 0, 0].view(torch.int16).bitwise_xor_(1)

    verdict = gate(after(flip_the_tenth), SQUARE, distributions=("normal",))
    assert (verdict.check, len(launches)) == ("not_repeatable", 10)


def test_every_case_runs_ten_times_and_a_slow_one_after_the_first_only_twice(monkeypatch):
    launches = []
    monkeypatch.setattr(gates, "REPEAT_SECONDS", 60.0)
    assert gate(after(lambda *_: launches.append(1)), SQUARE, seeds=(0, 1)).passed
    assert len(launches) == 10 * 2 * len(inputs.DISTRIBUTIONS)
    launches.clear()
    monkeypatch.setattr(gates, "REPEAT_SECONDS", 0.0)
    assert gate(after(lambda *_: launches.append(1)), SQUARE, seeds=(0, 1)).passed
    assert len(launches) == 10 + (2 * len(inputs.DISTRIBUTIONS) - 1) * 2


def test_an_answer_that_depends_on_what_lay_in_the_output_is_rejected():
    kept = []

    def write_over_nan_only(q, k, v, o, lse, *, scale, causal):
        kept.append(o.clone())
        Tiled()(q, k, v, o, lse, scale=scale, causal=causal)
        o.copy_(torch.where(kept[-1].isnan(), o, kept[-1]))

    assert gate(write_over_nan_only, SQUARE, distributions=("normal",)).check == "unwritten"


def test_an_answer_one_call_late_is_stale():
    late = []

    def launch(q, k, v, o, lse, *, scale, causal):
        Tiled()(q, k, v, o, lse, scale=scale, causal=causal)
        late.append((o.clone(), lse.clone()))
        for output, answer in zip((o, lse), late[-2:][0], strict=True):
            output.copy_(answer)

    assert gate(launch, SQUARE, distributions=("normal",)).check == "stale_output"
    assert gate(StaleOutput(), SQUARE).check == "stale_output"


@pytest.mark.parametrize("output", ["o", "lse"])
def test_rows_that_see_no_key_are_zero_with_lse_minus_infinity(output):
    def divide_zero_by_zero(q, k, v, o, lse):
        (o if output == "o" else lse)[:, :, :28] = math.nan

    problem = replace(SQUARE, seq_kv=100, causal=True)
    assert gate(Tiled(), problem, repeats=2).passed
    assert gate(after(divide_zero_by_zero), problem, repeats=2).check == "masked_rows"


def test_a_late_causal_row_does_not_hide_below_an_early_one():
    problem = Problem(1, 1, 1, 2048, 2048, 64, "bf16", causal=True)
    verdict = gate(after(lambda q, k, v, o, lse: o[:, :, -64:].mul_(0.9)), problem, distributions=("normal",))
    figures = verdict.numerics["normal"]
    assert figures["max_abs"] < 2 * figures["yardstick"] + figures["floor"]
    assert not verdict.passed
    assert re.search(r"rows? (19[89]|20[0-4])\d", verdict.reason)


def test_figures_are_safe_for_json_and_keyed_by_distribution_and_seed():
    verdict = gate(after(lambda q, k, v, o, lse: o.fill_(math.nan)), SQUARE, repeats=2)
    assert verdict.numerics["normal"]["max_abs"] is None
    json.dumps(verdict.numerics, allow_nan=False)
    verdict = gate(Tiled(), SQUARE, distributions=("shifted",), seeds=(3,), repeats=2)
    assert list(verdict.numerics) == ["shifted", "shifted, seed 4"]
    figures = verdict.numerics["shifted"]
    assert 0 < figures["yardstick"] < figures["pytorch_max_abs"]
    assert 0 < figures["yardstick_rel_l2"] < figures["pytorch_rel_l2"]
    assert figures["floor"] == 2**-8  # half an ulp of the largest |O|, which is between 1 and 2


def test_what_the_kernel_raises_passes_through():
    def broken(*_, **__):
        raise RuntimeError("launch failed")

    with pytest.raises(RuntimeError, match="launch failed"):
        gate(broken, SQUARE)


def test_no_finite_answer_is_an_error_of_the_harness(monkeypatch):
    monkeypatch.setitem(inputs.DISTRIBUTIONS, "huge", lambda name, shape, generator: torch.full(shape, 1e6))
    with pytest.raises(reference.HarnessError, match=r"truth.*fp16.*'huge'"):
        gate(Tiled(), replace(SQUARE, dtype="fp16"), distributions=("huge",))


def plain(q, k, v, o, lse, *, scale, causal):
    o.copy_(reference.plain_pytorch(q, k, v, scale=scale, causal=causal))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_peer_may_be_as_imprecise_as_plain_pytorch_and_needs_no_lse(dtype):
    problem = replace(SQUARE, dtype=dtype, seq_kv=100, causal=True)
    verdict = gate(plain, problem, peer=True)
    assert verdict.passed, verdict.reason
    assert not gate(plain, problem).passed

    def nan_in_hidden_rows(q, k, v, o, lse, *, scale, causal):
        plain(q, k, v, o, lse, scale=scale, causal=causal)
        o[:, :, :28] = math.nan

    assert gate(nan_in_hidden_rows, problem, peer=True).passed


@pytest.mark.parametrize(
    ("check", "action"),
    [
        ("max_error", lambda q, k, v, o, lse: o.zero_()),
        ("rel_l2", lambda q, k, v, o, lse: o.mul_(1 + 2**-4)),
        ("finite", lambda q, k, v, o, lse: o[0, 0, -1].fill_(math.nan)),
    ],
)
def test_a_wrong_peer_is_rejected(check, action):
    assert gate(after(action), SQUARE, distributions=("large_logits",), peer=True).check == check


def test_the_last_timed_output_is_judged_on_its_own_inputs():
    tensors, outputs = arenas.make(SQUARE, "normal", 0, "cpu"), arenas.make_outputs(SQUARE, "cpu")
    arguments = {"scale": SQUARE.scale, "causal": SQUARE.causal}
    assert gates.judge_timed(outputs.tensors, tensors, SQUARE).check == "finite"  # never launched
    Tiled()(*tensors.tensors.values(), *outputs.tensors.values(), **arguments)
    assert gates.judge_timed(outputs.tensors, tensors, SQUARE).passed
    assert gates.judge_timed({"o": outputs.tensors["o"]}, tensors, SQUARE, peer=True).passed
    tensors.tensors["k"][0, 0, 0, 0] += 1
    assert gates.judge_timed(outputs.tensors, tensors, SQUARE).check == "inputs_changed"


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", [(4, 16, 4096), (1, 16, 16384)])
def test_large_problems_on_the_gpu_keep_memory_linear(shape):
    problem = Problem.square(*shape, 128, causal=True)
    torch.cuda.reset_peak_memory_stats()

    def math_attention(q, k, v, o, lse, *, scale, causal):
        o_yardstick, lse_yardstick = reference.yardstick(q, k, v, scale=scale, causal=causal)
        o.copy_(o_yardstick)
        lse.copy_(lse_yardstick)

    verdict = gate(math_attention, problem, device="cuda", distributions=("normal", "large_logits"), repeats=2)
    assert verdict.passed, verdict.reason
    assert torch.cuda.max_memory_allocated() < 16 * 2**30
