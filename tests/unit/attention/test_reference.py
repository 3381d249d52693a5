"""Truth, yardstick and plain PyTorch, against the formula written out and PyTorch's own attention."""

import math
from dataclasses import replace

import pytest
import torch

from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention import inputs, reference
from harness.operators.attention.problem import Problem

PROBLEM = Problem(2, 4, 2, 50, 70, 64, "bf16")
PROBLEMS = {
    "full": PROBLEM,
    "causal": replace(PROBLEM, causal=True),
    "hidden rows": replace(PROBLEM, seq_q=70, seq_kv=50, causal=True),
    "strided": replace(PROBLEM, layout="bshd", dtype="fp16", head_dim=128),
}


def written_out(q, k, v, *, scale, causal):
    """fp64, row by row, straight from the definition."""
    batch, heads, seq_q, _ = q.shape
    seq_kv, group = k.shape[2], heads // k.shape[1]
    o = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full(q.shape[:3], -math.inf, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(seq_q):
                seen = min(seq_kv, i + seq_kv - seq_q + 1) if causal else seq_kv
                if seen > 0:
                    weights = (scale * k[b, h // group, :seen].double() @ q[b, h, i].double()).exp()
                    o[b, h, i] = weights @ v[b, h // group, :seen].double() / weights.sum()
                    lse[b, h, i] = weights.sum().log()
    return o, lse


def arguments(problem: Problem, distribution: str = "normal"):
    tensors = arenas.make(problem, distribution, 0, "cpu", padded=True)
    return tuple(tensors.tensors.values()), {"scale": problem.scale, "causal": problem.causal}


@pytest.mark.parametrize("name", PROBLEMS)
def test_truth_is_the_definition(name):
    qkv, options = arguments(PROBLEMS[name])
    o, lse = reference.truth(*qkv, **options)
    expected_o, expected_lse = written_out(*qkv, **options)
    assert o.dtype == lse.dtype == torch.float64
    torch.testing.assert_close(o, expected_o, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("distribution", inputs.DISTRIBUTIONS)
def test_truth_in_fp32_is_far_finer_than_a_16_bit_rounding(distribution):
    qkv, options = arguments(PROBLEMS["causal"], distribution)
    o, lse = reference.truth(*qkv, **options)
    o32, lse32 = reference.truth(*qkv, **options, precision=torch.float32)
    assert o32.dtype == torch.float32
    assert (o32 - o).norm() < 2**-11 / 10 * o.norm()
    torch.testing.assert_close(lse32.double(), lse, rtol=1e-5, atol=1e-5)


def test_truth_is_fp32_above_the_flop_limit(monkeypatch):
    qkv, options = arguments(PROBLEM)
    monkeypatch.setattr(reference, "FP64_FLOPS", 4 * 2 * 4 * 50 * 70 * 64 - 1)
    assert reference.truth(*qkv, **options)[0].dtype == torch.float32


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("function", [reference.truth, reference.yardstick, reference.plain_pytorch])
def test_chunks_do_not_change_the_answer(function, name, monkeypatch):
    qkv, options = arguments(PROBLEMS[name])
    whole = function(*qkv, **options)
    monkeypatch.setattr(reference, "CHUNK_BYTES", 7 * 2 * 70 * 8)  # 7 query rows of fp64, 14 of fp32
    parts = function(*qkv, **options)
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (whole, parts)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5 if a.dtype.itemsize > 2 else 2**-7, atol=1e-5)


def test_the_yardstick_rounds_p_and_o_and_nothing_else():
    """Two keys whose scores differ by ln 3: P is 1 and 1/3, and only 1/3 is rounded."""
    q = torch.zeros(1, 1, 1, 64, dtype=torch.float16)
    k, v = torch.zeros(1, 1, 2, 64, dtype=torch.float16), torch.zeros(1, 1, 2, 64, dtype=torch.float16)
    q[..., 0], k[0, 0, 0, 0], v[0, 0, 0], v[0, 0, 1] = 1, 1, -1, 3  # they cancel but for the rounding of P
    o, lse = reference.yardstick(q, k, v, scale=math.log(3), causal=False)
    third = torch.tensor(1 / 3).half().double().item()
    assert (o.dtype, lse.dtype) == (torch.float16, torch.float32)
    assert o[0, 0, 0, 0] == pytest.approx((3 * third - 1) / (4 / 3), rel=1e-3)
    assert lse.item() == pytest.approx(math.log(4), rel=1e-6)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("distribution", ["normal", "shifted", "outliers", "large_logits"])
def test_plain_pytorch_is_worse_than_the_yardstick(distribution, dtype):
    qkv, options = arguments(replace(PROBLEM, dtype=dtype), distribution)
    truth = reference.truth(*qkv, **options)[0]
    error = (reference.yardstick(*qkv, **options)[0].double() - truth).norm()
    assert error < (reference.plain_pytorch(*qkv, **options).double() - truth).norm()


def test_plain_pytorch_gives_zero_for_rows_that_see_no_key():
    qkv, options = arguments(PROBLEMS["hidden rows"])
    o = reference.plain_pytorch(*qkv, **options)
    assert (o[:, :, :20] == 0).all()
    assert o.isfinite().all()


def test_tf32_is_off_inside_and_as_it_was_outside(monkeypatch):
    matmul = torch.backends.cuda.matmul
    before, inside = matmul.fp32_precision, []
    matmul.fp32_precision = "tf32"
    try:
        amax = torch.Tensor.amax
        monkeypatch.setattr(torch.Tensor, "amax", lambda *a, **k: inside.append(matmul.fp32_precision) or amax(*a, **k))
        qkv, options = arguments(PROBLEM)
        reference.yardstick(*qkv, **options)
        assert set(inside) == {"ieee"}
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


@pytest.mark.parametrize("seq_q", [1, 63, 64, 127, 128, 1000])
def test_blocks_hold_64_rows_or_more_where_there_are_as_many(seq_q):
    blocks = reference.blocks(torch.arange(seq_q))
    assert torch.equal(torch.cat(blocks), torch.arange(seq_q))
    assert all(min(seq_q, 64) <= len(block) < 128 for block in blocks)


def test_block_norms_are_those_of_each_block():
    tensor = torch.zeros(1, 2, 128, 4)
    tensor[0, 0, 3, 1], tensor[0, 1, 5, 2], tensor[0, 0, 100, 0] = 3, -4, 2
    norms = reference.BlockNorms.of(tensor)
    assert norms.max_abs.tolist() == [4, 2]
    assert norms.l2.tolist() == [5, 2]


def test_the_most_recent_problem_is_kept():
    first = gates.expect(PROBLEM, "normal", 0, "cpu")
    second = gates.expect(PROBLEM, "shifted", 0, "cpu")
    assert gates.expect(PROBLEM, "normal", 0, "cpu") is first
    assert gates.expect(PROBLEM, "shifted", 0, torch.device("cpu")) is second
    assert gates.expect(PROBLEM, "normal", 1, "cpu") is not first
    gates.expect(PROBLEMS["causal"], "normal", 0, "cpu")
    assert gates.expect(PROBLEM, "normal", 0, "cpu") is not first
    assert len(gates._answers) == 1


def test_lse_tolerance_grows_with_the_scores_and_stays_far_below_a_missing_key():
    problem = Problem.square(1, 1, 128, 128)
    normal, large = (gates.expect(problem, name, 0, "cpu").lse_tolerance for name in ("normal", "large_logits"))
    assert 2**-15 < normal < large < 2e-3
    assert normal < math.log(1 + 1 / 8192)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq_kv", [1, 2, 5, 300])
def test_every_row_with_hidden_keys_sees_one_and_is_judged_as_strictly(seq_kv, causal):
    problem = Problem(1, 2, 2, 130, seq_kv, 64, "fp16", causal)
    hidden, normal = (gates.expect(problem, name, 0, "cpu") for name in ("hidden_keys", "normal"))
    keys = hidden.sample.tensors["k"][..., -1]
    assert (keys == -torch.inf).sum(-1).tolist() == [[seq_kv * 3 // 4 - causal * (seq_kv > 1), seq_kv * 3 // 4]]
    assert hidden.lse[..., ~hidden.hidden].isfinite().all()
    assert hidden.lse_tolerance < 2 * normal.lse_tolerance
    assert hidden.moved_by_scores < 1e-4


def test_an_answer_that_is_not_finite_is_an_error_of_the_harness(monkeypatch):
    def with_nan(name, shape, generator):
        values = torch.randn(shape, generator=generator)
        values[0, 0, 0, 0] = math.nan
        return values

    monkeypatch.setitem(inputs.DISTRIBUTIONS, "with NaN", with_nan)
    with pytest.raises(reference.HarnessError, match=r"truth: got values that are not finite for b2-h4k2-.*'with NaN'"):
        gates.expect(PROBLEM, "with NaN", 0, "cpu")


@pytest.mark.gpu
def test_gpu_reference_is_ieee_fp32_even_when_tf32_is_allowed():
    problem = Problem.square(1, 2, 1024, 128)
    sample = inputs.sample(problem, "large_logits", 0, "cuda")
    options = {"scale": problem.scale, "causal": False}
    o, lse = reference.truth(*sample.tensors.values(), **options)
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        o32, lse32 = reference.truth(*sample.tensors.values(), **options, precision=torch.float32)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert (o32 - o).norm() < 2**-11 / 4 * o.norm()
    torch.testing.assert_close(lse32.double(), lse, rtol=1e-5, atol=1e-4)
