"""Other processes keep the GPU busy while kernels are checked, and the rows say so."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.measure import sharing
from tests.unit.measure import test_runner as runs

fakes = runs.fakes


@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_a_gate_says_how_many_other_processes_used_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is right alone may be wrong on a shared GPU; a gate made alone says nothing about that."""
    asked: list[int] = []

    @contextmanager
    def watched(count: int) -> Iterator[int]:
        asked.append(count)
        yield count

    monkeypatch.setattr(sharing, "busy_processes", watched)

    def passed(found: list[dict]) -> list[dict]:
        return [row for row in found if row.get("status", "passed") == "passed"]

    alone = runs.run(tmp_path / "alone.jsonl", runs.experiment("right", "zeros"), modes=())
    what = runs.experiment("right", "zeros", sharing=2)
    beside = runs.run(tmp_path / "beside.jsonl", what, modes=(), reusable=passed(alone))
    again = runs.run(tmp_path / "again.jsonl", what, modes=(), reusable=passed([*alone, *beside]))
    assert asked == [2, 2]
    for found, count in ((alone, None), (beside, 2)):
        right, wrong = (row for row in found if row["kind"] == "gate")
        assert [row["details"].get("sharing") for row in (right, wrong)] == [count, count]
        assert (right["status"], wrong["status"]) == ("passed", "wrong")
        assert wrong["reason"].endswith("(while 2 other processes used the GPU)") is (count == 2)
    assert [row["technique"] for row in again if row["kind"] == "gate"] == ["zeros"]


def sleep(batches: float) -> None:
    Path(str(os.getpid())).touch()
    time.sleep(99 if batches > 1 else 0)


def fail(batches: float) -> None:
    raise RuntimeError("no GPU")


def test_a_process_works_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "multiply", sleep)
    monkeypatch.chdir(tmp_path)
    with sharing.busy_processes(1) as count:
        assert count == 1
        (pid,) = (int(path.name) for path in tmp_path.iterdir())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    monkeypatch.setattr(sharing, "multiply", fail)
    said = "a process that shares the GPU: RuntimeError: no GPU;"
    with pytest.raises(RuntimeError, match=said), sharing.busy_processes(1):
        pass
