"""The ratios of matrix products: which libraries stand on the other side, and what an entry says it measured."""

from typing import Any

import pytest

from harness.operators.gemm.shapes import GROUPED_SHAPES, SHAPES
from harness.rows import scorecard
from tests.support import gemm_rows
from tests.support import synthetic_rows as synthetic
from tests.support.tables import tables

Row = dict[str, Any]


GROUPED = {("grouped", "cuda"): synthetic.sha("grouped", "cuda")}


def entries(rows: list[Row]) -> dict[str, Any]:
    hashes = gemm_rows.hashes() | GROUPED
    return {one["name"]: one for one in scorecard.scorecard(*tables(rows, hashes))["entries"]}


def test_each_language_stands_against_the_faster_of_two_ways_to_cublas() -> None:
    card = entries(gemm_rows.rows())
    assert set(card) == {f"gemm{of}_over_{what}" for of, what in GRID}, "nothing of attention, and nothing sustained"
    assert card["gemm_over_cublas"]["value"] == pytest.approx(740 / 760)
    assert card["gemm_over_torch_mm"]["value"] == pytest.approx(740 / 750)
    assert card["gemm_triton_over_cublas"]["value"] == pytest.approx(700 / 760)
    assert card["gemm_gluon_over_cublas"]["value"] == pytest.approx(710 / 760)
    cells = card["gemm_over_cublas"]["cells"]
    assert {cell["problem"] for cell in cells} == {problem.slug for problem in SHAPES}
    assert {cell["ours_is"] for cell in cells} == {"cuda flagship 128x256-s4-w8 (reference tile)"}, (
        "another rung was faster"
    )
    assert {cell["theirs_is"] for cell in cells} == {"cublaslt"}


GRID = [("", "cublas"), ("", "torch_mm"), ("_triton", "cublas"), ("_gluon", "cublas")]


def test_without_nvmath_the_faster_of_two_is_not_known() -> None:
    missing = {"status": "unsupported", "reason": "nvmath-python is not installed: pip install nvmath-python"}
    rows = [row | missing if row.get("backend") == "cublaslt" else row for row in gemm_rows.rows()]
    for row in rows:
        if row.get("backend") == "cublaslt":
            del row["samples_ms"]
    card = entries(rows)
    assert card["gemm_over_cublas"]["value"] is None
    assert "nvmath-python is not installed" in card["gemm_over_cublas"]["reason"]
    assert card["gemm_over_torch_mm"]["value"] == pytest.approx(740 / 750)


def test_rows_under_load_are_entries_of_their_own() -> None:
    card = entries([synthetic.ENVIRONMENT, *gemm_rows.of("sustained", mode="sustained")])
    assert set(card) == {f"gemm{of}_over_cublas_sustained" for of in ("", "_triton", "_gluon")}
    assert card["gemm_triton_over_cublas_sustained"]["value"] == pytest.approx(700 / 760)


def test_rows_of_another_operators_grid_are_none_of_its() -> None:
    grid = [row for row in gemm_rows.of("grid") if "technique" not in row]
    others = [row | {"operator": "attention", "problem": synthetic.PROBLEMS[0].to_dict()} for row in grid]
    assert not [name for name in entries([synthetic.ENVIRONMENT, *others]) if name.startswith("gemm")]


@pytest.mark.parametrize(("calls", "best"), [(300, "torch_grouped"), (605, "cublas")])
def test_groups_stand_against_the_faster_of_one_call_and_many(calls: int, best: str) -> None:
    speeds = {"cublas": calls, "torch_grouped": 600}
    rows = [synthetic.ENVIRONMENT]
    for problem in GROUPED_SHAPES:
        rows.append(gemm_rows.make("grouped", "cuda", problem, 630, experiment="grouped"))
        rows += [gemm_rows.make(None, peer, problem, speed, experiment="grouped") for peer, speed in speeds.items()]
    card = entries(rows)["grouped_over_best_peer"]
    assert card["value"] == pytest.approx(630 / max(speeds.values()))
    assert {cell["theirs_is"] for cell in card["cells"]} == {best}
    assert {cell["problem"] for cell in card["cells"]} == {problem.slug for problem in GROUPED_SHAPES}
