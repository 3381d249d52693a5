"""What pages say of the scorecard's cells, from invented entries."""

import re
from typing import Any

import pytest

from harness.catalog import experiments
from reports.facts import scores
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, of_cells

pytestmark = pytest.mark.slow

SUSTAINED = "flagship_over_fastest_sustained"


def interval(low: float | None, high: float | None) -> dict[str, Any]:
    return {"low": low, "high": high, "processes": 3, "boards": 2, "reason": None}


def cell(slug: str, value: float, low: float | None, high: float | None) -> dict[str, Any]:
    made = {"problem": slug, "value": value, "interval": interval(low, high), "ours": 700.0, "theirs": 690.0}
    return {**made, "ours_is": "cuda flagship", "theirs_is": "fa3", "case": "x", "run": "y"}


def test_a_ratio_above_1_whose_interval_holds_1_is_not_settled() -> None:
    told = [
        scores.verdict(cell("x", *numbers))
        for numbers in ((1.05, 1.01, 1.09), (1.05, 0.99, 1.09), (0.97, 0.94, 1.0), (0.9, 0.8, 0.99), (1.1, None, None))
    ]
    assert told == ["reached", "not settled", "not settled", "missed", "not settled"]
    assert scores.verdict({"interval": None}) == "not settled"


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        (["reached"] * 3, "all 3 problems."),
        (["reached", "not settled", "not settled"], "1 of 3 problems; 2 are not settled."),
        (["missed", "not settled", None], "none of 3 problems; 1 is missed; 1 is not settled; 1 is without a number."),
    ],
)
def test_a_tally_counts_each_verdict(verdicts: list[str | None], told: str) -> None:
    cells = [{"verdict": verdict} if verdict else {"reason": "no row"} for verdict in verdicts]
    assert scores.tally(cells) == f"The fastest library is reached on {told}"


def test_each_cell_of_a_race_says_what_it_is_whatever_the_mode() -> None:
    """Other entries have no library to reach."""
    first, second, *_ = (problem.slug for problem in experiments.load("hopper_sustained").problems)
    data = dataset(synthetic.rows())
    entry = {"experiment": "hopper_sustained", "ours": "cuda", "gpu": "x", "name": SUSTAINED, "disagreeing": []}
    entry["cells"] = [cell(first, 1.05, 1.01, 1.09), cell(second, 1.03, 0.96, 1.12)]
    data.scores = [entry, {**entry, "name": "flagship_over_fa3"}]
    race, other = scores.scored(data)
    text = of_cells(race)
    assert re.findall(r"<td class=\"[a-z]*\">([a-z ]+)</td>", text) == ["reached", "not settled"]
    assert "reached on 1 of 2 problems; 1 is not settled." in text
    assert "0.960 to 1.120 (3 processes, 2 boards)" in text
    assert "no change" not in text
    assert race["worst_value"] == 1.03
    plain = of_cells(other)
    assert "reached" not in plain
    assert "no change: 0.960 to 1.120 (3 processes, 2 boards)" in plain


def test_a_cell_of_a_kernel_that_failed_another_gate_says_so() -> None:
    data = dataset(synthetic.rows())
    plain, marked = cell("one", 0.8, 0.79, 0.81), cell("two", 0.7, 0.69, 0.71)
    marked["failed_gate"] = "of a kernel that failed another gate: x in bench: y"
    entry = {"experiment": "hopper_grid", "ours": "triton", "gpu": "x", "name": "triton_over_flagship"}
    entry |= {"caveats": []}
    data.scores = [{**entry, "cells": [plain, marked]}, {**entry, "cells": [plain]}]
    found, _ = scores.scored(data)
    first, second = re.findall(r"<tr><td>.*?</tr>", of_cells(found))
    assert marked["failed_gate"] in second
    assert "failed" not in first
