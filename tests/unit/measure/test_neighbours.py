"""One cell alone and with other GPUs at work, in turn, as rows; and the sentence that they become."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.catalog.problem import Problem
from harness.machine import environment
from harness.measure import neighbours
from reports.facts import neighbours as facts
from tests.unit.measure import test_runner as runs

PROBLEM = Problem.square(4, 16, 4096, 128, causal=True)


@pytest.mark.slow
def test_processes_find_the_others_at_work_and_idle_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    at_work = neighbours.at_work

    def watched(boards):  # type: ignore[no-untyped-def]
        asked.append(len(boards))
        return at_work(boards)

    monkeypatch.setattr(neighbours, "at_work", watched)
    monkeypatch.setattr(environment, "boards", lambda: [{"CUDA_VISIBLE_DEVICES": str(number)} for number in range(2)])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with runs.registered():
        what = runs.experiment("right", peers=("sdpa_flash",), neighbours=1)
        rows = runs.run(tmp_path / "run.jsonl", what, modes=("burst",))
    assert asked == [1, 0]
    timed = [row["details"] for row in rows if row["kind"] == "timing" and "replicate" in row["details"]]
    assert [(of["replicate"], of["neighbours"]) for of in timed] == [(2, 1), (2, 1), (3, 0), (3, 0)]


def test_a_gate_tells_how_many_others_used_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is right alone may be wrong where a GPU is shared; a verdict made alone says nothing of that."""
    asked: list[list[dict]] = []

    @contextmanager
    def watched(boards: list[dict]) -> Iterator[int]:
        asked.append(boards)
        yield len(boards)

    monkeypatch.setattr(neighbours, "at_work", watched)

    def passed(found: list[dict]) -> list[dict]:
        return [row for row in found if row.get("status", "passed") == "passed"]

    with runs.registered():
        alone = runs.run(tmp_path / "alone.jsonl", runs.experiment("right", "zeros"), modes=())
        what = runs.experiment("right", "zeros", sharing=2)
        beside = runs.run(tmp_path / "beside.jsonl", what, modes=(), standing=passed(alone))
        again = runs.run(tmp_path / "again.jsonl", what, modes=(), standing=passed([*alone, *beside]))
    assert asked == [[{}, {}], [{}, {}]]
    for found, sharing in ((alone, None), (beside, 2)):
        right, wrong = (row for row in found if row["kind"] == "gate")
        assert [row["details"].get("sharing") for row in (right, wrong)] == [sharing, sharing]
        assert (right["status"], wrong["status"]) == ("passed", "wrong")
        assert wrong["reason"].endswith("(while 2 other processes used the GPU)") is (sharing == 2)
    assert [row["technique"] for row in again if row["kind"] == "gate"] == ["zeros"]


def test_a_neighbour_works_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "pid"
    note = f"open({str(mark)!r}, 'w').write(str(os.getpid()))"
    script = f"import os, time; {note}; print('at work', flush=True); time.sleep(99)"
    real = neighbours.subprocess.Popen
    monkeypatch.setattr(
        neighbours.subprocess, "Popen", lambda _command, **options: real([sys.executable, "-c", script], **options)
    )
    with neighbours.at_work([{"CUDA_VISIBLE_DEVICES": "1"}]) as count:
        assert count == 1
        os.kill(int(mark.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    script = "print('no GPU')"
    with pytest.raises(RuntimeError, match="got 'no GPU', expected 'at work'"), neighbours.at_work([{}]):
        pass


def rows(idle: list[float], busy: list[float]) -> list[dict]:
    """Ratios of the flagship over cuDNN, one process each."""
    found = []
    for number, (ratio, count) in enumerate([*((one, 0) for one in idle), *((one, 3) for one in busy)]):
        about = {
            "kind": "timing",
            "status": "passed",
            "problem": PROBLEM.to_dict(),
            "group": "g",
            "environment": number,
        }
        about["details"] = {"neighbours": count}
        found.append({**about, "backend": "sdpa_cudnn", "samples_ms": [1.0]})
        found.append({**about, "backend": "cuda", "technique": "flagship", "samples_ms": [1 / ratio]})
    return found


def test_kinds_of_process_that_overlap_do_not_move_a_ratio() -> None:
    (found,) = facts.moved(rows([1.10, 1.12, 1.11], [1.115, 1.12, 1.105]))
    assert not found.moves
    assert found.sentence == (
        "Flagship over cuDNN on b4-h16-n4096-d128-bf16-causal: 1.110 alone, 1.115 with 3 other GPUs at work (+0.45%). "
        "Alone, 3 processes gave 1.100 to 1.120; beside busy neighbours, 3 gave 1.105 to 1.120. The ranges overlap: "
        "busy neighbours do not move the ratio."
    )


def test_kinds_of_process_apart_do() -> None:
    (found,) = facts.moved(rows([1.10, 1.12], [1.05, 1.04]))
    assert found.moves
    assert found.sentence.endswith("The ranges do not overlap: busy neighbours move the ratio.")
    assert facts.moved(rows([1.1], [1.0, 1.0])) == [], "one process says nothing"
