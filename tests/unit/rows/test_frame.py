"""The table of a kind has typed columns, the machine of each row, and says which rows count."""

from pathlib import Path

import pytest

from harness.rows import frame as frames
from harness.rows.frame import frame
from tests.support.row_file import ENVIRONMENT, GATE, OF_KINDS, TIMING, Row, write, write_recorded


def test_recorded_and_fresh_runs_are_one_table_and_none_is_there_twice(tmp_path: Path) -> None:
    root, rows = tmp_path / "recorded", [ENVIRONMENT, *OF_KINDS.values()]
    recorded, fresh = write_recorded(root, rows), write(tmp_path / "fresh.jsonl", [ENVIRONMENT, TIMING, GATE])
    again = write(tmp_path / f"{recorded.name.partition('.')[0]}.jsonl", rows)
    found = {kind: frame(kind, root=root, runs=[fresh, again]) for kind in frames.KINDS}
    assert {kind: len(table) for kind, table in found.items()} == {
        "timing": 5,
        "gate": 3,
        "code": 7,
        "counters": 2,
        "proof": 1,
        "environment": 1,
    }
    timing, gate = found["timing"], found["gate"]
    assert timing.recorded.tolist() == [True] * 4 + [False]
    assert set(timing.purpose) == {"timing", "tune", "cupti", "roof"}
    assert timing.gpu.tolist() == ["NVIDIA H200"] * 5
    assert not timing.usable[timing.technique.notna()].any(), "they are of another source"
    assert timing.ms[timing.purpose == "timing"].tolist() == [1.05] * 2
    assert gate.tool.dropna().tolist() == ["racecheck"]
    assert gate.error.dropna().tolist() == [0.5] * 2


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, "1" * 64),
        ({"source_sha256": "4" * 64}, None),
        ({"code": {**TIMING["code"], "sass_sha256": "2" * 64}}, None),
        ({"backend": "triton"}, None),
    ],
    ids=["the same source", "another source", "two gates that differ", "Triton in another run"],
)
def test_a_timing_has_the_machine_code_that_its_gate_read(tmp_path: Path, changes: Row, read: str | None) -> None:
    by = {"backend": changes.get("backend", "cuda")}
    timing = {name: value for name, value in TIMING.items() if name != "code"} | by
    gate = GATE | {name: TIMING[name] for name in (*frames._BUILT, "code") if name in TIMING} | by
    gates = [gate | changes] if "source_sha256" in changes else [gate, gate | changes]
    runs = [
        write(tmp_path / "gates.jsonl", [ENVIRONMENT, *gates]),
        write(tmp_path / "timings.jsonl", [ENVIRONMENT, timing]),
    ]
    (found,) = frame("timing", root=tmp_path, runs=runs).sass_sha256
    assert found == read if read else found != found


def test_where_nothing_is_recorded_a_table_has_its_columns(tmp_path: Path) -> None:
    for kind in frames.KINDS:
        table = frame(kind, root=tmp_path)
        assert len(table) == 0
        assert {"gpu", "time"} <= set(table.columns)


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
def test_a_timing_has_its_speed_and_its_machine() -> None:
    timing = frame("timing")
    usable = timing[timing.usable & (timing.purpose == "timing")]
    assert len(usable) > 10_000
    assert usable.speed.between(0.01, 2000).all()
    assert usable.gpu.str.startswith("NVIDIA").all()
    assert usable.environment.isin(frame("environment").index).all()
    assert (usable.technique.isna() == (usable.tile == "")).all()


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
def test_two_timings_compare_where_one_process_interleaved_them() -> None:
    timing = frame("timing")
    hopper = timing[timing.usable & (timing.experiment == "hopper_grid") & (timing.purpose == "timing")]
    pairs = frames.in_groups(hopper[hopper.technique == "flagship"], hopper[hopper.backend == "sdpa_cudnn"])
    assert len(pairs) > 50
    assert pairs.ratio.between(0.2, 5).all()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind: got 'cupti', expected one of timing"):
        frame("cupti")
