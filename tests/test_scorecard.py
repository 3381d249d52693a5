"""harness/scorecard.py on synthetic rows."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from harness import articles, scorecard
from tests import synthetic_articles
from tests import synthetic_rows as synthetic

Row = dict[str, Any]


def entries(rows: list[Row]) -> dict[str, Any]:
    card = scorecard.scorecard(rows, hashes=synthetic.hashes())
    return {entry["name"]: entry for entry in card["entries"]}


def kept(rows: list[Row], **fields: Any) -> list[Row]:
    """Rows without those that have all of these fields."""
    return [row for row in rows if any(row.get(name) != value for name, value in fields.items())]


def test_every_promise_is_kept_per_gpu() -> None:
    card = entries(synthetic.rows())
    assert list(card) == ["cuda_over_fa2", "cuda_over_cudnn", "triton_over_cuda", "triton_native_over_flex"]
    assert {entry["gpu"] for entry in card.values()} == {"NVIDIA H200"}
    assert [entry["status"] for entry in card.values()] == ["complete"] * 4


def test_value_is_the_geometric_mean_of_the_cells_and_the_worst_is_named() -> None:
    entry = entries(synthetic.rows())["cuda_over_fa2"]
    values = {cell["problem"]: cell["value"] for cell in entry["cells"]}
    assert set(values) == {problem.slug for problem in synthetic.PROBLEMS}
    assert entry["value"] == pytest.approx(math.prod(values.values()) ** (1 / 4))
    assert values[entry["worst_cell"]] == min(values.values())
    for cell in entry["cells"]:
        assert cell["value"] == pytest.approx(cell["ours"] / cell["theirs"])


def test_numbers_are_medians_of_the_samples() -> None:
    rows = synthetic.rows()
    problem = synthetic.PROBLEMS[0]
    cell = next(c for c in entries(rows)["cuda_over_fa2"]["cells"] if c["problem"] == problem.slug)
    samples = next(
        row["samples_ms"]
        for row in rows
        if (row.get("technique"), row["kind"] == "timing" and row.get("mode")) == ("cp_async_pipeline", "burst")
        and row["backend"] == "cuda"
        and row["problem"] == problem.to_dict()
    )
    assert cell["ours"] == pytest.approx(problem.flops / statistics.median(samples) / 1e9)


def test_the_best_tile_stands_for_a_rung_where_there_is_one() -> None:
    cell = entries(synthetic.rows())["triton_over_cuda"]["cells"][0]
    assert cell["ours_is"] == "triton cp_async_pipeline 128x64-s3-w8 (another tile)"
    assert cell["theirs_is"].endswith("(reference tile)")


def test_the_anchor_of_the_own_group_is_used_not_the_newest_one() -> None:
    cell = entries(synthetic.rows())["cuda_over_cudnn"]["cells"][0]
    assert cell["value"] == pytest.approx(cell["ours"] / cell["theirs"])


def test_a_final_group_decides_even_where_the_fastest_rows_never_met() -> None:
    apart = [row | {"group": f"{row['group']} {row['backend']}"} if "group" in row else row for row in synthetic.rows()]
    assert "were not timed in one group" in entries(apart)["triton_native_over_flex"]["reason"]
    rows = list(apart)
    for environment, backends in (("native", ("cuda", "triton_native", "flex")), ("mma_sync", ("cuda", "triton"))):
        for row in apart:
            kernel = row.get("technique") == "cp_async_pipeline" and row["backend"] in backends
            peer = row.get("backend") in ("sdpa_cudnn", "sdpa_flash") or row.get("backend") in backends
            if row["kind"] == "timing" and (kernel or (peer and "technique" not in row)):
                group = f"{row['problem']} {row['mode']} {environment}"
                slower = [1.5 * sample for sample in row.get("samples_ms", ())]
                final = {"group": group, "samples_ms": slower, "details": {"final": True}}
                rows.append(row | final | {"time": f"2030-02-01T00:00:{environment == 'mma_sync':02d}Z"})
    holes = ("d64-bf16-causal",)  # cp_async_pipeline is not there in triton_native
    for entry in entries(rows).values():
        cells = [cell for cell in entry["cells"] if not cell["problem"].endswith(holes)]
        assert all("value" in cell for cell in cells), entry["reason"]
        before = [row for row in apart if row.get("technique") == "cp_async_pipeline"]
        assert cells[0]["ours"] < max(scorecard.tflops(row) for row in before if row.get("samples_ms"))
    best = entries(rows)["triton_over_cuda"]["cells"][0]
    assert "cp_async_pipeline" in best["ours_is"]
    assert "cp_async_pipeline" in best["theirs_is"]


def test_rows_of_one_assembler_for_both_languages_are_in_no_promise() -> None:
    rows = synthetic.rows()
    other = [{**row, "experiment": f"{row['experiment']}_shared_ptxas"} for row in rows if "experiment" in row]
    assert entries([*rows, *other]) == entries(rows)
    assert not any(map(scorecard.is_as_shipped, other))
    assert all(map(scorecard.is_as_shipped, rows))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: kept(rows, backend="sdpa_flash"), "sdpa_flash: no row"),
        (
            lambda rows: [row | {"source_sha256": "0" * 64} if row.get("backend") == "cuda" else row for row in rows],
            "cuda: only rows of an earlier version",
        ),
        (
            lambda rows: [row | {"group": "alone"} if row.get("backend") == "sdpa_flash" else row for row in rows],
            "were not timed in one group",
        ),
        (
            lambda rows: [
                row | {"status": "out_of_memory", "reason": "no memory"} if row.get("backend") == "sdpa_flash" else row
                for row in rows
            ],
            "sdpa_flash: out_of_memory, no memory",
        ),
    ],
    ids=["peer missing", "earlier version", "other group", "peer failed"],
)
def test_incomplete_says_why_and_has_no_value(change: Any, reason: str) -> None:
    entry = entries(change(synthetic.rows()))["cuda_over_fa2"]
    assert (entry["status"], entry["value"], entry["worst_cell"]) == ("incomplete", None, None)
    assert reason in entry["reason"]


def test_a_problem_that_was_never_run_is_a_hole_and_one_that_was_not_asked_is_no_cell() -> None:
    missing, *_ = synthetic.PROBLEMS
    rows = kept(synthetic.rows(), problem=missing.to_dict())
    other = [row | {"problem": {**row["problem"], "batch": 7}} for row in rows if row.get("kind") == "timing"]
    entry = entries([*rows, *other])["cuda_over_fa2"]
    assert (entry["status"], entry["reason"]) == ("incomplete", f"{missing.slug}: cuda: no row")
    assert {cell["problem"] for cell in entry["cells"]} == {problem.slug for problem in synthetic.PROBLEMS}


def test_the_best_of_what_converged_is_not_the_best() -> None:
    rows = synthetic.rows()
    fastest = "cp_async_pipeline"
    for row in rows:
        if (row["kind"], row.get("technique"), row.get("backend")) == ("timing", fastest, "cuda"):
            row |= {"status": "not_converged", "reason": "relative error of the median 2% after 12 samples"}
    entry = entries(rows)["cuda_over_fa2"]
    assert entry["value"] is None
    assert f"{fastest} 64x128-s1-w4" in entry["reason"]
    assert "was faster and did not converge" in entry["reason"]


def test_no_ratio_across_instruction_classes() -> None:
    rows = [row | {"mma": "wgmma"} if row.get("backend") == "triton" else row for row in synthetic.rows()]
    assert "different instruction classes" in entries(rows)["triton_over_cuda"]["reason"]


def test_gpus_do_not_mix() -> None:
    other = {**synthetic.ENVIRONMENT, "id": "f" * 12, "details": {"gpu": {"name": "NVIDIA A100"}}}
    moved = [row | {"environment": "f" * 12} if row.get("backend") == "sdpa_flash" else row for row in synthetic.rows()]
    card = scorecard.scorecard([other, *moved], hashes=synthetic.hashes())
    of_h200 = next(e for e in card["entries"] if (e["gpu"], e["name"]) == ("NVIDIA H200", "cuda_over_fa2"))
    assert of_h200["status"] == "incomplete"
    assert "sdpa_flash: no row" in of_h200["reason"]


def test_the_articles_own_code_is_quoted_and_says_so() -> None:
    card = entries(synthetic_articles.rows("seed_raw_ptx"))
    assert set(card) == {"mma_sync_cuda_over_fa2_seed001", "seed_raw_ptx_over_article"}
    quoted, measured = card["seed_raw_ptx_over_article"], card["mma_sync_cuda_over_fa2_seed001"]
    assert "measured separately on an NVIDIA H200" in quoted["quoted"]
    assert measured["quoted"] is None
    (cell,) = quoted["cells"]
    assert (cell["theirs"], cell["theirs_is"]) == (articles.load("seed_raw_ptx").shapes[0].own_code, quoted["quoted"])
    assert cell["value"] == pytest.approx(cell["ours"] / cell["theirs"])
    assert quoted["value"] == pytest.approx(cell["value"])


def test_the_newest_final_stands_against_the_articles_own_code_and_not_the_luckiest() -> None:
    rows = synthetic_articles.rows("seed_raw_ptx")
    mine = [row for row in rows if row["kind"] == "timing" and row["backend"] == "cuda"]
    for row, speed, time in ((mine[0], 4, "2030-01-01T00:00:00Z"), (mine[-1], 1, "2030-01-02T00:00:00Z")):
        samples = [sample / speed for sample in row["samples_ms"]]
        rows.append(row | {"samples_ms": samples, "group": time, "time": time, "details": {"final": True}})
    (cell,) = entries(rows)["seed_raw_ptx_over_article"]["cells"]
    assert mine[-1]["technique"] in cell["ours_is"]
    assert mine[0]["technique"] != mine[-1]["technique"]


def test_an_article_is_scored_on_the_shapes_that_its_code_was_run_on_and_on_that_gpu_alone() -> None:
    rows = synthetic_articles.rows("seed_rtx5080")
    (cell,) = entries(rows)["seed_rtx5080_over_article"]["cells"]
    assert cell["problem"] == articles.load("seed_rtx5080").problem.slug
    assert len(entries(synthetic_articles.rows("seed_blackflash"))["seed_blackflash_over_article"]["cells"]) == 4
    rows[0] = rows[0] | {"details": {"gpu": {"name": "NVIDIA H100"}}}
    assert entries(rows) == {}


def test_an_article_without_rows_of_one_shape_is_incomplete() -> None:
    rows = synthetic_articles.rows("seed_blackflash")
    missing = articles.load("seed_blackflash").shapes[3].problem
    entry = entries(kept(rows, problem=missing.to_dict()))["seed_blackflash_over_article"]
    assert (entry["status"], entry["value"]) == ("incomplete", None)
    assert entry["reason"] == f"{missing.slug}: cuda: no row"
