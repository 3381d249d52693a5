"""Other processes keep the GPU busy while kernels are checked, and the rows say so."""

from __future__ import annotations

import os
import sys
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


def test_a_process_works_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "pid"
    note = f"open({str(mark)!r}, 'w').write(str(os.getpid()))"
    script = f"import os, time; {note}; print('at work', flush=True); time.sleep(99)"
    real = sharing.subprocess.Popen
    monkeypatch.setattr(
        sharing.subprocess, "Popen", lambda _command, **options: real([sys.executable, "-c", script], **options)
    )
    with sharing.busy_processes(1) as count:
        assert count == 1
        os.kill(int(mark.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    script = "print('no GPU')"
    with pytest.raises(RuntimeError, match="got 'no GPU', expected 'at work'"), sharing.busy_processes(1):
        pass
