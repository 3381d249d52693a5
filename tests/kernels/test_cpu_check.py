"""`twinkernels check --on cpu`: scheduler seeds, sanitizers, and which compiler it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cuda_kernels import cpu_build
from cuda_kernels.toolchain import ToolchainError
from harness import cli
from harness.catalog import sources
from harness.catalog.cases import Case
from harness.measure import service, worker
from harness.operators.attention.problem import Problem
from harness.operators.protocol import Verdict
from harness.rows import tables
from tests.support.checkout import executable

PROBLEM = Problem.square(1, 2, 256, 64, dtype="fp16", causal=False)


def check(*arguments: str) -> tuple[int, list[dict], str]:
    """Exit code, rows and messages of `check --on cpu --json`."""
    done = CliRunner().invoke(cli.app, ("check", *arguments, "--on", "cpu", "--json"))
    return done.exit_code, json.loads(done.stdout or "[]"), done.stderr


def test_scheduler_seeds_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Fake:
        label = ""

        def schedule(self, seed: int) -> None:
            seen.append(seed)

        def launch(self, *arguments: object, **keywords: object) -> None:
            pass

        def of_compilers(self) -> dict[str, object]:
            return {}

    def gate(launch, problem, **options):  # type: ignore[no-untyped-def]
        for _ in range(3):
            launch({}, {})
        return Verdict(True, None, None, {})

    class Loader:
        def load(self, case: object, on: str) -> Fake:
            return Fake()

    class Connection:
        def send_bytes(self, message: bytes) -> None:
            pass

    monkeypatch.setattr("harness.measure.gate.gate", gate)
    case = Case("check", "scalar", "cuda", PROBLEM, None)
    service.Service(Connection(), Loader(), "cpu").gate(case, "x", worker.GateOptions(scheduler_seeds=(4, 5)))  # type: ignore[arg-type]
    assert seen == [4, 5, 4]


def test_check_takes_three_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("harness.measure.runner.run", lambda *arguments, gate, **options: seen.append(gate) or [])
    check("xor_swizzle")
    assert [gate["scheduler_seeds"] for gate in seen] == [(0, 1, 2)]


def test_sanitizers_refuse_what_is_no_cuda_twin() -> None:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(
        cli.app, ("check", "scalar", "--on", "cpu", "--backend", "triton", "--sanitize")
    )
    assert done.exit_code == 2
    assert "for CUDA twins" in done.output


def test_a_diagnosis_stands_in_the_row_line_by_line() -> None:
    error = type(
        "Diagnosed", (Exception,), {"lines": ["race: two warps [x.cu:3 st_shared, block (0, 0, 0), warp 1, lane 2]"]}
    )()
    fields = service._diagnosis(error)
    assert fields["check"] == "race"
    row = {"kind": "gate", "technique": "x", "backend": "cuda", "problem": PROBLEM.to_dict()}
    row |= {"status": "launch_error", "reason": "race", "details": {"diagnosis": fields["diagnosis"]}}
    (told,) = tables.failures([row])
    assert told.splitlines()[1:] == ["  race: two warps", "    [x.cu:3 st_shared, block (0, 0, 0), warp 1, lane 2]"]


def test_a_race_has_a_status_of_its_own_and_names_the_buffer(tmp_path: Path) -> None:
    source = sources.kernel_file("cuda", "attention/ampere/general_shapes").read_text()
    barrier = "    bar_sync();  // K (and Q) has arrived; every warp is done with the previous V\n"
    assert barrier in source
    (tmp_path / "mine.cu").write_text(source.replace(barrier, ""))
    code, rows, _ = check(str(tmp_path / "mine.cu"), "--problem", "b1-h2-n120-d64-fp16-full")
    assert code == 1
    assert (rows[0]["status"], rows[0]["check"]) == ("data_race", "race")
    named = r"race: q_lane \(shared address 0x\w+\) is .* at mine\.cu:\d+, .* \[mine\.cu:\d+ \w+, block .*, lane \d+\]"
    assert re.fullmatch(named, rows[0]["details"]["diagnosis"][0])
    (told,) = tables.failures(rows)
    assert "801" not in told


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_check_runs_a_kernel_under_sanitizers() -> None:
    code, rows, _ = check("general_shapes", "--sanitize")
    assert code == 0
    assert {row["status"] for row in rows} == {"passed"}
    assert "-fsanitize=address,undefined" in rows[0]["compiler"]["flags"]


def test_another_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ToolchainError, match="got Linux riscv64, expected Linux on x86_64 or aarch64"):
        cpu_build.compiler.__wrapped__()


def test_a_clang_that_loses_the_kernels_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in (15, 16):
        clang = executable(tmp_path / f"clang++-{version}", f"#!/bin/sh\necho Debian clang version {version}.0.6\n")
    monkeypatch.setenv("CXX", str(clang))
    assert cpu_build.compiler.__wrapped__() == str(clang)
    monkeypatch.setenv("CXX", str(tmp_path / "clang++-15"))
    with pytest.raises(ToolchainError, match=r"clang\+\+ 15, which .* expected clang\+\+ 16"):
        cpu_build.compiler.__wrapped__()
