"""What a report knows of rows before it draws: which stand for a rung, where they come from, what is told of them."""

from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from reports.data.dataset import Point, fastest, why
from reports.data.loading import load
from reports.facts import scores, tuning
from tests.support import row_file
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, lines

pytestmark = pytest.mark.slow

Row = dict[str, Any]
PROBLEM = synthetic.PROBLEMS[0]


def timing(milliseconds: float, **rest: Any) -> Row:
    row = {"kind": "timing", "on": "gpu", "status": "passed", "problem": PROBLEM.to_dict()}
    row |= {"samples_ms": [milliseconds], "time": "1", "mode": "burst", "experiment": "ladder", "operator": "attention"}
    return {**row, "backend": "cuda", "details": {}, **rest}


def test_a_run_that_was_recorded_is_not_told_twice(tmp_path: Path) -> None:
    recorded, run = tmp_path / "recorded", tmp_path / "run.jsonl"
    rows = synthetic.rows()[:40]
    row_file.write_recorded(recorded, rows)
    row_file.write(run, rows)
    assert [data.recorded for data in load(recorded, [run], synthetic.hashes())] == [True]
    again = next(row for row in rows if row["kind"] == "timing") | {"time": "2030-01-03T00:00:00Z"}
    run = tmp_path / "later.jsonl"
    row_file.write(run, [*rows, again])
    (fresh,) = [data for data in load(recorded, [run], synthetic.hashes()) if not data.recorded]
    assert [row.time for row in fresh.newest] == [again["time"]]
    probe = {"kind": "proof", "on": "cpu", "experiment": "expressibility", "backend": "triton@3.6.0", "proof": "one"}
    probe |= {"operator": "attention", "status": "passed", "environment": rows[0]["id"], "time": "2030-01-03T00:00:00Z"}
    probe |= {
        "technique": "scalar",
        "source_sha256": "0" * 64,
        "details": {"verdict": "proven", "lines": [], "control_lines": []},
    }
    run = tmp_path / "probes.jsonl"
    row_file.write(run, [rows[0], probe])
    assert [data.recorded for data in load(recorded, [run], synthetic.hashes())] == [True], (
        "compilers have no page here"
    )


def test_the_fastest_is_no_number_where_one_that_did_not_converge_was_faster() -> None:
    slow, fast = (Point("measured", row=row) for row in lines([timing(4.0), timing(2.0)]))
    unsettled = Point("hole", reason="not converged: 900 TFLOPS ± 2%", unsettled=(fast.tflops or 0) * 1.1)
    assert fastest([slow, fast]) is fast
    assert fastest([slow, fast, unsettled]) is unsettled
    assert fastest([slow, Point("hole", reason="x", unsettled=1.0)]) is slow
    final = Point("measured", row=lines([timing(4.0, details={"final": True})])[0])
    assert fastest([fast, unsettled, final]) is final
    behind = timing(4.0, technique="scalar", details={"final": True})
    assert fastest([fast, Point("measured", row=lines([behind])[0])]) is fast
    assert (fastest([]).kind, fastest([]).reason) == ("hole", "not measured")
    earlier = Point("earlier", row=lines([timing(1.0)])[0])
    assert fastest([slow, earlier]) is slow
    assert (fastest([earlier]).kind, fastest([earlier]).reason) == ("hole", "measured in an earlier version only")


def test_tiles_that_were_tried_on_an_earlier_version_are_not_of_this_one() -> None:
    row = timing(4.0, kind="tune", technique="scalar", time="1", source_sha256=synthetic.sha("scalar", "cuda"))
    earlier = {**row, "source_sha256": "0", "tile": Tile(64, 64).to_dict()}
    current, scalar = {**row, "tile": Tile(64, 32).to_dict()}, techniques.get("attention/scalar")
    (cuda,) = tuning.tuned(dataset([current, earlier]), "ladder", scalar)
    assert [row.tile for row in cuda.rows] == [Tile(64, 32).slug]
    assert tuning.tuned(dataset([earlier]), "ladder", scalar) == []
    assert tuning.tried_earlier(dataset([current, earlier]), scalar)
    assert not tuning.tried_earlier(dataset([current]), scalar)


def test_what_did_not_converge_is_told_with_its_number_and_its_uncertainty() -> None:
    row = timing(4.0, status="not_converged", reason="relative error of the median 2.34% after 12 samples")
    found, crashed = lines([row, {**row, "status": "crashed", "reason": "signal 11", "samples_ms": None}])
    assert why(found) == f"not converged: {PROBLEM.flops / 4.0 / 1e9:.0f} TFLOPS ± 2.34%"
    assert why(crashed) == "crashed: signal 11"


def test_provenance_names_every_commit_of_the_rows() -> None:
    later = {**synthetic.ENVIRONMENT, "id": "later", "time": "2030-01-05T00:00:00Z"}
    later["details"] = {**later["details"], "git": {"sha": "fedcba9876", "dirty": True}}
    data = dataset([synthetic.ENVIRONMENT, later])
    rows = [{"environment": "later"}, {"environment": synthetic.ENVIRONMENT["id"]}]
    where = "recorded on NVIDIA H200, 2030-01-02 to 2030-01-05, commits 0123456 and fedcba9 with changes"
    assert data.provenance(rows) == where
    assert data.provenance(rows[1:]) == "recorded on NVIDIA H200, 2030-01-02, commit 0123456"
    assert data.provenance() == "recorded on NVIDIA H200, 2030-01-05, commit fedcba9 with changes"


def test_what_the_gate_refused_was_not_timed_for_its_reason() -> None:
    row = timing(4.0, kind="gate", status="wrong", reason="launch 2 gives another o", technique="scalar", time="1")
    row |= {"experiment": "ladder", "source_sha256": synthetic.sha("scalar", "cuda")}
    point = dataset([row]).point("ladder", PROBLEM, "scalar", "cuda")
    assert (point.kind, point.reason) == ("hole", "wrong: launch 2 gives another o")
    earlier = {**row, "source_sha256": "0"}
    assert dataset([earlier]).point("ladder", PROBLEM, "scalar", "cuda").reason.startswith("earlier version wrong: ")
    assert dataset([row]).point("ladder", PROBLEM, "wmma", "cuda").reason == "not measured"


def test_what_all_pages_ask_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def scorecard(*_: Any) -> Row:
        asked.append("scorecard")
        return {"entries": []}

    monkeypatch.setattr("harness.rows.scorecard.scorecard", scorecard)
    data = dataset(synthetic.rows())
    for _ in range(2):
        assert scores.scored(data) == []
        assert data.timings("ladder")
        assert any(row.experiment == "ladder" for row in data.holes)
    assert asked.count("scorecard") == 1
    assert Problem.from_dict(PROBLEM.to_dict()) is Problem.from_dict(PROBLEM.to_dict())
    with pytest.raises(ValueError, match=r"problem.heads: got True"):
        Problem.from_dict({**PROBLEM.to_dict(), "heads": True, "heads_kv": True})
    with pytest.raises(ValueError, match=r"problem.heads: got \[1\]"):
        Problem.from_dict({**PROBLEM.to_dict(), "heads": [1]})
