"""Who is interleaved with whom, and how fast is too fast."""

from dataclasses import replace

import pytest

from harness.build import Case
from harness.catalog.entries import Tile
from harness.measure import groups
from harness.operators.attention.problem import Problem

PROBLEM = Problem.square(4, 16, 4096, 128)


def test_groups_hold_twins_together_within_a_factor_of_four() -> None:
    def case(technique: str | None, backend: str) -> Case:
        return Case("e", technique, backend, PROBLEM, None)

    twins = [case(name, backend) for name in "abcde" for backend in ("cuda", "triton")]
    milliseconds = {twin: {"a": 30.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}[twin.technique] for twin in twins}
    found = groups.groups(twins, milliseconds)
    assert [sorted({one.technique for one in group}) for group in found] == [["a"], ["b"], ["c", "d", "e"]]
    milliseconds[twins[1]] = 1.0  # the Triton twin of a is 30 times as fast: no common group
    assert [twins[0]] in groups.groups(twins, milliseconds)
    many = [case(name, "cuda") for name in "abcdefghijklmnopqrstu"]
    assert max(map(len, groups.groups(many, dict.fromkeys(many, 1.0)))) == groups.LARGEST - 1


def test_a_case_that_needs_no_environment_joins_the_cuda_twins() -> None:
    backends = {"cuda": {"X": "1"}, "triton": {"X": "1"}, "triton_native": {}, "flex": {}, "sdpa_flash": None}
    variables = {Case("e", "a", name, PROBLEM, None): needed for name, needed in backends.items()}
    found = [(needed, [case.backend for case in split]) for needed, split in groups.environments(variables, variables)]
    assert found == [({}, ["triton_native", "flex"]), ({"X": "1"}, ["cuda", "triton", "sdpa_flash"])]


def test_a_final_group_has_the_fastest_of_each_series_that_its_process_can_run() -> None:
    mma_sync: dict[str, str] = {"X": "1"}
    needs = {"cuda": mma_sync, "triton": mma_sync, "triton_native": {}, "flex": {}, "sdpa_flash": None}

    def case(technique: str | None, backend: str, tile: Tile | None = None) -> Case:
        return Case("e", technique, backend, PROBLEM, tile or (technique and Tile(64, 64)) or None)

    slow = [case("direct_rescale", backend) for backend in ("cuda", "triton", "triton_native")]
    fast = [case("padded_rows", backend) for backend in ("cuda", "triton", "triton_native")]
    peers = [case(None, "flex"), case(None, "sdpa_flash")]
    milliseconds = {**dict.fromkeys(slow, 2.0), **dict.fromkeys(fast, 1.0), **dict.fromkeys(peers, 3.0)}
    variables = {one: needs[one.backend] for one in milliseconds}
    found = groups.finals(list(milliseconds), variables, milliseconds)
    assert [(needed, {one.backend for one in group}) for needed, group in found] == [
        ({}, {"cuda", "triton_native", "flex", "sdpa_flash"}),
        (mma_sync, {"cuda", "triton", "sdpa_flash"}),
    ]
    assert {one.technique for _, group in found for one in group} == {"padded_rows", None}
    tuned = case("padded_rows", "cuda", Tile(128, 64, 1, 8))  # of the committed table: it stands for its rung
    milliseconds[tuned], variables[tuned] = 1.5, mma_sync
    assert all(tuned in group for _, group in groups.finals(list(milliseconds), variables, milliseconds))
    only_peers = dict.fromkeys(peers, 1.0)
    assert groups.finals(peers, variables, only_peers) == []


def test_the_roofline_counts_what_the_mask_shows() -> None:
    peaks = {"tensor_tflops": 1000.0, "fp32_tflops": 50.0, "bytes_per_s": 5e12}
    full = Problem.square(4, 16, 4096, 128)
    assert groups.roofline_ms(full, "wgmma", peaks) == pytest.approx(full.flops / 1e12)
    assert groups.roofline_ms(full, "fma", peaks) == pytest.approx(full.flops / 5e10)
    causal = replace(full, causal=True)
    assert groups.roofline_ms(causal, "wgmma", peaks) == pytest.approx(causal.flops / 1e12, rel=1e-3)
    tall = replace(causal, seq_kv=2048)  # half of the queries see no key
    assert groups.roofline_ms(tall, "wgmma", peaks) == pytest.approx(causal.flops / 4 / 1e12, rel=1e-3)
    short = Problem.square(1, 1, 64, 64)
    assert groups.roofline_ms(short, "wgmma", peaks) == pytest.approx(short.bytes / 5e9)
    assert groups.roofline_ms(full, "wgmma", None) is None
