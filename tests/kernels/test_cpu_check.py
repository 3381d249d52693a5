"""`twinkernels check --on cpu`: scheduler seeds, sanitizers, and which compiler it takes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cuda_kernels import cpu_build
from cuda_kernels.toolchain import ToolchainError
from harness import build, cli
from harness.catalog import sources
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.catalog.techniques import TECHNIQUES
from harness.measure import arenas, process, service, worker
from harness.operators.attention.problem import Problem
from harness.operators.protocol import Verdict
from harness.rows import tables
from tests.conftest import CHECKOUT
from tests.support.checkout import executable
from tests.support.commands import invoke

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

    class Connection:
        def send_bytes(self, message: bytes) -> None:
            pass

    monkeypatch.setattr("harness.measure.gate.gate", gate)
    case = Case("check", "scalar", "cuda", PROBLEM, None)
    judging = service.Service(Connection(), "", "cpu", worker.Deadlines(), Path())  # type: ignore[arg-type]
    judging._loader = SimpleNamespace(load=lambda case, on: Fake())
    judging.gate(case, "x", worker.GateOptions(scheduler_seeds=(4, 5)))
    assert seen == [4, 5, 4]


def test_check_takes_three_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("harness.measure.runner.run", lambda *arguments, gate, **options: seen.append(gate) or [])
    check("attention/xor_swizzle")
    assert [gate["scheduler_seeds"] for gate in seen] == [(0, 1, 2)]


def test_sanitizers_refuse_what_is_no_cuda_twin() -> None:
    code, said = invoke("check", "attention/scalar", "--on", "cpu", "--backend", "triton", "--sanitize")
    assert (code, "for CUDA twins" in said) == (2, True)


def test_a_diagnosis_stands_in_the_row_line_by_line() -> None:
    error = type(
        "Diagnosed", (Exception,), {"lines": ["race: two warps [x.cu:3 st_shared, block (0, 0, 0), warp 1, lane 2]"]}
    )()
    fields = process._diagnosis(error)
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


OF_THREE_HEADS = Problem(1, 3, 3, 64, 64, 64, "fp16")
COUNTER = "atom_inc(static_cast<uint32_t*>(args.workspace) + ctaid_x() + {beyond}, THREADS - {last});\n  "
SIZE = "\nEXPORT int workspace_bytes(const AttentionArgs* args) { return args->heads * 4; }\n"


@pytest.mark.parametrize(
    ("beyond", "last", "diagnosis"),
    [
        (0, 1, None),
        (0, 0, "workspace_not_zero: byte 0 of the workspace is not 0 when the kernel ends"),
        (1, 1, "global_out_of_range: writes 4 bytes outside every tensor"),
    ],
)
def test_a_workspace_is_zeroed_watched_and_left_zero(
    beyond: int, last: int, diagnosis: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters per head, which each thread of its only block moves on; the last head's lies in the workspace, the one
    behind it does not."""
    source = (cpu_build.HERE / "attention" / "ampere" / "scalar.cu").read_text()
    start = "const BlockTile tile(args,"
    assert source.count(start) == 1
    counting = source.replace(start, COUNTER.format(beyond=beyond, last=last) + start) + SIZE
    (tmp_path / "attention" / "ampere").mkdir(parents=True)
    (tmp_path / "attention" / "ampere" / "scalar.cu").write_text("#include <ptx/atom.cuh>\n" + counting)
    case = build.Case("test", "scalar", "cuda", OF_THREE_HEADS, Tile(64, 64, 1, 4))
    assert build.load(case, "cpu").workspace_bytes == 0
    monkeypatch.setattr(cpu_build, "HERE", tmp_path)
    variant = build.load(case, "cpu")
    assert variant.workspace_bytes == 3 * 4
    given, outputs = arenas.make(OF_THREE_HEADS, "normal", 0, "cpu"), arenas.make_outputs(OF_THREE_HEADS, "cpu")
    tensors = {**given.tensors, **outputs.tensors}
    if diagnosis is None:
        variant.launch(tensors, given.scalars)
        return
    with pytest.raises(build.Diagnosed, match=diagnosis):
        variant.launch(tensors, given.scalars)


PROGRAM = """
from tests.support.cpu_run import run
from harness.operators.attention.problem import Problem

result = run("{name}", Problem(1, 2, 1, 128, 256, 64, "fp16", {causal}), seed=1, counters=True, sanitize=True)
assert result.code == 0, result.diagnosis
assert result.library.counters()
print("clean")
"""
FULL_ONLY = {"cluster_multicast"}
QUICK = "warp_specialized"
"""Fibers, TMA, mbarriers, ldmatrix, mma: most of the runtime. The others are under the marker `full`."""


@pytest.mark.timeout(900)  # a minute of one processor, most of it the runtime's own build
@pytest.mark.parametrize(
    "name", [pytest.param(one.name, marks=() if one.name == QUICK else pytest.mark.full) for one in TECHNIQUES]
)
def test_the_sanitizers_find_nothing(name: str) -> None:
    environment = {
        **os.environ,
        **cpu_build.sanitizer_environment(),
        "PYTHONPATH": str(CHECKOUT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name, causal=name not in FULL_ONLY)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("clean\n")
