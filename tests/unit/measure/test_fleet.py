"""Who gets which problem when, and what becomes of what was lost; the workers are pretended."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.cli import spreading
from harness.measure import fleet, ray_workers
from harness.measure.fleet import Answer, Lost, Work
from harness.operators.attention.problem import Problem
from harness.rows import making, results, schema

PROBLEMS = tuple(Problem.square(1, 2, length, 64) for length in (512, 4096, 1024, 2048))
TILE = Tile(64, 64)
CASES = tuple(Case("ladder", name, "cuda", problem, TILE) for problem in PROBLEMS for name in ("scalar", "wmma"))
WORK = Work(("-m", "harness", "run", "attention/ladder"), PROBLEMS, CASES)


def lines(case: Case, number: int) -> list[str]:
    """An environment row and a failed gate of the case, as a command writes them."""
    environment = {**making.environment({"gpu": None, "process": number}, "gpu"), "time": "2026-01-31T23:59:59Z"}
    gate = {"kind": "gate", "status": "wrong", "reason": "x", "time": "2026-01-31T23:59:59Z"}
    about = making.about(case, on="gpu", source_sha256="0" * 64, environment=environment["id"])
    return [json.dumps({"schema": results.SCHEMA, **row}) for row in (environment, {**about, **gate})]


class Pretended:
    """A worker that does each job in two polls: first a row, then the end. `faults`: what happens instead of a poll."""

    def __init__(self, board: str | None, diary: list, faults: Sequence[object] = ()) -> None:
        self.board, self.diary, self.faults = board, diary, list(faults)
        self.stopped: list[bool] = []

    def start(self, arguments: Sequence[str], earlier: Sequence[str]) -> None:
        options = dict(pairwise(arguments))
        self.problem = PROBLEMS[int(options["--shard"].split("/")[0]) - 1]
        self.number = int(options.get("--replicates", 1))
        self.diary.append((self.board, self.problem.seq_q, self.number, len(earlier)))
        case = next(case for case in CASES if case.problem == self.problem)
        self.todo = [Answer(tuple(lines(case, self.number))), Answer((), 0)]

    def poll(self) -> Answer:
        if self.faults and (fault := self.faults.pop(0)):
            if isinstance(fault, Exception):
                raise fault
            if isinstance(fault, Answer):
                return fault
        return self.todo.pop(0)

    def stop(self, *, at_once: bool) -> None:
        self.stopped.append(at_once)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "PAUSE", 0.0)
    monkeypatch.setattr(fleet, "NO_GPU", 0.0)


def nobody() -> Pretended:
    return Pretended(None, [])


def test_each_problem_is_done_once_the_slowest_first(tmp_path: Path) -> None:
    diary: list = []
    workers = [Pretended("GPU 0", diary), Pretended("GPU 1", diary)]
    rows = fleet.run(WORK, tmp_path / "run.jsonl", workers, new_worker=nobody)
    assert [length for _, length, _, _ in diary] == [4096, 2048, 1024, 512]
    assert {board for board, *_ in diary} == {"GPU 0", "GPU 1"}
    assert rows == results.read(tmp_path / "run.jsonl", schema.check)
    assert {row["problem"]["seq_q"] for row in rows if row["kind"] == "gate"} == {512, 1024, 2048, 4096}
    assert all(worker.stopped == [True] for worker in workers)


def test_further_processes_of_a_problem_go_to_other_boards_with_its_rows(tmp_path: Path) -> None:
    diary: list = []
    workers = [Pretended(f"GPU {number}", diary) for number in range(3)]
    work = Work(WORK.arguments, PROBLEMS, CASES, replicates=3)
    fleet.run(work, tmp_path / "run.jsonl", workers, new_worker=nobody)
    for problem in PROBLEMS:
        mine = [(board, number, earlier) for board, length, number, earlier in diary if length == problem.seq_q]
        assert len({board for board, *_ in mine}) == 3
        assert [number for _, number, _ in mine] == [1, 2, 3]
        assert [earlier for *_, earlier in mine] == [0, 2, 4]


def test_on_one_board_all_processes_are_its_own(tmp_path: Path) -> None:
    diary: list = []
    work = Work(WORK.arguments, PROBLEMS, CASES, replicates=2)
    fleet.run(work, tmp_path / "run.jsonl", [Pretended("GPU 0", diary)], new_worker=nobody)
    assert len(diary) == 8


def test_what_a_lost_worker_had_goes_to_a_new_one(tmp_path: Path) -> None:
    diary: list = []
    lost = Pretended("GPU 0", diary, [None, Lost("the actor died")])
    fleet.run(WORK, tmp_path / "run.jsonl", [lost], new_worker=lambda: Pretended("GPU 1", diary))
    assert [(board, length) for board, length, *_ in diary] == [
        *(("GPU 0", 4096), ("GPU 1", 4096), ("GPU 1", 2048), ("GPU 1", 1024), ("GPU 1", 512))
    ]
    assert diary[1][-1] == 2, "what came back before it was lost is not done again"
    assert lost.stopped == [True]


BROKEN = Answer((), 2, "--on: got gpu, but torch sees none")


def test_a_gpu_that_ends_every_command_badly_costs_no_problem(tmp_path: Path) -> None:
    """It ends its commands at once, and takes one problem after the other from the GPU that works."""
    diary: list = []
    workers = [Pretended("GPU 0", diary, [BROKEN] * 99), Pretended("GPU 1", diary)]
    rows = fleet.run(WORK, tmp_path / "run.jsonl", workers, new_worker=nobody)
    assert {length for board, length, *_ in diary if board == "GPU 1"} == {4096, 2048, 1024, 512}
    assert {row["reason"] for row in rows if row["kind"] == "gate"} == {"x"}, "no problem was given up"


def test_where_every_gpu_ends_commands_badly_the_rows_say_how(tmp_path: Path) -> None:
    rows = fleet.run(WORK, tmp_path / "run.jsonl", [Pretended("GPU 0", [], [BROKEN] * 99)], new_worker=nobody)
    told = {row["problem"]["seq_q"]: row["reason"] for row in rows if row["kind"] == "gate"}
    assert set(told) == {4096, 2048, 1024, 512}
    assert all("torch sees none" in reason for reason in told.values())


@pytest.mark.parametrize(
    "fault", [Lost("the actor died"), Answer((), -9, "Killed"), Answer(("no row",)), Answer(('{"kind": "gate"}',))]
)
def test_what_is_lost_twice_becomes_rows_of_the_cells_that_have_none(tmp_path: Path, fault: object) -> None:
    diary: list = []
    workers = [Pretended("GPU 0", diary, [None, fault, fault])]
    rows = fleet.run(
        WORK,
        tmp_path / "run.jsonl",
        workers,
        new_worker=lambda: Pretended("GPU 0", diary, [fault] if len(diary) == 1 else []),
    )
    gates = {(row["problem"]["seq_q"], row["technique"]): row for row in rows if row["kind"] == "gate"}
    assert gates[4096, "scalar"]["status"] == "wrong", "it came back in time"
    assert gates[4096, "wmma"]["status"] == "crashed"
    assert gates[4096, "wmma"]["reason"].startswith("begun 2 times: ")
    assert gates[2048, "scalar"]["status"] == "wrong"
    assert len(diary) == 5


@pytest.mark.parametrize("line", ["[" * 100_000, "1", '{"kind": "gate", "kind": "timing"}', "\udce9", "x"])
def test_a_line_that_is_no_row_loses_the_worker_and_not_the_run(tmp_path: Path, line: str) -> None:
    diary: list = []
    torn = Pretended("board 0", diary, [Answer((line,))])
    rows = fleet.run(WORK, tmp_path / "run.jsonl", [torn], new_worker=lambda: Pretended("board 1", diary))
    gates = [row for row in rows if row["kind"] == "gate"]
    assert [row["status"] for row in gates] == ["wrong"] * len(PROBLEMS)
    assert torn.stopped
    assert [board for board, *_ in diary] == ["board 0", *["board 1"] * len(PROBLEMS)]


def test_without_any_gpu_left_every_problem_is_a_row(tmp_path: Path) -> None:
    lost = Pretended("GPU 0", [], [Lost("the node is gone")])
    rows = fleet.run(WORK, tmp_path / "run.jsonl", [lost], new_worker=nobody)
    gates = [row for row in rows if row["kind"] == "gate"]
    assert len(gates) == len(CASES)
    assert {row["reason"] for row in gates} == {"begun once: no GPU is left", "never begun: no GPU is left"}
    assert {row["status"] for row in gates} == {"interrupted"}, "a command that continues this one does them"


class Interrupting(Pretended):
    """Ctrl-C comes while it works; its row comes when it has ended."""

    def poll(self) -> Answer:
        if self.stopped:
            return Answer(self.todo[0].lines, 130)
        os.kill(os.getpid(), signal.SIGINT)
        return Answer()


def test_ctrl_c_lets_the_cases_in_progress_end_and_loses_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Interrupting("GPU 0", [])
    with pytest.raises(SystemExit) as ended:
        fleet.run(WORK, tmp_path / "run.jsonl", [worker], new_worker=nobody)
    assert ended.value.code == 130
    assert worker.stopped == [False, True]
    assert f"the rows so far are in {tmp_path / 'run.jsonl'}" in capsys.readouterr().err
    assert [row["kind"] for row in results.read(tmp_path / "run.jsonl")] == ["environment", "gate"]


def test_what_was_interrupted_is_continued_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diary: list = []
    workers = iter((Interrupting("GPU 0", []), Pretended("GPU 0", diary)))
    monkeypatch.setattr(ray_workers, "workers", lambda count, address: nullcontext(([next(workers)], nobody)))
    path = tmp_path / "begun.jsonl"
    with pytest.raises(SystemExit):
        spreading.spread(WORK, path, "all", None)
    assert f"the same command with --rows {path} continues" in capsys.readouterr().err
    rows = spreading.spread(WORK, path, "all", None)
    assert [(length, earlier) for _, length, _, earlier in diary] == [(4096, 2), (2048, 0), (1024, 0), (512, 0)]
    assert rows == results.read(path)


def test_what_no_gpu_was_left_for_is_continued_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diary: list = []
    workers = iter((Pretended("GPU 0", [], [None, Lost("the node is gone")]), Pretended("GPU 1", diary)))
    monkeypatch.setattr(ray_workers, "workers", lambda count, address: nullcontext(([next(workers)], nobody)))
    monkeypatch.setattr(fleet, "source_sha256", lambda case: "0" * 64)
    path = tmp_path / "begun.jsonl"
    rows = spreading.spread(WORK, path, "all", None)
    assert rows[-1]["kind"] == "gate", "how long the whole took is not known"
    assert f"the same command with --rows {path} continues" in capsys.readouterr().err
    rows = results.newest(results.without_interrupted(spreading.spread(WORK, path, "all", None)))
    assert [length for _, length, *_ in diary] == [4096, 2048, 1024, 512]
    done = [row["status"] for row in rows if row["kind"] == "gate" and row["technique"] == "scalar"]
    assert done == ["wrong"] * len(PROBLEMS), "it is what each command here does"


def test_where_ray_is_missing_the_way_without_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ray_workers.Refused, match=r"pip install -e '\.\[cluster\]'.*--shard 1/4"),
        ray_workers.workers(2),
    ):
        pass


def test_an_actor_that_ends_before_it_answers_is_told_at_once() -> None:
    ended = SimpleNamespace(board=None, lost="its worker could not register", code="")
    with pytest.raises(ray_workers.Refused, match="ended before it answered: its worker could not register"):
        ray_workers._await([ended], timeout=3600)  # type: ignore[list-item]
