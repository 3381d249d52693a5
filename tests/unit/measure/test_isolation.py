"""A user's kernel and what judges it are two processes: tricks of every kind end as rows of their own, honest habits
pass. Here this process is the verifier's."""

import json
import multiprocessing
import random
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
import torch

import harness.build
from harness.catalog import own
from harness.catalog.cases import Case
from harness.measure import arenas, service, verifier, worker
from harness.measure.worker import Deadlines, Failed, GateOptions, Isolation, Worker
from harness.operators.attention.problem import Problem
from harness.rows import tables
from tests.conftest import CHECKOUT
from tests.support import commands, fake_events, tricks

pytestmark = pytest.mark.slow

PROBLEM = Problem(1, 2, 1, 64, 128, 64, "fp16", True)
QUICK = {"min_samples": 60, "max_seconds": 60.0, "target": 10.0, "limit": 10.0}
"""So many samples that the three which the verifier compares are not all first calls on their inputs: there a trick
that remembers inputs is right."""
GATED = {
    "searches_memory": ("wrong", "max_error", "O is off by"),
    "searches_frames": ("wrong", "max_error", "O is off by"),
    "searches_freed_memory": ("wrong", "max_error", "O is off by"),
    "overwrites_the_expected": ("wrong", "guard_band", "the kernel wrote outside lse"),
    "replaces_the_comparison": ("wrong", "max_error", "O is off by"),
    "answers_for_the_worker": ("implausible", "forged_answer", "answered what nobody asked for"),
    "answers_with_the_token": ("implausible", "forged_answer", "answered what nobody asked for"),
    "writes_later": ("wrong", "unwritten", "elements of o were not written"),
    "answers_for_the_compilers": ("wrong", "max_error", "O is off by"),
    "leaves_quietly": ("crashed", None, "the process ended (stage launch): exit code 0"),
    "takes_the_memory_away": ("wrong", "max_error", "O is off by"),
    "raises_without_words": ("launch_error", None, "Wordless, whose words raise RuntimeError"),
    "raises_half_a_character": ("launch_error", None, "half \ud800 of it"),
    "forks_and_dies": ("crashed", None, "the process ended (stage launch): exit code 7"),
}
TIMED = {
    "never_flushes": ("implausible", "flush", "the flush of L2 has another checksum"),
    "never_flushes_for_the_clock": ("implausible", "flush", "the flush of L2 has another checksum"),
    "stops_the_clock": ("implausible", "wall_clock", "by the verifier's clock, 0.0010 ms as reported"),
    "waits_in_shorter_batches": ("implausible", "wall_clock", "by the verifier's clock, 0.0010 ms as reported"),
    "computes_nothing_for_the_clock": ("wrong", "max_error", "timed output: O is off by"),
    "is_honest_to_the_clock": ("implausible", "wall_clock", "by the verifier's clock, 0.0010 ms as reported"),
    "charges_its_time_to_the_flush": ("implausible", "wall_clock", "by the verifier's clock, 0.0010 ms as reported"),
    "right_when_it_is_checked": ("wrong", "max_error", "timed output: O is off by"),
    "begins_two_calls_at_once": ("cuda_error", None, "timing loop: CUDA error -1"),
    "sends_times_of_its_own": ("implausible", "forged_answer", "bytes for 2 calls"),
    "finishes_after_the_clock": ("wrong", "max_error", "timed output: O is off by"),
    "repairs_what_is_kept": ("wrong", "max_error", "timed output: O is off by"),
    "works_between_calls": ("wrong", ANY, "O is off by"),
    "hands_nothing_back": ("wrong", "unwritten", "timed output: o was not returned"),
    "replays": ("wrong", "kept_results", "bit by bit that of other inputs"),
}
"""Trick -> status, check, and words of the reason."""
HONEST = (
    *("in_one_buffer", "cached_by_shape", "tunes_itself", "with_weights", "with_weights_into", "with_other_strides"),
    *("with_another_default", "imported_after_the_loop"),
)


def case(name: str) -> Case:
    return Case("bench", None, own.BACKEND, PROBLEM, None, own.parse(f"{tricks.__file__}:{name}"))


def judging(folder: Path, on: str) -> Iterator[service.Service]:
    log = folder / "run.log"
    log.touch()
    deaf: Any = SimpleNamespace(send_bytes=lambda message: None)
    found = service.Service(deaf, "harness.build", on, Deadlines(launch=30), log)
    found.start()
    yield found
    found.end_isolation()


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Service]:
    folder = tmp_path_factory.mktemp("isolation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        fake_events.take_the_place_of_a_gpu(patch, folder)
        yield from judging(folder, "cpu")


@pytest.fixture(scope="module")
def judge_on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Service]:
    yield from judging(tmp_path_factory.mktemp("isolation"), "gpu")


def outcome(judge: service.Service, name: str) -> dict[str, Any]:
    """The fields of the kernel's row: of its gate, or of its times where it is a trick of those."""
    label = name
    if name in TIMED:
        judge.end_isolation()  # its gate is in a process that does not time
    try:
        gate = judge.gate(case(name), label, GateOptions(repeats=2))
        if name in GATED:
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


@pytest.mark.parametrize("name", ["says_what_no_row_can_hold", "fails_without_words"])
def test_a_process_makes_no_rows_that_a_command_refuses(name: str, tmp_path: Path) -> None:
    ran = commands.run(tmp_path, "check", f"{tricks.__file__}:{name}", "--problem", PROBLEM.slug)
    (row,) = ran.of("gate")
    assert (ran.code, row["status"], row["check"]) == (1, "implausible", "forged_answer"), ran.told


@pytest.mark.parametrize("name", HONEST)
def test_what_an_honest_kernel_may_do_passes(judge: service.Service, name: str) -> None:
    found = outcome(judge, name)
    assert found["status"] == "passed", found["reason"]
    assert "own_tricks" not in sys.modules, "the verifier imported the file"


def test_a_kernel_that_declines_when_it_is_timed_costs_the_next_one_nothing(judge: service.Service) -> None:
    judge.end_isolation()
    with pytest.raises(Failed) as failure:
        judge.time({"one": case("declines_when_it_is_timed")}, "one", QUICK)
    assert failure.value.fields["status"] == "unsupported"
    assert outcome(judge, "in_one_buffer")["status"] == "passed"


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*HONEST, "in_a_graph", *GATED, *TIMED])
def test_the_same_on_a_gpu(judge_on_gpu: service.Service, name: str) -> None:
    status, check, words = {**GATED, **TIMED}.get(name, ("passed", None, ""))
    found = outcome(judge_on_gpu, name)
    assert (found["status"], found.get("check")) == (status, check), found["reason"]
    assert words in (found["reason"] or "")


def test_the_kernels_process_imports_nothing_that_compares() -> None:
    script = "import harness.measure.isolated, harness.build, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "harness.measure.isolated" in loaded
    room = "harness.operators.attention"
    for module in ("harness.measure.gate", "harness.measure.verifier", *(f"{room}.{n}" for n in SECRETS)):
        assert module not in loaded


def test_copies_of_the_inputs_exceed_twice_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_events.take_the_place_of_a_gpu(monkeypatch, tmp_path)
    asked: list[Any] = []
    memory = bytearray(2**20)
    isolation: Any = SimpleNamespace(memory=memory, call=lambda *arguments: asked.extend(arguments))
    verifier.Stopwatch([isolation], PROBLEM, "cpu", {"a": case("in_one_buffer")})
    _, _, _, bound, words, *_ = asked
    copies = bound - 1  # CUPTI sees another one
    size = 2 * (2 * 64 * 64 + 2 * 128 * 64)  # bytes of q, k and v
    assert copies * size >= 2 * fake_events.CACHE > (copies - 1) * size
    assert 4 * words == 2 * fake_events.CACHE


GAP = verifier.CLOCK_GAP
"""On a GPU."""
SPIN_MS, FLUSH_MS = 20.0, 0.1
MANY = 40
"""Runs of a simulated kernel."""


@dataclass
class Batches:
    """A process on a simulated clock: a call takes the GPU `milliseconds` and the host `launch`, and a batch of so many
    calls takes `more` milliseconds beside."""

    now: list[float]
    more: Callable[[int], float]
    milliseconds: float = 0.0
    launch: float = 0.0
    queues: bool = True
    """Whether its loop says so of batches that the host queues within the spin."""

    def __post_init__(self) -> None:
        self.channel, self.theirs = socket.socketpair()
        self.memory, self.sent, self.arrived = bytearray(2**20), bytearray(), 0.0

    def call(self, method: str, labels: Any, *_: Any) -> Any:
        if method != "batch":
            return None
        calls, draws = len(labels), struct.iter_unpack("=IIII", self.theirs.recv(2**20))
        assert sum(kept for *_, kept in draws) == 1, "an output of each batch that counts is compared"
        host = calls * self.launch
        self.now[0] += (max(SPIN_MS, host) + calls * (FLUSH_MS + self.milliseconds) + self.more(calls)) / 1e3
        self.arrived = self.now[0]
        self.now[0] += 1.0  # the output is read back
        ahead = self.queues and host <= SPIN_MS
        self.sent += struct.pack(f"={2 * calls + 1}fQ", *[1.0] * (2 * calls), ahead, 0)
        return [[None, None]] * calls, [0] * calls


@pytest.fixture
def contradicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """In how many of MANY runs the verifier's clock contradicts a kernel that reports so many milliseconds a call.
    `late`: what a host adds to any batch; `waits`: what the kernel adds to one of so many calls."""
    now = [0.0]
    fake_events.take_the_place_of_a_gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(verifier, "CLOCK_GAP", GAP)
    monkeypatch.setattr(verifier, "chance", random.Random(0))
    monkeypatch.setattr(verifier, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def count(
        reported: float,
        milliseconds: float,
        *,
        late: Callable[[], float] = lambda: 0.0,
        waits: Callable[[int], float] = lambda calls: 0.0,
        **more: Any,
    ) -> int:
        own: Any = Batches(now, lambda calls: late() + waits(calls), milliseconds, **more)
        empty: Any = Batches(now, lambda calls: late())
        with own.channel, own.theirs, empty.channel, empty.theirs:
            watch = verifier.Stopwatch([own, empty], PROBLEM, "cpu", {"a": case("in_one_buffer")})
            return sum(watch._late("a", reported) is not None for _ in range(MANY))

    return count


def busy() -> Callable[[], float]:
    """By how many milliseconds a host that compiles beside is late: every other batch by more than 2, one of 80 by more
    than 80."""
    chance = random.Random(0)
    return lambda: 2.0 * chance.paretovariate(1.0) if chance.random() < 0.5 else 0.2 * chance.random()


@pytest.mark.parametrize(
    "honest",
    [
        {"launch": 0.05},
        {"launch": 3.0},  # the host queues no batch of 32 within the spin
        {"queues": False, "waits": lambda calls: 0.15 * calls},  # it waits for the GPU in each call
    ],
)
def test_a_busy_host_makes_no_time_implausible(contradicted: Callable[..., int], honest: dict[str, Any]) -> None:
    late = busy()
    assert not any(contradicted(one, one, late=late, **honest) for one in (0.005, 0.1, 1.0, 5.0, 40.0))


@pytest.mark.parametrize(
    "waits",
    [
        lambda calls: 0.0,
        lambda calls: 200.0 / calls,  # in shorter batches more
        lambda calls: max(0.0, 500.0 - calls),  # all batches last equally long
        lambda calls: 3.0 * calls,
        lambda calls: 100.0 * random.Random(calls).random(),
    ],
)
def test_no_kernel_makes_its_time_plausible_by_waiting(
    contradicted: Callable[..., int], waits: Callable[[int], float]
) -> None:
    for reported, milliseconds in ((0.001, 0.2), (0.7, 1.1), (20.0, 30.0)):
        assert contradicted(reported, milliseconds, waits=waits) == MANY
        assert contradicted(reported, milliseconds, waits=waits, late=busy()) >= 0.95 * MANY


def test_a_launcher_that_pretends_to_be_slow_hides_a_quarter_of_a_millisecond(contradicted: Callable[..., int]) -> None:
    assert contradicted(0.5, 1.0, queues=False) == MANY
    assert contradicted(0.5, 0.8, queues=False) == 0


def test_what_arrives_as_the_verifier_looks_away_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    (connection, answers), (ours, theirs) = multiprocessing.Pipe(), socket.socketpair()
    isolation: Any = SimpleNamespace(_connection=connection, channel=ours, sent=bytearray())
    real = worker.wait

    def late(*arguments: Any) -> Any:
        found = real(*arguments)
        monkeypatch.setattr(worker, "wait", real)
        theirs.sendall(b"told")  # between this look and the next line, the process sends all and answers
        answers.send(None)
        return found

    monkeypatch.setattr(worker, "wait", late)
    with ours, theirs:
        assert [(Isolation._hears(isolation, 0), bytes(isolation.sent)) for _ in "12"][-1] == (True, b"told")


SECRETS = ("inputs", "reference", "numerics")


@pytest.mark.parametrize("start", [partial(Worker, {}), partial(Isolation, None)])
def test_nothing_is_imported_from_the_working_folder(start: Callable[..., Worker], tmp_path: Path) -> None:
    """A stranger's kernel may lie in it, beside a file that is named like a module of Python's."""
    (tmp_path / "ctypes.py").write_text("raise SystemExit(7)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "subprocess", subprocess)  # not forked: how it starts is what is tested
        patch.chdir(tmp_path)
        started = start("harness.build", "cpu", tmp_path / "log", Deadlines())
        with pytest.raises(Failed, match="no attribute 'ask'"):
            started.call("ask")


def test_a_kernel_may_import_from_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "in_the_working_folder.py").touch()
    (tmp_path / "kernels" / "mine.py").write_text("import in_the_working_folder\ndef attend(q, k, v): ...\n")
    kernel = own.parse(f"{tmp_path}/kernels/mine.py:attend")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        started = Isolation(None, "harness.build", "cpu", tmp_path / "log", Deadlines())
        started.call("load", Case("check", None, own.BACKEND, PROBLEM, None, kernel), "mine")
        started.kill()


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
        patch.setattr(Worker, "MODULE", "liar")
        liar = Worker({}, "", "cpu", tmp_path / "log", Deadlines())
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
BATCH = f"""
import ctypes, json, socket, struct, sys, threading, time
import torch
recorded = ctypes.c_int.in_dll(ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL), "recorded")
library = ctypes.CDLL(sys.argv[1])
verifiers, channel = socket.socketpair()
def call(function, *arguments):
    return getattr(library, f"loop_{{function}}")(
        *(ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments))
call("open", channel.fileno(), 0)
words = torch.arange(1000, dtype=torch.int32)
sums = torch.zeros({CALLS}, dtype=torch.int32)
base, *copies = torch.arange(64, dtype=torch.uint8), *torch.zeros(2, 64, dtype=torch.uint8)
table = torch.tensor([64, base.data_ptr(), *(one.data_ptr() for one in copies)])
call("memory", words.data_ptr(), 4000, 4, 4, table.data_ptr(), 64)
for number in range({CALLS}):
    verifiers.sendall(struct.pack("=IIII", number + 7, number % 2, number, int(number == 3)))
seen = []
for number in range({CALLS}):
    before = recorded.value, [one.tolist() for one in copies]
    copy = call("begin", sums.data_ptr())
    seen.append((copy, before, (recorded.value, copies[copy].tolist())))
    output = copies[copy].clone()
    call("end", 1, (ctypes.c_uint64 * 2)(output.data_ptr(), 64))
    output.zero_()
error = call("finish")
*told, count = struct.unpack("={2 * CALLS + 1}fQ", verifiers.recv(8 * {CALLS} + 12))
print(json.dumps([error, seen, sums.tolist(), told, [*verifiers.recv(count + 1)]]))
"""


def test_the_loop_flushes_draws_and_times_by_the_driver(tmp_path: Path) -> None:
    """By a driver that does on the CPU what the loop asks of it: its flush computes what the PTX text says. A call's
    inputs are made, and its copy is told, when its begin is recorded: nothing can be computed of them before."""
    command = [sys.executable, "-c", BATCH, str(harness.build.plain_library(verifier.LOOP))]
    with pytest.MonkeyPatch.context() as patch:
        fake_events.take_the_place_of_a_gpu(patch, tmp_path)
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=100)
    error, seen, sums, told, kept = json.loads(done.stdout)
    assert error == 0
    flushes = [(number + 7, sum_ % 2**32) for number, sum_ in enumerate(sums)]
    assert verifier.are_flushed(1000, flushes, "cpu")
    assert not verifier.are_flushed(1000, [(key, sum_ ^ 1) for key, sum_ in flushes], "cpu")
    base = list(range(64))
    for number, (copy, (events, before), (events_then, inputs)) in enumerate(seen):
        assert copy == number % 2
        assert inputs == base[-16 * (number % 4) :] + base[: -16 * (number % 4)]
        assert inputs not in before or number >= 4, "values of calls to come"
        assert events_then == events + 1 + (number == 0)
    assert kept == seen[3][2][1], "the output of the call that is kept, as it was when the call ended"
    *intervals, ahead = told
    assert len(intervals) == 2 * CALLS
    assert ahead == 1
    assert all(milliseconds > 0 for milliseconds in intervals)


def test_inputs_are_rolled_by_what_was_drawn() -> None:
    base, inputs = torch.arange(64, dtype=torch.uint8), torch.zeros(2, 64, dtype=torch.uint8)
    for shift in range(5):
        arenas.roll(inputs, [base] * 2, shift)
        for one, times in zip(inputs, (1, 3), strict=True):
            assert torch.equal(one, base.roll(16 * times * shift))


def test_the_flush_assembles() -> None:
    """The driver would translate it at its first use."""
    text = re.search(r'PTX = R"\((.*?)\)";', verifier.LOOP.read_text(), re.DOTALL)
    assert text
    tools = pytest.importorskip("cuda_kernels.toolchain")
    try:
        ptxas = tools.toolchain().bin / "ptxas"
    except tools.ToolchainError as error:
        pytest.skip(str(error))
    for arch in ("sm_80", "sm_90"):
        command = [ptxas, f"-arch={arch}", "-o", "/dev/null", "-"]
        assert subprocess.run(command, input=text[1], text=True, capture_output=True).returncode == 0
