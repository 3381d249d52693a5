"""harness/rows/intervals.py: what an interval rests on, that it holds the truth, and that it is the same every time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.operators.attention.problem import Problem
from harness.rows import intervals, noise, results
from tests.support import replicated_rows as replicated

Row = dict[str, Any]
PROBLEM = Problem.square(4, 16, 512, 128)


def pair(rows: list[Row], ours: str | None = "scalar", theirs: str = "sdpa_cudnn") -> tuple[Row, Row]:
    here = [row for row in rows if row["kind"] == "timing" and row["problem"] == PROBLEM.to_dict()]
    first = next(row for row in here if row.get("technique") == ours)
    return first, next(row for row in here if row["backend"] == theirs)


def interval(rows: list[Row]) -> intervals.Interval:
    return intervals.Intervals(noise.Timings(rows), draws=200).of(*pair(rows))


def processes(*names: tuple[int, int], **options: Any) -> list[Row]:
    rows = replicated.rows(problems=1, **options)
    return [row for board, process in names for row in replicated.of_process(rows, f"board{board}", process)]


def test_it_says_what_it_rests_on() -> None:
    four = interval(processes((0, 0), (0, 1), (1, 0), (2, 0)))
    assert (four.processes, four.boards, four.rests_on) == (4, 3, "4 processes on 3 boards")
    assert four.low is not None
    assert four.high is not None
    assert four.low < four.high


@pytest.mark.parametrize("names", [[(0, 0)], [(0, 0), (1, 0)]])
def test_too_few_processes_have_no_interval_and_a_reason(names: list[tuple[int, int]]) -> None:
    found = interval(processes(*names))
    assert (found.low, found.high) == (None, None)
    assert not found.is_no_change
    assert "expected at least 3 processes" in found.to_dict()["reason"]


def test_the_same_rows_give_the_same_interval() -> None:
    rows = processes((0, 0), (1, 0), (2, 0))
    assert interval(rows) == interval(rows[:1] + rows[:0:-1])


def test_many_samples_of_one_process_do_not_make_it_narrow() -> None:
    """What differs between boards is no smaller for more samples of each."""
    rows = processes((0, 0), (1, 0), (2, 0))
    more = [row | {"samples_ms": row["samples_ms"] * 10} if "samples_ms" in row else row for row in rows]
    few, many = interval(rows), interval(more)
    assert few.high and few.low and many.high and many.low  # noqa: PT018
    assert many.high - many.low > 0.5 * (few.high - few.low)  # of samples alone: a third


def test_it_holds_the_truth_in_most_cases() -> None:
    """400 over 14 TFLOPS, boards apart by 0.6%: of 60 invented records with four boards at least 90% hold it."""
    true = 14 / 400
    found = [interval(processes((0, 0), (1, 0), (2, 0), (3, 0), seed=seed)) for seed in range(60)]
    held = [item.low <= true <= item.high for item in found if item.low is not None and item.high is not None]
    assert len(held) == 60
    assert sum(held) >= 0.9 * len(held)
    widths = [item.high / item.low - 1 for item in found if item.low is not None and item.high is not None]
    assert max(widths) < 0.1


def test_replicates_are_all_kept() -> None:
    """By whatever merges rows: of three processes of a run none replaces another."""
    rows = processes((0, 0), (1, 0), (2, 0))
    numbered = [
        row | {"details": {"replicate": int(row["environment"][5]) + 1}} if row["kind"] == "timing" else row
        for row in rows
    ]
    assert len(results.newest(rows)) < len(rows)
    assert len(results.newest(numbered)) == len(rows)
    assert interval(results.newest(numbered)) == interval(rows)


def test_quantiles_are_those_of_students_t() -> None:
    """Of printed tables: 97.5% at 1, 2, 3 and 10 degrees of freedom."""
    found = [intervals._students_t(0.975, freedom) for freedom in (1, 2, 3, 10)]
    assert found == pytest.approx([12.706, 4.303, 3.182, 2.228], rel=0.005)


def test_a_gain_that_may_be_none_is_no_change() -> None:
    rows = processes((0, 0), (1, 0), (2, 0), (3, 0))
    known = intervals.Intervals(noise.Timings(rows))
    flash, cudnn = pair(rows, None, "sdpa_flash")[1], pair(rows)[1]  # equal but for the noise
    peers = known.of(flash, cudnn)
    assert peers.is_no_change
    assert intervals.described(peers.to_dict()).startswith("no change: ")
    gain = known.of(pair(rows, "register_softmax")[0], pair(rows)[0])
    assert not gain.is_no_change
    assert re.fullmatch(r"1\d\.\d{3} to 1\d\.\d{3} \(4 processes, 4 boards\)", intervals.described(gain.to_dict()))


def test_an_interval_in_words() -> None:
    share = {"low": 0.93, "high": 1.0, "processes": 3, "boards": 1}
    assert intervals.described(share) == "no change: 0.930 to 1.000 (3 processes, 1 board)"
    assert intervals.described(share, of_ratio=False) == "0.930 to 1.000 (3 processes, 1 board)"
    assert intervals.described({"low": None, "high": None, "processes": 1}) == "none: 1 process"
    assert intervals.described(None) == ""


def test_programs_that_never_met_have_none() -> None:
    """Each in processes of its own: their ratio was never taken in one group."""
    rows = [
        row
        for row in processes((0, 0), (1, 0), (2, 0), (3, 0))
        if row["kind"] == "environment" or (row["environment"] < "board2") == (row.get("technique") == "scalar")
    ]
    assert interval(rows).processes == 0


def test_the_mean_of_cells_needs_every_cell() -> None:
    rows = replicated.rows(problems=2)
    known = intervals.Intervals(noise.Timings(rows))
    cells = []
    for length in (512, 1024):
        here = [row for row in rows if row["kind"] == "timing" and row["problem"]["seq_q"] == length]
        cells.append(
            (
                next(row for row in here if row.get("technique") == "scalar"),
                next(row for row in here if row["backend"] == "sdpa_cudnn"),
            )
        )
    both = known.mean(cells)
    assert both.low is not None
    assert both.high is not None
    each = [known.of(*cell) for cell in cells]
    assert both.high / both.low < max(item.high / item.low for item in each if item.high and item.low)
    unknown = ({**cells[0][0], "source_sha256": "never timed"}, cells[0][1])
    assert known.mean([cells[0], unknown]).low is None


def test_a_board_that_moves_all_cells_is_not_averaged_away() -> None:
    """The same times in two cells say no more than those of one."""
    first = [row for row in processes((0, 0), (1, 0), (2, 0), (3, 0)) if row["kind"] in ("environment", "timing")]
    longer = Problem.square(4, 16, 1024, 128)
    second = [row | {"problem": longer.to_dict()} for row in first if row["kind"] == "timing"]
    known = intervals.Intervals(noise.Timings([*first, *second]))
    one = pair(first)
    other = next(
        (mine, row)
        for mine in second
        if mine.get("technique") == "scalar"
        for row in second
        if row["backend"] == "sdpa_cudnn"
    )
    alone, both = known.of(*one), known.mean([one, other])
    assert alone.low and alone.high and both.low and both.high  # noqa: PT018
    assert both.high / both.low - 1 > 0.85 * (alone.high / alone.low - 1)  # of boards drawn for each cell: 0.7
