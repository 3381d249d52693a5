"""A user's kernel and what judges it are two processes: tricks of every kind end as rows of their own, honest habits
pass. Here this process is the verifier's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import harness.build
from harness.build import loop
from harness.catalog import own
from harness.catalog.cases import Case
from harness.measure import service, verifier
from harness.measure.isolation import Shared
from harness.measure.worker import Deadlines, Failed, GateOptions, Worker
from harness.operators.attention.problem import Problem
from harness.rows import tables
from tests.conftest import CHECKOUT
from tests.support import tricks

pytestmark = pytest.mark.slow

PROBLEM = Problem(1, 2, 1, 64, 128, 64, "fp16", True)
QUICK = {"min_samples": 5, "max_seconds": 60.0, "target": 10.0, "limit": 10.0}
GATED = {
    "searches_memory": ("wrong", "max_error", "O is off by"),
    "searches_frames": ("wrong", "max_error", "O is off by"),
    "overwrites_the_expected": ("wrong", "guard_band", "the kernel wrote outside lse"),
    "replaces_the_comparison": ("wrong", "max_error", "O is off by"),
    "answers_for_the_worker": ("implausible", "forged_answer", "answered what nobody asked for"),
    "answers_with_the_token": ("implausible", "forged_answer", "answered what nobody asked for"),
    "raises_without_words": ("launch_error", None, "Wordless, whose words raise RuntimeError"),
    "raises_half_a_character": ("launch_error", None, "half \ud800 of it"),
    "forks_and_dies": ("crashed", None, "the process ended (stage launch): exit code 7"),
}
TIMED = {
    "never_flushes": ("implausible", "flush", "checksum of the L2 flush"),
    "stops_the_clock": ("implausible", "wall_clock", "by the verifier's clock, 0.0010 ms as reported"),
    "replays": ("wrong", "kept_results", "bit by bit that of other inputs"),
}
"""Trick -> status, check, and words of the reason."""
HONEST = (
    *("in_one_buffer", "cached_by_shape", "tunes_itself", "with_weights", "with_weights_into", "with_other_strides"),
    "with_another_default",
)


def case(name: str) -> Case:
    return Case("bench", None, own.BACKEND, PROBLEM, None, own.parse(f"{tricks.__file__}:{name}"))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Service]:
    log = tmp_path_factory.mktemp("isolation") / "run.log"
    log.touch()
    deaf: Any = SimpleNamespace(send_bytes=lambda message: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        found = service.Service(deaf, harness.build, "cpu", None, Deadlines(launch=30), log)
        yield found
        found.end_isolation()


def outcome(judge: service.Service, name: str) -> dict[str, Any]:
    """The fields of the kernel's row: of its gate, or of its times where it is a trick of those."""
    label = name
    try:
        gate = judge.gate(case(name), label, GateOptions(repeats=2))
        if name not in TIMED and name not in HONEST:
            return gate
        assert gate["status"] == "passed", gate["reason"]
        answer = judge.time({label: case(name)}, label, QUICK)
        if name in TIMED:
            judge.end_isolation()  # what it has patched stays so
        return answer[label]
    except Failed as failure:
        return failure.fields


@pytest.mark.parametrize("name", [*GATED, *TIMED])
def test_a_trick_ends_as_a_row_that_names_it(judge: service.Service, name: str) -> None:
    status, check, words = {**GATED, **TIMED}[name]
    found = outcome(judge, name)
    assert (found["status"], found.get("check")) == (status, check), found["reason"]
    assert words in found["reason"]
    assert tables.failed([found]), "exit code 1"


@pytest.mark.parametrize("name", HONEST)
def test_what_an_honest_kernel_may_do_passes(judge: service.Service, name: str) -> None:
    found = outcome(judge, name)
    assert found["status"] == "passed", found["reason"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*HONEST, "in_a_graph", *GATED, *TIMED])
def test_the_same_on_a_gpu(name: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.touch()
    deaf: Any = SimpleNamespace(send_bytes=lambda message: None)
    judge = service.Service(deaf, harness.build, "gpu", None, Deadlines(), log)
    found = outcome(judge, name)
    judge.end_isolation()
    expected = {**GATED, **TIMED}.get(name, ("passed", None, ""))
    assert (found["status"], found.get("check")) == expected[:2], found["reason"]


def test_the_kernels_process_imports_nothing_that_compares() -> None:
    script = "import harness.measure.isolated, harness.build, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "harness.measure.isolated" in loaded
    room = "harness.operators.attention"
    for module in ("harness.measure.gate", "harness.measure.verifier", *(f"{room}.{n}" for n in SECRETS)):
        assert module not in loaded


SECRETS = ("inputs", "reference", "numerics")


def test_no_process_can_take_shared_memory_away() -> None:
    shared = Shared()
    shared.bytes(0, 4096).fill_(7)
    with pytest.raises(PermissionError):
        os.ftruncate(shared.descriptor, 16)
    again = Shared(os.dup(shared.descriptor)).bytes(100, 10)
    assert again.tolist() == [7] * 10


@pytest.mark.parametrize("status", ["passed", "fine", None, 3])
def test_a_process_can_say_that_it_failed_and_nothing_better(status: Any, tmp_path: Path) -> None:
    """Whatever else it says is a forged answer."""
    script = f"""
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
connection.send_bytes(b'["done", null, null]')
connection.recv_bytes()
import json
connection.send_bytes(json.dumps(["failed", [{status!r}, "because", {{}}]]).encode())
connection.recv_bytes()
"""
    (tmp_path / "liar.py").write_text(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        liar = Worker({}, "", "cpu", tmp_path / "log", Deadlines(), module="liar", extra=())
        with pytest.raises(Failed) as failure:
            liar.call("launch")
    assert (failure.value.fields["status"], failure.value.fields["check"]) == ("implausible", "forged_answer")


def row(status: str, **fields: str) -> dict[str, str]:
    return {"status": status, "reason": "because", "kernel": "mine.py:attend", **fields}


@pytest.mark.parametrize(
    ("statuses", "named", "code"),
    [
        (("passed",), True, 0),
        (("passed", "unsupported"), False, 0),  # right where it does anything
        (("passed", "unsupported"), True, 3),
        (("unsupported",), False, 3),
        (("passed", "not_converged"), False, 3),
        (("passed", "interrupted"), False, 3),
        (("passed", "not_converged", "wrong"), False, 1),
        (("passed", "implausible"), False, 1),
    ],
)
def test_no_verdict_is_no_success(statuses: tuple[str, ...], named: bool, code: int) -> None:
    beside = {"status": "passed", "backend": "sdpa_flash"}
    assert tables.exit_code([beside, *map(row, statuses)], named=named) == code


CALLS = 6
CUDA_BATCH = f"""
import ctypes, os, struct, sys
import torch
from harness.measure.isolated import ABOUT, CALL, Output
library = ctypes.CDLL(sys.argv[1])
draws, results = os.pipe(), os.pipe()
assert library.loop_open(1, draws[0], results[1]) == 0
words = torch.arange(1000, dtype=torch.int32)
sums = torch.zeros({CALLS}, dtype=torch.int32)
copies = [torch.arange(64, dtype=torch.uint8), *torch.zeros(2, 64, dtype=torch.uint8)]
library.loop_memory(
    ctypes.c_void_p(words.data_ptr()), ctypes.c_uint64(1000), ctypes.c_void_p(sums.data_ptr()),
    (ctypes.c_uint64 * 1)(64), 1, (ctypes.c_void_p * 3)(*(one.data_ptr() for one in copies)), 3)
seen = []
def call(number, copy, outputs):
    seen.append((copy, copies[copy].tolist()))
    outputs[0] = Output(copies[copy].data_ptr(), 64)
    return 0
for number in range({CALLS}):
    os.write(draws[1], struct.pack("<IIIIQ", number + 7, 1, 1 + number % 2, int(number == 5), number))
kept = torch.zeros(64, dtype=torch.uint8)
error = library.loop_run(
    {CALLS}, None, ABOUT(lambda number: 0), CALL(call), 1, ctypes.c_void_p(kept.data_ptr()), ctypes.c_uint64(64),
    (ctypes.c_uint64 * 1)(0))
found = [list(one) for one in struct.iter_unpack("<dII", os.read(results[0], 16 * {CALLS} + 1))]
print([error, seen, found, kept.tolist()])
"""


def test_the_loop_of_a_gpu_flushes_draws_and_times_by_the_driver(tmp_path: Path) -> None:
    """By a driver that does on the CPU what the loop asks of it: its flush computes what the PTX text says."""
    driver = tmp_path / "libcuda.so.1"
    source = CHECKOUT / "tests" / "support" / "fake_events.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(driver), str(source)], check=True)
    command = [sys.executable, "-c", CUDA_BATCH, str(loop.build())]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True)
    error, seen, results, kept = json.loads(done.stdout.replace("(", "[").replace(")", "]"))
    assert error == 0
    flushes = [(number + 7, sum_) for number, (_, sum_, _) in enumerate(results)]
    assert verifier.are_flushed(1000, flushes, "cpu")
    assert not verifier.are_flushed(1000, [(key, sum_ ^ 1) for key, sum_ in flushes], "cpu")
    assert [copy for copy, _ in seen] == [1, 2] * 3
    base = list(range(64))
    rolled = [base[-16 * (shift % 4) :] + base[: -16 * (shift % 4)] for shift in range(CALLS)]
    assert [values for _, values in seen[2:]] == rolled[:4], "each copy is rolled anew for its next call"
    assert kept == rolled[3], "what the last call was given, as this kernel returns its input"
    assert all(milliseconds > 0 for milliseconds, _, _ in results)


def test_the_flush_assembles() -> None:
    """The driver would translate it at its first use."""
    text = re.search(r'PTX = R"\((.*?)\)";', loop.SOURCE.read_text(), re.DOTALL)
    assert text
    tools = pytest.importorskip("cuda_kernels.toolchain")
    try:
        ptxas = tools.toolchain().bin / "ptxas"
    except tools.ToolchainError as error:
        pytest.skip(str(error))
    for arch in ("sm_80", "sm_90"):
        command = [ptxas, f"-arch={arch}", "-o", "/dev/null", "-"]
        assert subprocess.run(command, input=text[1], text=True, capture_output=True).returncode == 0
