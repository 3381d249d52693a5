"""Inputs are the same everywhere, distributed as they say, and surrounded by NaN."""

from dataclasses import replace

import pytest
import torch

from harness.measure import arenas
from harness.operators.attention import arguments, inputs
from harness.operators.attention.problem import Problem
from harness.operators.attention.validate import validate
from harness.operators.protocol import Sample
from tests.support.wrong_kernels import around

PROBLEM = Problem(2, 4, 2, 100, 75, 64, "bf16")


def scores(sample: Sample, problem: Problem) -> torch.Tensor:
    k = sample.tensors["k"].repeat_interleave(problem.heads // problem.heads_kv, 1)
    return problem.scale * sample.tensors["q"].double() @ k.double().transpose(-1, -2)


@pytest.mark.parametrize("distribution", inputs.DISTRIBUTIONS)
def test_a_seed_gives_the_same_values_in_every_layout(distribution):
    first = arenas.make(PROBLEM, distribution, 3, "cpu")
    again = arenas.make(replace(PROBLEM, layout="bshd"), distribution, 3, "cpu", padded=True)
    other = arenas.make(PROBLEM, distribution, 4, "cpu")
    for name in ("q", "k", "v"):
        assert arenas.same_bits(first.tensors[name], again.tensors[name])
        assert not arenas.same_bits(first.tensors[name], other.tensors[name])


def test_values_do_not_hang_on_the_global_generator():
    torch.manual_seed(1)
    first = inputs.sample(PROBLEM, "normal", 0, "cpu")
    torch.manual_seed(2)
    assert arenas.same_bits(first.tensors["q"], inputs.sample(PROBLEM, "normal", 0, "cpu").tensors["q"])
    assert not arenas.same_bits(first.tensors["k"], first.tensors["v"])


@pytest.mark.slow
def test_distributions_are_what_they_say():
    problem = Problem.square(2, 8, 512, 64, dtype="fp16")
    sample = {name: inputs.sample(problem, name, 0, "cpu") for name in inputs.DISTRIBUTIONS}
    assert list(sample) == ["normal", "shifted", "outliers", "large_logits", "constant_rows", "negative_scores"]
    assert sample["normal"].tensors["q"].double().mean().abs() < 0.01
    assert sample["normal"].tensors["q"].double().std() == pytest.approx(1, abs=0.01)
    assert sample["shifted"].tensors["v"].double().mean() == pytest.approx(0.5, abs=0.01)
    far = (sample["outliers"].tensors["k"].double().abs() > 6).double().mean()
    assert far == pytest.approx(1e-3 * 0.55, rel=0.2)  # P(|N(0, 1) + N(0, 100)| > 6) = 0.55
    assert scores(sample["normal"], problem).std() == pytest.approx(1, abs=0.05)
    assert scores(sample["large_logits"], problem).std() == pytest.approx(30, rel=0.05)
    keys = sample["constant_rows"].tensors["k"]
    assert torch.equal(keys, keys[:, :, :1].expand_as(keys))
    assert not torch.equal(keys[0, 0], keys[0, 1])
    for head_dim in (64, 128, 256):
        problem = replace(problem, head_dim=head_dim)
        low = 1.5 * scores(inputs.sample(problem, "negative_scores", 0, "cpu"), problem)
        assert low[-1, -1].mean() == pytest.approx(-inputs.LOWER * inputs.NEGATIVE_SCORE, abs=0.5)
        others = low.flatten(0, 1)[:-1]
        for half, height in zip(others.chunk(2, dim=-1), (inputs.LOWER, 1), strict=True):
            assert half.mean() == pytest.approx(-height * inputs.NEGATIVE_SCORE, abs=0.1 * height)
            assert half.std() == pytest.approx(1.5, abs=0.15)
        assert not low.max().float().exp(), "a running max that begins with 0 leaves nothing of a row"


def test_bf16_has_values_that_fp16_cannot_hold_and_the_scores_of_fp16():
    wide, narrow = (inputs.sample(replace(PROBLEM, dtype=dtype), "outliers", 0, "cpu") for dtype in ("bf16", "fp16"))
    usual = {name: narrow.tensors[name].abs() > 0.1 for name in "qkv"}
    assert wide.tensors["q"].half()[usual["q"]].isinf().all()
    assert wide.tensors["v"].half()[usual["v"]].isinf().all()
    assert wide.tensors["k"].abs().max().half() < torch.finfo(torch.float16).tiny
    assert torch.allclose(scores(wide, PROBLEM), scores(narrow, PROBLEM), atol=0.1, rtol=0.02)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_no_two_padded_arenas_have_the_same_strides(layout):
    problem = replace(PROBLEM, heads_kv=4, seq_kv=100, layout=layout)
    tensors, outputs = (
        arenas.make(problem, "normal", 0, "cpu", padded=True),
        arenas.make_outputs(problem, "cpu", padded=True),
    )
    strides = [tensor.stride() for tensor in (*tensors.tensors.values(), outputs.tensors["o"])]
    assert len(set(strides)) == 4
    for axis in range(3):
        assert len({stride[axis] for stride in strides}) == 4


def test_an_unknown_distribution_is_named():
    with pytest.raises(ValueError, match="distribution: got 'gauss', expected one of normal, shifted"):
        arenas.make(PROBLEM, "gauss", 0, "cpu")


def test_large_tensors_are_drawn_on_their_device(monkeypatch):
    class Elsewhere:
        """The generator of a device that is not here."""

        device = torch.device("meta")

        def manual_seed(self, seed):
            pass

    def draw(name, shape, generator):
        drawn_on[name] = generator.device.type
        return torch.zeros(shape, device="meta")

    drawn_on, generator = {}, torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda device: generator(device) if device == "cpu" else Elsewhere())
    monkeypatch.setattr(inputs, "CPU_LIMIT", 2 * 2 * 75 * 64)
    monkeypatch.setitem(inputs.DISTRIBUTIONS, "normal", draw)
    inputs.sample(PROBLEM, "normal", 0, "meta")
    assert drawn_on == {"q": "meta", "k": "cpu", "v": "cpu"}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_arenas_are_valid_arguments(layout, padded, head_dim):
    problem = replace(PROBLEM, layout=layout, head_dim=head_dim)
    tensors = arenas.make(problem, "normal", 0, "cpu", padded=padded)
    outputs = arenas.make_outputs(problem, "cpu", padded=padded)
    validate(*tensors.tensors.values(), *outputs.tensors.values(), scale=problem.scale, causal=True)
    if not padded:
        stored = tensors.tensors["q"] if layout == "bhsd" else tensors.tensors["q"].transpose(1, 2)
        assert stored.is_contiguous()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_guard_bands_are_nan_for_256_rows_and_notice_a_write(dtype, layout):
    tensors = arenas.make(replace(PROBLEM, dtype=dtype, layout=layout), "normal", 0, "cpu")
    for name in ("q", "k", "v"):
        tensor = tensors.tensors[name]
        assert tensor.isfinite().all()
        for offset in (1, -1, 256 * tensor.stride(2), -256 * tensor.stride(2)):
            assert around(tensor, offset).isnan().all()
            before = around(tensor, offset).view(torch.int16).clone()
            around(tensor, offset).fill_(float("nan"))  # another NaN
            assert not tensors.arenas[name].guards_intact()
            assert not tensors.unchanged()
            assert tensors.changed() == []
            around(tensor, offset).view(torch.int16).copy_(before)
            assert tensors.unchanged()


def test_padding_puts_nan_between_sequences():
    tensors = arenas.make(PROBLEM, "normal", 0, "cpu", padded=True)
    k = tensors.tensors["k"]
    pad = arguments.PAD["k"]
    row = 64 + pad
    assert k.stride()[1:] == ((75 + pad) * row, row, 1)
    assert k[0, 0].as_strided((pad, row), (row, 1), k[0, 0].storage_offset() + 75 * row).isnan().all()
    assert k[0, 0].as_strided((75, pad), (row, 1), k[0, 0].storage_offset() + 64).isnan().all()
    around(k[0, 0], 1).zero_()
    assert not tensors.arenas["k"].guards_intact()
    tensors.load(tensors.sample, around="finite")
    for tensor in tuple(tensors.tensors.values()):
        assert around(tensor, 1).isfinite().all()
        assert around(tensor[0, 0], 1).abs() > 100
    assert tensors.unchanged()


def test_changed_names_the_tensor_bit_by_bit():
    tensors = arenas.make(PROBLEM, "normal", 0, "cpu")
    assert tensors.unchanged()
    tensors.tensors["v"][1, 1, 74, 63] += 1
    assert tensors.changed() == ["v"]
    tensors.load(inputs.sample(PROBLEM, "shifted", 0, "cpu"))
    assert tensors.unchanged()
    assert tensors.sample.distribution == "shifted"


def test_equal_bits_are_more_and_less_than_equal_values():
    zero, nan = torch.zeros(1, dtype=torch.float16), torch.full((1,), torch.nan)
    assert not arenas.same_bits(zero, -zero)
    assert arenas.same_bits(nan, nan.clone())


def test_loading_keeps_addresses():
    tensors = arenas.make(PROBLEM, "normal", 0, "cpu")
    addresses = [tensors.tensors["q"].data_ptr(), tensors.tensors["k"].data_ptr(), tensors.tensors["v"].data_ptr()]
    tensors.load(inputs.sample(PROBLEM, "normal", 1, "cpu"))
    assert addresses == [
        tensors.tensors["q"].data_ptr(),
        tensors.tensors["k"].data_ptr(),
        tensors.tensors["v"].data_ptr(),
    ]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_outputs_are_poisoned_in_two_ways(dtype):
    outputs = arenas.make_outputs(replace(PROBLEM, dtype=dtype, layout="bshd"), "cpu")
    assert outputs.tensors["o"].dtype == inputs.DTYPES[dtype]
    assert (outputs.tensors["lse"].dtype, outputs.tensors["lse"].shape) == (torch.float32, (2, 4, 100))
    assert outputs.tensors["lse"].is_contiguous()
    for pattern, is_pattern in (("nan", torch.isnan), ("finite", torch.isfinite)):
        outputs.poison(pattern)
        for arena in outputs.arenas.values():
            assert is_pattern(arena.tensor).all()
            assert arena.unwritten().all()
        outputs.tensors["o"][:, :, :99] = float("nan")  # arithmetic's NaN is not the poison
        outputs.tensors["lse"].zero_()
        assert int(outputs.arenas["o"].unwritten().sum()) == 2 * 4 * 64
        assert not outputs.arenas["lse"].unwritten().any()
        assert outputs.guards_intact()
    around(outputs.tensors["lse"], 1).zero_()
    assert not outputs.guards_intact()


@pytest.mark.gpu
@pytest.mark.parametrize("distribution", inputs.DISTRIBUTIONS)
def test_cpu_and_gpu_get_the_same_values(distribution):
    here = inputs.sample(PROBLEM, distribution, 0, "cpu")
    there = inputs.sample(PROBLEM, distribution, 0, "cuda")
    assert all(arenas.same_bits(here.tensors[name], there.tensors[name].cpu()) for name in ("q", "k", "v"))
