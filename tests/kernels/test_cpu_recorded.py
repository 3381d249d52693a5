"""The CPU runtime counts what ncu counted on a GPU (`twinkernels inspect --ncu` records it)."""

from __future__ import annotations

from typing import Any

import pytest

from harness import build
from harness.build import Case
from harness.catalog.entries import Tile
from harness.inspection import survey
from harness.operators.attention.inspected import COUNTED
from harness.operators.attention.problem import Problem
from harness.rows import results
from reports.facts import agreement
from reports.facts.counters import Counted
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.spread

FOLDER = CHECKOUT / "reports" / "recorded"
EQUAL = ("mma_ldmatrix", "padded_rows", "xor_swizzle")
"""Only ldmatrix and stores of one kind touch the banks, and hardly anything else does at the same time."""
REPEATED = {"mma_ldmatrix": {"bank conflicts of stores, by hardware": 2}}
"""Passes that the hardware repeated in the recorded run. By their addresses these conflicts are equal too."""


def counted_by_ncu() -> list[object]:
    """ncu's rows of the CUDA twins on the CPU's problem, and on its like of head_dim 64."""
    rows = [row for row in results.read_recorded(FOLDER, experiment="ncu") if row["kind"] == "counters"]
    return [
        pytest.param(
            row, id=f"{row['technique']}-d{row['problem']['head_dim']}", marks=() if quick else pytest.mark.full
        )
        for row in results.newest(rows)
        if row["backend"] == "cuda" and row["problem"]["seq_q"] == COUNTED.seq_q
        for quick in [row["technique"] in EQUAL and row["problem"]["head_dim"] == COUNTED.head_dim]
    ]


@pytest.mark.parametrize("row", counted_by_ncu())
def test_a_kernel_is_counted_as_by_ncu(row: dict[str, Any]) -> None:
    name, problem = row["technique"], Problem.from_dict(row["problem"])
    case = Case("test", name, "cuda", problem, Tile.from_dict(row["tile"]))
    if row["source_sha256"] != build.source_sha256(case):
        pytest.skip(f"counted of another version of {name}: inspect --ncu, on a GPU")
    held = {one.name: one for one in agreement.compared(Counted({**row, **survey.count(case)}, "here"), [row])}
    differing = {name: one.why for name, one in held.items() if one.why}
    assert agreement.UNEXPLAINED not in differing.values(), differing
    assert "bank conflicts, by address" not in differing
    assert "ldmatrix executed" not in differing
    if name in EQUAL:
        assert len(held) >= 6
        repeated = {one.name: one.ncu - one.cpu for one in held.values() if one.why}
        assert repeated in ({}, REPEATED.get(name)), differing
