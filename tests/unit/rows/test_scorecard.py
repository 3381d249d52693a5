"""The ratios that the project follows: which rows stand for each side, and what leaves a ratio without a value."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from harness.catalog import experiments
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows import reading, scorecard
from tests.support import ledger_rows, synthetic_articles
from tests.support import synthetic_rows as synthetic
from tests.support.tables import tables

pytestmark = pytest.mark.slow

Row = dict[str, Any]


def entries(rows: list[Row]) -> dict[str, Any]:
    """The entries of experiments that these rows are of."""
    card = scorecard.scorecard(*tables(rows, synthetic.hashes()))
    here = {row.get("experiment") for row in rows}
    return {entry["name"]: entry for entry in card["entries"] if entry["experiment"] in here}


def kept(rows: list[Row], **fields: Any) -> list[Row]:
    """Rows without those that have all of these fields."""
    return [row for row in rows if any(row.get(name) != value for name, value in fields.items())]


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    return entries(synthetic.rows())


def test_every_promise_is_kept_per_gpu(card: dict[str, Any]) -> None:
    assert list(card) == ["cuda_over_fa2", "cuda_over_cudnn", "triton_over_cuda", "triton_native_over_flex"]
    assert {entry["gpu"] for entry in card.values()} == {"NVIDIA H200"}
    assert [entry["status"] for entry in card.values()] == ["complete"] * 4


def test_value_is_the_geometric_mean_of_the_cells_and_the_worst_is_named(card: dict[str, Any]) -> None:
    entry = card["cuda_over_fa2"]
    values = {cell["problem"]: cell["value"] for cell in entry["cells"]}
    assert set(values) == {problem.slug for problem in synthetic.PROBLEMS}
    assert entry["value"] == pytest.approx(math.prod(values.values()) ** (1 / 4))
    assert values[entry["worst_cell"]] == min(values.values())
    for cell in entry["cells"]:
        assert cell["value"] == pytest.approx(cell["ours"] / cell["theirs"])


def test_numbers_are_medians_of_the_samples(card: dict[str, Any]) -> None:
    problem = synthetic.PROBLEMS[0]
    cell = next(c for c in card["cuda_over_fa2"]["cells"] if c["problem"] == problem.slug)
    samples = next(
        row["samples_ms"]
        for row in synthetic.rows()
        if (row.get("technique"), row["kind"] == "timing" and row.get("mode")) == ("cp_async_pipeline", "burst")
        and row["backend"] == "cuda"
        and row["problem"] == problem.to_dict()
    )
    assert cell["ours"] == pytest.approx(problem.flops / statistics.median(samples) / 1e9)


def test_the_best_tile_stands_for_a_rung_where_there_is_one(card: dict[str, Any]) -> None:
    cell = card["triton_over_cuda"]["cells"][0]
    assert cell["ours_is"] == "triton cp_async_pipeline 128x64-s3-w8 (another tile)"
    assert cell["case"] == f"triton cp_async_pipeline {cell['problem']} 128x64-s3-w8"
    assert cell["theirs_is"].endswith("(reference tile)")


def test_the_anchor_of_the_own_group_is_used_not_the_newest_one(card: dict[str, Any]) -> None:
    cell = card["cuda_over_cudnn"]["cells"][0]
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
                slower = [1.03 * sample for sample in row.get("samples_ms", ())]
                final = {"group": group, "samples_ms": slower, "details": {"final": True}}
                rows.append(row | final | {"time": f"2030-02-01T00:00:{environment == 'mma_sync':02d}Z"})
    holes = ("d64-bf16-causal",)  # cp_async_pipeline is not there in triton_native
    for entry in entries(rows).values():
        cells = [cell for cell in entry["cells"] if not cell["problem"].endswith(holes)]
        assert all("value" in cell for cell in cells), entry["reason"]
        before = [row for row in apart if row.get("technique") == "cp_async_pipeline"]
        assert cells[0]["ours"] < max(reading.tflops(row) for row in before if row.get("samples_ms"))
    best = entries(rows)["triton_over_cuda"]["cells"][0]
    assert "cp_async_pipeline" in best["ours_is"]
    assert "cp_async_pipeline" in best["theirs_is"]


def test_a_newer_final_group_of_another_instruction_class_does_not_decide() -> None:
    """The best CUDA kernel is in both: beside core Triton's best with wgmma, and beside its best with mma.sync."""
    rows = [row | {"mma": "wgmma"} if row.get("technique") == "cp_async_pipeline" else row for row in synthetic.rows()]
    final = {"details": {"final": True}}
    for minute, of_triton in enumerate(("cp_async_pipeline", "xor_swizzle")):
        best = {("cuda", "cp_async_pipeline"), ("triton", of_triton)}
        for row in [row for row in rows if row["kind"] == "timing" and (row["backend"], row.get("technique")) in best]:
            group = f"{row['problem']} {row['mode']} beside {of_triton}"
            rows.append(row | final | {"group": group, "time": f"2030-02-01T00:0{minute}:00Z"})
    entry = entries(rows)["triton_over_cuda"]
    assert (entry["status"], entry["reason"]) == ("complete", None)
    assert all("cp_async_pipeline" in cell["ours_is"] for cell in entry["cells"])


def test_rows_of_one_assembler_for_both_languages_are_in_no_promise() -> None:
    rows = synthetic.rows()
    other = [{**row, "assembler": "shared"} for row in rows if "experiment" in row]
    assert entries([*rows, *other]) == entries(rows)


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
    card = scorecard.scorecard(*tables([other, *moved], synthetic.hashes()))
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
    assert (cell["theirs"], cell["theirs_is"]) == (
        experiments.article("seed_raw_ptx").shapes[0].own_code,
        quoted["quoted"],
    )
    assert cell["value"] == pytest.approx(cell["ours"] / cell["theirs"])
    assert quoted["value"] == pytest.approx(cell["value"])


def test_the_interval_over_an_articles_code_is_of_our_side() -> None:
    """The mean over processes and boards, like any ratio; too few processes have no ends."""
    rows = synthetic_articles.rows("seed_raw_ptx")
    (cell,) = entries(rows)["seed_raw_ptx_over_article"]["cells"]
    assert cell["interval"]["low"] is None
    assert "expected at least 3 processes" in cell["interval"]["reason"]
    (best,) = (row for row in rows if row["kind"] == "timing" and reading.cell(row) == cell["case"])
    again = [
        best | {"group": f"again-{number}-01", "samples_ms": [ms * factor for ms in best["samples_ms"]]}
        for number, factor in enumerate((1.02, 1.04), start=1)
    ]
    entry = entries([*rows, *again])["seed_raw_ptx_over_article"]
    (slower,) = entry["cells"]
    assert slower["value"] == pytest.approx(cell["value"] / (1.02 * 1.04) ** (1 / 3))
    assert slower["interval"]["low"] < slower["value"] < slower["interval"]["high"]
    assert entry["interval"] == pytest.approx(slower["interval"], rel=0.05)


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
    assert cell["problem"] == experiments.article("seed_rtx5080").problem.slug
    assert len(entries(synthetic_articles.rows("seed_blackflash"))["seed_blackflash_over_article"]["cells"]) == 4
    rows[0] = rows[0] | {"details": {"gpu": {"name": "NVIDIA H100"}}}
    assert entries(rows) == {}


def test_an_article_without_rows_of_one_shape_is_incomplete() -> None:
    rows = synthetic_articles.rows("seed_blackflash")
    missing = experiments.article("seed_blackflash").shapes[3].problem
    entry = entries(kept(rows, problem=missing.to_dict()))["seed_blackflash_over_article"]
    assert (entry["status"], entry["value"]) == ("incomplete", None)
    assert entry["reason"] == f"{missing.slug}: cuda: no row"


def on_boards(is_slower: Callable[[Row], bool], rows: list[Row], **factors: float) -> list[Row]:
    """The timings of a process on each board, later by a day each; some rows take the board's factor as long."""
    found = [synthetic.environment(board, board) for board in factors]
    for day, (board, factor) in enumerate(factors.items(), 1):
        for row in rows:
            if row["kind"] == "timing":
                of_process = {"environment": board, "time": f"2031-01-0{day}T00:00:00Z"}
                if is_slower(row) and "samples_ms" in row:
                    of_process["samples_ms"] = [factor * sample for sample in row["samples_ms"]]
                found.append(row | of_process)
    return found


def test_every_ratio_says_how_certain_it_is(card: dict[str, Any]) -> None:
    """One process timed the synthetic rows; three have an interval, of the cells and of their mean."""
    for entry in card.values():
        assert entry["interval"]["low"] is None
        assert "timed in 1 process on 1 board" in entry["interval"]["reason"]
    again = on_boards(lambda row: row["backend"] in ("cuda", "triton_native"), synthetic.rows(), a=1.0, b=1.01, c=1.02)
    for entry in entries(again).values():
        assert entry["interval"]["low"] <= entry["value"] <= entry["interval"]["high"]
        assert (entry["interval"]["processes"], entry["interval"]["boards"]) == (3, 3)
        for cell in entry["cells"]:
            assert cell["interval"]["low"] <= cell["value"] <= cell["interval"]["high"]


def test_a_ratio_is_the_mean_over_the_processes_that_its_interval_is_of() -> None:
    """The newest process's alone may lie outside."""
    before, after = (
        entries(on_boards(lambda row: not row.get("technique"), synthetic.rows(), a=1, b=b, c=c))["cuda_over_fa2"]
        for b, c in ((1, 1), (1.02, 1.04))
    )
    gain = (1.02 * 1.04) ** (1 / 3)
    assert after["value"] == pytest.approx(before["value"] * gain)
    for old, new in zip(before["cells"], after["cells"], strict=True):
        assert new["value"] == pytest.approx(old["value"] * gain)


RIVALS = {"sdpa_cudnn": 600.0, "fa3": 700.0, "fa4": 650.0}


def grid_rows(rivals: dict[str, float] = RIVALS, **fields: Any) -> list[Row]:
    """Rows of hopper_grid at these TFLOPS on every problem, interleaved; another rung that was faster beside them."""
    rows = [synthetic.ENVIRONMENT]
    mine = {("wgmma", "cuda"): 900.0, ("flagship", "cuda"): 714.0, ("flagship", "triton"): 500.0}
    for problem in experiments.load("hopper_grid").problems:
        for (technique, backend), speed in [*mine.items(), *(((None, peer), own) for peer, own in rivals.items())]:
            of = {"experiment": "hopper_grid", "mode": "burst", "group": problem.slug}
            of["samples_ms"] = [problem.flops / speed / 1e9] * 9
            row = synthetic.make("timing", technique, backend, problem, technique and Tile(128, 128), **of)
            row |= {"mma": "wgmma", **({"source_sha256": "now"} if technique else {})}
            rows.append(row | (fields if backend == "cuda" else {}))
    return rows


def grid_entries(rows: list[Row]) -> dict[str, Any]:
    hashes = {(name, backend): "now" for name in ("wgmma", "flagship") for backend in ("cuda", "triton")}
    return {entry["name"]: entry for entry in scorecard.scorecard(*tables(rows, hashes))["entries"]}


def test_the_flagship_stands_against_the_fastest_rival_and_no_other_rung_for_it() -> None:
    card = grid_entries(grid_rows())
    fastest = card["flagship_over_fastest"]
    assert fastest["status"] == "complete"
    assert fastest["value"] == pytest.approx(714 / 700)
    assert {cell["theirs_is"] for cell in fastest["cells"]} == {"fa3"}
    assert len(fastest["cells"]) == 36
    assert card["flagship_over_cudnn"]["value"] == pytest.approx(714 / 600)
    assert card["triton_over_flagship"]["value"] == pytest.approx(500 / 714)
    assert card["triton_over_fastest"]["value"] == pytest.approx(500 / 700)
    assert [cell["problem"] for cell in card["gluon_over_fa4"]["cells"]] == ["b2-h16-n8192-d128-bf16-full"]


@pytest.mark.parametrize("backend", ["cuda", "triton"])
def test_a_newer_run_that_lacks_one_side_hides_no_group_with_both(backend: str) -> None:
    rows = grid_rows()
    alone = [row for row in rows if row.get("technique") == "flagship" and row["backend"] == backend]
    newer = [row | {"group": f"{row['group']} alone", "time": "2030-02-01T00:00:00Z"} for row in alone]
    assert grid_entries([*rows, *newer])["triton_over_flagship"]["value"] == pytest.approx(500 / 714)


def test_triton_stands_with_its_best_rung_and_cuda_with_the_flagship() -> None:
    rows = grid_rows()
    causal = [row for row in rows if row.get("backend") == "triton" and row["problem"]["causal"]]
    beside = [
        row | {"technique": "wgmma", "samples_ms": [sample / 1.1 for sample in row["samples_ms"]]} for row in causal
    ]
    card = grid_entries([*rows, *beside])
    ratios = {cell["problem"].endswith("causal"): cell for cell in card["triton_over_flagship"]["cells"]}
    assert ratios[True]["value"] == pytest.approx(550 / 714)
    assert ratios[True]["ours_is"].startswith("triton wgmma")
    assert ratios[False]["value"] == pytest.approx(500 / 714)
    assert {cell["theirs_is"].split()[1] for cell in card["triton_over_flagship"]["cells"]} == {"flagship"}


def gate_of(row: Row, **fields: Any) -> Row:
    """A gate that a timing's kernel passed, or failed."""
    kept = {name: value for name, value in row.items() if name not in ("samples_ms", "mode", "group")}
    return kept | {"kind": "gate", "status": "passed"} | fields


WRONG = {"status": "wrong", "reason": "elements are NaN"}


def caveats(rows: list[Row]) -> list[str]:
    """Of the entry whose kernels are core Triton's and the flagship."""
    return list(grid_entries(rows)["triton_over_flagship"]["caveats"])


def test_an_entry_says_that_its_kernel_failed_another_gate_and_keeps_its_value() -> None:
    rows = grid_rows()
    before = grid_entries(rows)["triton_over_flagship"]
    assert before["caveats"] == []
    timing = next(row for row in rows if row.get("backend") == "triton")
    elsewhere = {"experiment": "shared_gpu", "tile": Tile(64, 64).to_dict()}
    unsteady = [gate_of(timing, **elsewhere), gate_of(timing, **elsewhere, **WRONG)]
    after = grid_entries([*rows, *unsteady])["triton_over_flagship"]
    (told,) = after["caveats"]
    assert told.startswith("on 36 of 36 problems one of the kernels failed another gate")
    assert [cell["value"] for cell in after["cells"]] == [cell["value"] for cell in before["cells"]]
    assert caveats([*rows, gate_of(timing, **WRONG, experiment="bench")]) == [told]


@pytest.mark.parametrize(
    "fields",
    [
        {},  # a tile that never passes
        {"source_sha256": "earlier", "tile": Tile(128, 128).to_dict()},
        {"environment": "another", "tile": Tile(128, 128).to_dict()},
        {"technique": "wgmma", "tile": Tile(128, 128).to_dict()},
        {"assembler": "shared", "tile": Tile(128, 128).to_dict()},
        {"status": "timeout", "tile": Tile(128, 128).to_dict()},
    ],
)
def test_a_gate_of_another_kernel_is_no_caveat(fields: Row) -> None:
    rows = grid_rows()
    timing = next(row for row in rows if row.get("backend") == "triton")
    gate = gate_of(timing, experiment="bench", **{**WRONG, "tile": Tile(64, 64).to_dict(), **fields})
    assert caveats([*rows, gate]) == []


@pytest.mark.parametrize(
    ("fields", "doubted"),
    [
        ([{}], True),
        ([{"source_sha256": "0" * 64}], False),
        ([{"environment": "another"}], False),
        ([{}, {"status": "passed", "reason": None, "time": "2036-01-01T00:00:00Z"}], False),
    ],
    ids=["disagrees", "another source", "another GPU", "agrees since"],
)
def test_an_entry_says_that_cupti_disagrees(fields: list[Row], doubted: bool) -> None:
    rows = grid_rows()
    timing = next(row for row in rows if row.get("backend") == "triton")
    seen = timing | {"kind": "cupti", "experiment": "ladder", "status": "implausible", "reason": "CUPTI: +2.4%"}
    told = caveats([*rows, *(seen | changed for changed in fields)])
    assert told == ["of 1 of 72 programs CUPTI measured another time than the events"] * doubted


def test_nobody_is_fastest_without_all_rivals_beside_the_same_samples() -> None:
    without = {name: speed for name, speed in RIVALS.items() if name != "fa4"}
    entry = grid_entries(grid_rows(rivals=without))["flagship_over_fastest"]
    assert (entry["status"], entry["value"]) == ("incomplete", None)
    assert "fa4: no row" in entry["reason"]
    apart = grid_rows(rivals=without)
    other = [row | {"group": "another"} for row in grid_rows(rivals={"fa4": 650.0}) if "samples_ms" in row]
    entry = grid_entries([*apart, *other])["flagship_over_fastest"]
    assert "were not timed in one group" in entry["reason"]


def test_a_final_group_that_lacks_a_rival_does_not_hide_one_with_all() -> None:
    without = {name: speed for name, speed in RIVALS.items() if name != "fa4"}
    earlier = [
        row
        | {"group": "earlier", "details": {"final": True}}
        | ({"tile": Tile(64, 64).to_dict()} if "tile" in row else {})
        for row in grid_rows(rivals=without)
        if "samples_ms" in row
    ]
    entry = grid_entries([*grid_rows(), *earlier])["triton_over_fastest"]
    assert entry["status"] == "complete"


def test_a_faster_tile_counts_that_was_timed_beside_the_fastest_rival_alone() -> None:
    """Which rival is the fastest needs all of them in one group, our best tile needs that rival."""

    def at_another_tile(*rivals: str) -> Any:
        rows = [row | {"group": "another"} for row in grid_rows({name: RIVALS[name] for name in rivals})[1:]]
        for row in rows:
            if row["backend"] == "triton":
                row["samples_ms"] = [sample / 1.2 for sample in row["samples_ms"]]
                row["tile"] = Tile(128, 64, 3, 8).to_dict()
        return grid_entries([*grid_rows(), *rows])["triton_over_fastest"]

    before = grid_entries(grid_rows())["triton_over_fastest"]["value"]
    assert at_another_tile("sdpa_cudnn")["value"] == pytest.approx(before)
    assert at_another_tile("sdpa_cudnn", "fa3")["value"] == pytest.approx(1.2 * before)
    assert {cell["theirs_is"] for cell in at_another_tile("fa3")["cells"]} == {"fa3"}


def test_a_process_in_which_the_clock_fell_is_one_of_the_group() -> None:
    """In its third process one rival was 7% slower: all rivals are still compared beside the same samples."""
    rows = grid_rows()
    for replicate, slower in ((2, {}), (3, {"fa3": 1.07})):
        again = {"group": f"process {replicate}", "time": f"2031-01-0{replicate}T00:00:00Z"}
        for row in grid_rows():
            if "samples_ms" in row:
                samples = [sample * slower.get(row["backend"], 1.0) for sample in row["samples_ms"]]
                rows.append(row | again | {"samples_ms": samples, "details": {"final": True, "replicate": replicate}})
    entry = grid_entries(rows)["flagship_over_fastest"]
    assert (entry["status"], entry["reason"]) == ("complete", None)


def test_the_rival_that_is_fastest_over_all_processes_is_the_fastest() -> None:
    """In the newest process, whose TFLOPS are shown, the fastest rival was so slow that another one was ahead of it."""
    rows = on_boards(lambda row: row["backend"] == "fa3", grid_rows(), a=1.0, b=1.0, c=1.1)
    entry = grid_entries(rows)["flagship_over_fastest"]
    assert {cell["theirs_is"] for cell in entry["cells"]} == {"fa3"}
    assert entry["value"] == pytest.approx(714 / 700 * 1.1 ** (1 / 3))


def test_what_was_not_run_yet_is_incomplete_on_gpus_that_could() -> None:
    card = grid_entries(synthetic.rows())
    for name in ("flagship_over_fastest", "triton_over_fastest", "flagship_over_fastest_sustained"):
        assert card[name]["status"] == "incomplete"
        assert f"`twinkernels run attention/{card[name]['experiment']}`" in card[name]["reason"]
    ampere = synthetic.environment(synthetic.ENVIRONMENT["id"], "a board", capability=[8, 0])
    rows = [ampere if row["kind"] == "environment" else row for row in synthetic.rows()]
    assert not [name for name in grid_entries(rows) if "flagship" in name]


def test_the_sustained_ratio_is_of_sustained_rows() -> None:
    rows = [row | {"experiment": "hopper_sustained"} if "samples_ms" in row else row for row in grid_rows()]
    assert grid_entries(rows)["flagship_over_fastest_sustained"]["status"] == "incomplete"
    rows = [row | {"mode": "sustained"} if "samples_ms" in row else row for row in rows]
    entry = grid_entries(rows)["flagship_over_fastest_sustained"]
    assert (entry["status"], len(entry["cells"])) == ("complete", 12)


def of_the_gap(rows: list[Row]) -> dict[str, Any]:
    card = scorecard.scorecard(*tables(rows, ledger_rows.hashes()))["entries"]
    (entry,) = (one for one in card if one["name"] == scorecard.GAP_EXPLAINED)
    return dict(entry)


def test_what_is_explained_of_the_gap_is_an_entry_with_its_interval() -> None:
    """Of all problems that were measured; its value is the headline's, though another may be worse, and misses the
    goal."""
    problems = (ledger_rows.PROBLEM, ledger_rows.CAUSAL, Problem.square(1, 16, 16_384, 128))
    entry = of_the_gap(ledger_rows.rows(problems, beyond={"without_own_diagonal": 0.1}))
    assert entry["status"] == "complete"
    assert 0.9 < entry["value"] <= 1
    assert entry["interval"]["low"] < entry["value"] <= entry["interval"]["high"]
    full, causal, longer = entry["cells"]
    assert [cell["problem"] for cell in (full, causal, longer)] == [problem.slug for problem in problems]
    assert full["ours"] > full["theirs"] == pytest.approx(ledger_rows.TRITON_TFLOPS, rel=0.01)
    assert full["value"] == entry["value"]
    assert causal["value"] < 0.9
    assert entry["worst_cell"] == causal["problem"]
    assert entry["goal"] == 0.9
    assert causal["missed"] == ["all boards", "board0", "board1", "board2"]
    assert full["missed"] == longer["missed"] == []
    for cell in entry["cells"]:
        assert set(cell["boards"]) == {"board0", "board1", "board2"}
        assert all(share == pytest.approx(cell["value"], abs=0.04) for share in cell["boards"].values())


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        (None, "what_triton_misses was not run on this GPU: `twinkernels run what_triton_misses`"),
        (("flagship",), "b4-h16-n4096-d128-bf16-full: no group timed both ends"),
    ],
)
def test_without_both_ends_of_the_gap_its_entry_is_incomplete(without: tuple[str, ...] | None, reason: str) -> None:
    entry = of_the_gap(synthetic.rows() if without is None else ledger_rows.rows(without=without))
    assert (entry["status"], entry["value"], entry["reason"]) == ("incomplete", None, reason)


def test_a_hole_on_another_problem_is_told_in_its_cell() -> None:
    rows = ledger_rows.rows((ledger_rows.PROBLEM, ledger_rows.CAUSAL))
    causal = ledger_rows.CAUSAL.slug
    entry = of_the_gap([row for row in rows if row.get("backend") != "triton" or reading.slug(row) != causal])
    assert (entry["status"], entry["reason"]) == ("complete", None)
    whole, hole = entry["cells"]
    assert entry["value"] == whole["value"]
    assert entry["worst_cell"] == whole["problem"]
    assert hole == {"problem": causal, "reason": "no group timed both ends"}


@pytest.mark.parametrize(("which", "counts"), [(max, True), (min, False)])
def test_the_final_of_a_run_of_slow_techniques_is_passed_over(which: Callable[..., Row], counts: bool) -> None:
    rows = synthetic.rows()
    before = entries(rows)["triton_over_cuda"]["cells"][0]
    for backend, slower in (("triton", 1.02), ("cuda", 1.03)):
        about = {"kind": "timing", "mode": "burst", "backend": backend, "status": "passed", "mma": "mma_sync"}
        timed = [row for row in rows if about.items() <= row.items() and reading.slug(row) == before["problem"]]
        row = which(timed, key=reading.tflops)
        final = {"group": "later", "time": "2031-01-01T00:00:00Z", "details": {"final": True}}
        rows.append({**row, "samples_ms": [ms * slower for ms in row["samples_ms"]], **final})
    after = entries(rows)["triton_over_cuda"]["cells"][0]
    assert (after["value"] != before["value"]) is counts
