"""Compilers that hang, die or are no longer wanted cost their own kernel and leave no process behind."""

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.machine import processes
from harness.machine.processes import NoAnswer

ENVIRONMENT = {"A_VARIABLE": "set before anything is imported"}


def compiles(name: str) -> str:
    return f"{name}, {os.environ['A_VARIABLE']}"


def fails() -> str:
    raise RuntimeError("expected a ';'")


def crashes() -> str:
    os.abort()


def leaves() -> str:
    os._exit(3)


def hangs(folder: Path) -> str:
    """Starts a compiler that sleeps, and waits for it."""
    compiler = subprocess.Popen(["sleep", "600"])
    (folder / str(compiler.pid)).touch()
    compiler.wait()
    return "never"


def gone(folder: Path) -> bool:
    """Whether compilers were started; returns when all have ended."""
    pids = [file.name for file in folder.iterdir()]
    while any(_runs(pid) for pid in pids):
        time.sleep(0.05)
    return bool(pids)


def _runs(pid: str) -> bool:
    status = Path("/proc", pid, "stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_each_failure_costs_its_own_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]  # the deadline passes when all others have answered
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    good = {(compiles, (name,)): f"{name}, {ENVIRONMENT['A_VARIABLE']}" for name in "abcd"}
    bad = {
        (hangs, (tmp_path,)): NoAnswer("timeout", "no answer within 8 s"),
        (crashes, ()): NoAnswer("crashed", "the process ended: SIGABRT"),
        (leaves, ()): NoAnswer("crashed", "the process ended: exit code 3"),
        (fails, ()): NoAnswer("raised", "RuntimeError: expected a ';'"),
    }
    found = []
    for answer in processes.answers([*bad, *good], ENVIRONMENT, seconds=8):
        found.append(answer)
        if len(found) == len(good) + len(bad) - 1:
            while not any(tmp_path.iterdir()):
                time.sleep(0.05)
            clock[0] = 9.0
    assert len(found) == len(good) + len(bad)
    assert dict(found) == good | bad
    assert gone(tmp_path)


def test_a_request_to_stop_is_seen_while_a_compiler_hangs(tmp_path: Path) -> None:
    jobs = [(hangs, (tmp_path,))] * 3
    assert list(processes.answers(jobs, ENVIRONMENT, stop=lambda: any(tmp_path.iterdir()))) == []
    assert gone(tmp_path)


def test_an_exception_leaves_no_compiler_behind(tmp_path: Path) -> None:
    jobs = [(hangs, (tmp_path,))]

    def interrupt() -> bool:
        if any(tmp_path.iterdir()):
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        list(processes.answers(jobs, ENVIRONMENT, stop=interrupt))
    assert gone(tmp_path)


def test_a_parent_that_is_gone_costs_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    child = processes.Child(ENVIRONMENT)
    child.begin((time.sleep, (0.5,)), 60)
    child.connection.close()
    child._process.join(60)
    assert (child._process.exitcode, capfd.readouterr().err) == (0, "")
