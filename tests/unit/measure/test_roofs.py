"""Roofs as rows: what a launch's counts say, and what a row says where there is nothing to count."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.catalog import experiments, roofs, sources
from harness.machine import processes
from harness.machine.progress import Interrupts, Progress
from harness.measure import roofs as measure
from harness.operators.attention import roofs as attention
from harness.rows import results, tables

EXPERIMENT = experiments.load("hopper_roofs")
RECORDED = sources.ROOT / "reports" / "recorded"
H200 = {"name": "NVIDIA H200", "capability": [9, 0], "sm_count": 132}


def sample(steps: int, clocks: int, start: int = 0) -> tuple[int, ...]:
    """Of a warp: 1.5 clocks are a nanosecond, and the clocks of multiprocessors count from anywhere."""
    return (steps, 7000 + start, 7000 + start + clocks, 9000 + start * 2 // 3, 9000 + (start + clocks) * 2 // 3)


def test_rates_are_those_of_the_median_multiprocessor() -> None:
    """One warpgroup multiplies, two compute, of four warps each; the clock has 1.5 GHz."""
    roof = attention.exponentials(beside=128)
    flop, amount = 32 * 2 * 64 * 128 * 16, 256 * 128
    blocks = [[*[sample(10, 15_000 * slow)] * 4, *[sample(3, 7500)] * 8] for slow in (1, 2, 2)]
    assert (roof.flop, roof.amount) == (flop, amount)
    assert measure.rates(roof, blocks) == pytest.approx(
        {
            "flop": 10 * flop / 30_000,
            "exponentials": 2 * 3 * amount / 7500,
            "clock_ghz": 1.5,
            "tflops": (1 + 0.5 + 0.5) * 10 * flop / 10_000 / 1e3,
        }
    )
    alone = measure.rates(attention.exponentials(), [[sample(3, 7500)] * 8])
    assert set(alone) == {"exponentials", "clock_ghz"}


def test_warps_that_end_apart_tell_no_more_than_they_did_together() -> None:
    """Half of the warps start late, half end early: each alone was faster than the multiprocessor is."""
    roof = attention.exponentials()
    early, late = sample(100, 90_000), sample(100, 90_000, start=30_000)
    found = measure.rates(roof, [[*[early] * 4, *[late] * 4]])
    assert found["exponentials"] == pytest.approx(8 * 100 * roof.amount / 4 / 120_000)
    assert found["clock_ghz"] == pytest.approx(1.5)
    multiplying = measure.rates(attention.products(64), [[*[early] * 4, *[late] * 4]])
    assert multiplying["flop"] == pytest.approx(2 * 100 * attention.unit_flop(64) / 120_000)
    assert multiplying["tflops"] == pytest.approx(2 * 100 * attention.unit_flop(64) / 80_000 / 1e3)


def test_most_is_what_the_busiest_unit_can_do() -> None:
    assert attention.exponentials(beside=128).most("exponentials") == 16
    assert attention.exponentials(beside=128).most("flop") == roofs.PEAK
    assert attention.polynomials().most("exponentials") == pytest.approx(128 / 6)  # six instructions of one unit each
    assert (attention.additions().most("instructions"), attention.maxima().most("instructions")) == (128, 64)
    assert attention.softmax(64, 3).most("units") == 16 / (66 * 128)


@pytest.mark.slow
def test_no_recorded_rate_exceeds_what_the_hardware_can_do() -> None:
    """Of the kernels as they are; a thousandth is for the clock's own steps."""
    by_name = {roof.name: roof for roof in EXPERIMENT.roofs}
    for row in results.read_recorded(RECORDED, "h200", "hopper_roofs"):
        roof = by_name.get(row.get("roof", ""))
        if roof is None or not roof.kernel or row["source_sha256"] != roof.source_sha256:
            continue
        for what, values in row.get("per_clock", {}).items():
            assert max(values) <= roof.most(what) * 1.001, (roof.name, what)


def test_a_unit_of_attention_is_counted_as_the_harness_counts_it() -> None:
    from harness.operators.attention.problem import Problem

    assert attention.unit_flop(128) == Problem(1, 1, 1, attention.ROWS, attention.KEYS, 128).flops


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (None, "no CUDA GPU here"),
        ({**H200, "name": "NVIDIA A100", "capability": [8, 0]}, "built for sm_90a; this GPU has compute capability 8"),
    ],
)
def test_without_a_hopper_every_roof_has_a_row_that_says_so(gpu: dict | None, reason: str) -> None:
    found = dict(measure.measured(EXPERIMENT.roofs, gpu, Progress(), Interrupts()))
    assert set(found) == set(EXPERIMENT.roofs)
    assert {fields["status"] for fields in found.values()} == {"unsupported"}
    assert all(reason in fields["reason"] for fields in found.values())
    assert measure.declined(H200) is None


def test_rows_are_of_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "declined", lambda gpu: "planted")
    rows = measure.run(EXPERIMENT, tmp_path / "run.jsonl")
    assert results.read(tmp_path / "run.jsonl") == rows
    mine = [row for row in rows if row.get("purpose") == "roof"]
    assert [row["roof"] for row in mine] == [roof.name for roof in EXPERIMENT.roofs]
    assert len({results.key(row) for row in mine}) == len(mine)
    hashes = {row["roof"]: row.get("source_sha256") for row in mine}
    assert hashes.pop(roofs.MATMUL) is None
    assert all(re.fullmatch("[0-9a-f]{64}", str(value)) for value in hashes.values())
    assert not tables.failed(mine)
    assert "unsupported" in str(list(tables.roofs(mine).columns[-1].cells))


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (processes.NoAnswer("timeout", "no answer within 60 s"), "timeout"),
        (processes.NoAnswer("crashed", "the process ended: SIGSEGV"), "crashed"),
        (processes.NoAnswer("raised", "LaunchError: loop_d64: CUDA error 719"), "launch_error"),
    ],
)
def test_a_roof_that_gives_nothing_says_why(answer: processes.NoAnswer, status: str) -> None:
    assert measure.not_launched(answer) == {"status": status, "reason": answer.reason}
    assert measure.not_launched({"status": "passed"}) is None


def test_a_kernel_that_is_not_what_it_claims_is_not_launched() -> None:
    built = SimpleNamespace(missing=["no loop with {'HGMMA': 32}"], code={"registers": 1}, compiler={"ptxas": "1"})
    fields = measure.failed(built) or {}
    assert (fields["status"], fields["check"]) == ("wrong_instruction", "loops")
    assert measure.failed(processes.NoAnswer("raised", "CompileError: x")) == {
        "status": "compile_error",
        "reason": "CompileError: x",
    }
    failed = {"kind": "roof", "roof": "loop_d64", "backend": "cuda", "arch": "sm_90a", **fields}
    assert tables.failures([failed]) == ["wrong_instruction:  cuda sm_90a loop_d64\n  no loop with {'HGMMA': 32}"]
