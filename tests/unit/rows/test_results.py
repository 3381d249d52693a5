"""Rows come back as they were written, and a killed run loses its last row at most."""

import json
from pathlib import Path

import pytest

from harness.rows import results
from tests.support.row_file import write_recorded

GATE = {
    "kind": "gate",
    "on": "gpu",
    "experiment": "ladder",
    "technique": "scalar",
    "backend": "cuda",
    "problem": {"batch": 1, "seq_q": 64},
    "tile": {"block_m": 64, "extra": {"maxnreg": 128}},
    "status": "passed",
    "numerics": {"normal": {"max_abs": 1.25e-3}},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "run.jsonl"


def test_rows_come_back_complete_in_order_and_at_once(path: Path) -> None:
    with results.Writer(path) as writer:
        written = [writer.write({**GATE, "technique": name}) for name in ("scalar", "xor_swizzle")]
        assert results.read(str(path)) == written, "each is on disk when `write` returns"
    with results.Writer(path) as writer:
        written.append(writer.write({**GATE, "status": "wrong", "reason": "O is off", "check": "max_error"}))
    assert results.read(path) == written
    assert written[0]["schema"] == results.SCHEMA
    assert written[0]["time"].endswith("Z")


def test_a_torn_last_line_is_left_out_and_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with results.Writer(path) as writer:
        writer.write(GATE)
        writer.write(GATE)
    path.write_text(path.read_text()[:-20])
    assert len(results.read(path)) == 1
    assert capsys.readouterr().err == ""
    assert len(results.read(path, lambda row: None)) == 1
    assert f"{path}:2: the last row is cut off and left out" in capsys.readouterr().err


ROW = json.dumps({"schema": results.SCHEMA, **GATE, "time": "2030-01-01T00:00:00Z"}).encode()


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        (b"", 0),
        (ROW + b"\n", 1),
        (ROW, 1),  # whole, without its newline
        (ROW + b"\n" + ROW, 2),
        (ROW + b"\n" + ROW[:-9], 1),
        (ROW + b"\n" + ROW[:3], 1),
        (b"my notes\n", None),
        (b"my notes", None),
        (b"{my notes", None),
        (ROW + b"\n{my notes", None),
        (ROW + b"\n\xff\xfe", None),
        (b"{torn\n" + ROW + b"\n", None),
    ],
)
def test_a_file_that_is_written_on_loses_a_torn_row_and_nothing_else(
    tmp_path: Path, before: bytes, kept: int | None
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(before)
    if kept is None:
        with pytest.raises(results.NotRows, match=r"notes\.txt:\d: not JSON"):
            results.Writer(path)
        assert path.read_bytes() == before
        return
    with results.Writer(path) as writer:
        last = writer.write(GATE)
    assert results.read(path) == [json.loads(ROW)] * kept + [last]


def test_a_compressed_file_is_not_written_on(tmp_path: Path) -> None:
    path = write_recorded(tmp_path, [])
    before = path.read_bytes()
    with pytest.raises(results.NotRows, match="got a compressed file"):
        results.Writer(path)
    assert path.read_bytes() == before


def test_half_a_character_of_an_exception_is_written_out(path: Path) -> None:
    with results.Writer(path) as writer:
        row = writer.write({**GATE, "status": "wrong", "reason": "caf\u00e9 \ud800", "details": {"log": ["\udce9"]}})
    assert (row["reason"], row["details"]) == ("caf\u00e9 \\ud800", {"log": ["\\udce9"]})
    assert results.read(path) == [row]


@pytest.mark.parametrize(
    "content",
    [b"a line of a log", b"3\n", b'{"name": "value"}\n', b'{"kind": "unheard of"}\n', b"\x89PNG\xff\n", b"[1, 2]\n"],
)
def test_a_file_of_anything_but_rows_says_what_was_expected(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"run\.jsonl:1: .*expected a row of reports/runs/\*\.jsonl"):
        results.read(path)


@pytest.mark.parametrize("schema", [results.SCHEMA - 1, results.SCHEMA + 1])
def test_rows_of_another_format_are_refused(path: Path, schema: int) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({**GATE, "schema": schema}) + "\n")
    with pytest.raises(ValueError, match=f"schema {schema}, this checkout reads {results.SCHEMA}; read it with"):
        results.read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "row.kind: got 'guess'"),
        ({"status": "fine"}, "row.status: got 'fine'"),
        ({"status": "wrong"}, "row.reason: got nothing"),
        ({"speed": 3}, r"unknown fields \['speed'\]"),
        ({"samples_ms": [float("nan")]}, "Out of range float"),
    ],
)
def test_what_is_not_a_row_is_not_written(path: Path, change: dict, message: str) -> None:
    with results.Writer(path) as writer, pytest.raises(ValueError, match=message):
        writer.write({**GATE, **change})
    assert results.read(path) == []


def test_the_newest_row_of_each_measurement_counts() -> None:
    old = {**GATE, "time": "2030-01-01T00:00:00Z"}
    new = {**GATE, "time": "2030-01-02T00:00:00Z", "status": "wrong", "reason": "x"}
    other = {**old, "source_sha256": "another version"}
    assert results.newest([new, old, other]) == [new, other]
    assert results.newest([old, new, other]) == [new, other]


@pytest.mark.parametrize(
    "field",
    [
        *("kind", "purpose", "operator", "experiment", "assembler", "technique", "backend", "kernel", "problem"),
        *("tile", "mode", "tool", "proof", "roof", "on", "arch", "source_sha256"),
    ],
)
def test_what_was_measured_where_and_how_tells_measurements_apart(field: str) -> None:
    assert results.key({**GATE, field: "one"}) != results.key({**GATE, field: "another"})
    came_out = {"status": "wrong", "numerics": {}, "time": "x", "environment": "y"}
    assert results.key({**GATE, **came_out}) == results.key(GATE)


def test_recorded_files_are_found_by_gpu(tmp_path: Path) -> None:
    for gpu in ("h200", "a100", results.COMPILERS):
        for experiment in ("ladder", "hopper"):
            write_recorded(tmp_path, [], gpu, experiment)
    found = [(gpu, path.parent.name) for gpu, path in results.iter_recorded(tmp_path)]
    assert found == [(gpu, name) for gpu in ("a100", "h200") for name in ("hopper", "ladder")]
    assert [path.parent.name for path in results.recorded(tmp_path, results.COMPILERS)] == ["hopper", "ladder"]
    assert len(results.recorded(tmp_path, "h200", "ladder")) == 1


def test_a_peer_counts_once_per_group_and_a_case_once_per_process() -> None:
    def timing(day: int, group: str, technique: str | None, replicate: int = 0) -> dict:
        row = {"kind": "timing", "status": "passed", "backend": "sdpa_cudnn" if technique is None else "cuda"}
        about = {"technique": technique, "group": group, "details": {"replicate": replicate}}
        return {**row, **about, "time": f"2030-01-{day:02}T00:00:00Z"}

    stale = timing(1, "one", "scalar")
    rows = [timing(2, "one", None), timing(2, "two", None), timing(2, "two", "scalar"), timing(2, "three", "scalar", 1)]
    assert results.newest([stale, *rows]) == [rows[2], rows[0], rows[1], rows[3]]


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla V100", "v100"),
    ],
)
def test_a_gpu_has_a_short_name_for_its_folder(name: str, slug: str) -> None:
    assert results.gpu_slug(name) == slug
