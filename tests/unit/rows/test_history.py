"""harness/rows/history.py: every measurement of a cell is a point, and the CSV is one that other tools read."""

from typing import Any

import pytest

from harness.rows import history
from harness.rows.frame import table
from tests.support import replicated_rows as replicated

CELL = ["cuda", "xor_swizzle", "b4-h16-n512-d128-bf16-full"]


def points(words: list[str], rows: list[dict[str, Any]] | None = None, mode: str = "burst") -> dict[str, Any]:
    return history.points(table("timing", rows or replicated.rows(problems=1)), words, mode)


def test_every_recorded_timing_is_a_point() -> None:
    ((name, found),) = points(CELL).items()
    assert name.startswith("cuda xor_swizzle b4-h16-n512")
    assert len(found) == replicated.BOARDS * replicated.PROCESSES
    assert found.time.is_monotonic_increasing
    assert found.ratio.to_list() == pytest.approx((found.ms / found.anchor_ms).to_list())
    assert set(found.commit) == {"0123456"}


def test_a_measurement_that_is_recorded_twice_is_one_point() -> None:
    rows = replicated.rows(problems=1)
    again = [row | {"source_sha256": "new"} for row in rows if row.get("technique")]
    ((_, found),) = points(CELL, [*rows, *again]).items()
    assert len(found) == replicated.BOARDS * replicated.PROCESSES


def test_without_an_anchor_there_is_no_ratio() -> None:
    rows = [row for row in replicated.rows(problems=1) if row.get("backend") != "sdpa_cudnn"]
    ((_, found),) = points(CELL, rows).items()
    assert found.ratio.isna().all()


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (["cuda"], 7),
        (["cuda", "triton"], 0),
        (["cuda", "d128", "h16-n512"], 7),
        (["cuda", "n51"], 0),
        (["sdpa_cudnn"], 1),
    ],
)
def test_words_choose_the_cells(words: list[str], cells: int) -> None:
    assert len(points(words)) == cells
    assert points(words, mode="sustained") == {}
