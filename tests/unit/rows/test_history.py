"""harness/rows/history.py: every recorded timing is a point, and the CSV is one that other tools read."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from harness.rows import history
from reports.draw import history as drawing
from tests.support import replicated_rows as replicated
from tests.support.row_file import write

CELL = ["cuda", "xor_swizzle", "b4-h16-n512-d128-bf16-full"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of one experiment."""
    rows = replicated.rows(problems=1)
    for board in ("board0", "board1"):
        write(tmp_path / "h200" / "attention" / "ladder" / f"{board}.jsonl.xz", replicated.of_process(rows, board, 0))
    return tmp_path / "h200"


def test_every_run_is_a_point(folder: Path) -> None:
    ((name, points),) = history.points(history.recorded(folder, "ladder"), CELL).items()
    assert name.startswith("cuda xor_swizzle b4-h16-n512")
    assert [point.board for point in points] == ["board0", "board1"]
    assert points == sorted(points, key=lambda point: point.time)
    assert all(point.anchor_ms and point.ratio == pytest.approx(point.ms / point.anchor_ms) for point in points)
    assert {point.commit for point in points} == {"0123456"}


def test_commits_have_one_length(folder: Path) -> None:
    """Environment rows name some by 7 digits and others by 40: a tool that groups by commit takes these for two."""
    rows = history.recorded(folder, "ladder")
    for row, digits in zip((row for row in rows if row["kind"] == "environment"), (7, 40), strict=True):
        row["details"]["git"]["sha"] = ("0123456789" * 4)[:digits]
    (points,) = history.points(rows, CELL).values()
    assert [point.commit for point in points] == ["0123456", "0123456"]


def test_words_choose_the_cells(folder: Path) -> None:
    rows = history.recorded(folder, "ladder")
    assert len(history.points(rows, ["cuda"])) == 7
    assert history.points(rows, ["cuda", "triton"]) == {}
    assert history.points(rows, ["cuda"], mode="sustained") == {}
    assert len(history.points(rows, ["cuda", "d128", "h16-n512"])) == 7
    assert history.points(rows, ["cuda", "n51"]) == {}


def test_what_is_not_recorded_is_named(folder: Path) -> None:
    with pytest.raises(history.Unknown, match="--experiment: got 'ladders', but recorded is ladder"):
        history.recorded(folder, "ladders")
    with pytest.raises(history.Unknown, match=f"--gpu: got 'h20', but recorded is {folder.name}"):
        history.recorded(folder.with_name("h20"), "ladder")


def test_csv_has_a_line_per_point(folder: Path) -> None:
    (points,) = history.points(history.recorded(folder, "ladder"), CELL).values()
    lines = list(csv.DictReader(io.StringIO(history.to_csv(points))))
    assert [float(line["ms"]) for line in lines] == [point.ms for point in points]
    assert next(iter(lines[0])) == "time"


def test_it_is_drawn(folder: Path) -> None:
    ((name, points),) = history.points(history.recorded(folder, "ladder"), CELL).items()
    assert "<svg" in drawing.draw(name, points)
    assert drawing.draw(name, points) == drawing.draw(name, points)
