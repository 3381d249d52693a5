"""What a step is said to buy, and what a page shows as its difference: from rows, and from the program that runs."""

from itertools import product
from typing import Any

import pytest

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention import inspected
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import counters, sanitizers, steps
from reports.facts.gains import Gains, gains
from reports.pages import common, listing, prose
from reports.pages import technique as page
from reports.pages.attention import articles
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, lines

pytestmark = pytest.mark.slow

Row = dict[str, Any]
FULL, CAUSAL = synthetic.PROBLEMS[:2]


def causal_timings(rows: list[Row], backend: str, *names: str) -> list[Row]:
    timings = {id(row): row for row in rows if row["kind"] == "timing" and row["problem"]["causal"]}
    return [row for row in timings.values() if row.get("technique") in names and row["backend"] == backend]


def test_the_same_program_at_the_tile_of_the_rung_is_a_measurement_of_the_rung() -> None:
    """large_tile is xor_swizzle's kernel; where `tune` has timed that kernel at this tile, it is not timed again."""
    technique = techniques.get("large_tile")
    rows = synthetic.rows()
    for row in rows:
        if (row["kind"], row.get("technique"), row.get("backend")) == ("timing", "large_tile", "cuda"):
            row["details"] = {"same_program": "xor_swizzle"}
    data = dataset(rows)
    assert data.point("ladder", FULL, "large_tile", "cuda").kind == "measured"
    assert data.gain("ladder", FULL, technique, "cuda") is not None
    assert not gains(data, "ladder", technique).languages["cuda"].same_program
    assert data.point("ladder", FULL, "large_tile", "cuda", tile=Tile(64, 128)).kind == "same_program"
    assert data.point("ladder", FULL, "xor_swizzle", "triton").kind == "same_program"


def test_a_heading_counts_no_gain_of_the_parents_program() -> None:
    data = dataset(synthetic.rows())
    for name, said in (("xor_swizzle", True), ("scalar", False)):
        which = techniques.get(f"attention/{name}")
        step = steps.one_step(data, FULL, which, "cuda")
        assert bool(page.gained({"cuda": [step]}, [FULL])) is said, name
    step = steps.one_step(data, FULL, techniques.get("attention/xor_swizzle"), "triton")
    assert (step.kind, bool(step.ratio)) == ("same", True)
    assert page.gained({"triton": [step]}, [FULL]) == ""


def test_a_technique_that_only_another_gpu_timed_is_shown_as_that_one_has_it() -> None:
    name = "large_tile"
    timed = dataset(synthetic.rows(), "NVIDIA H100")
    without = dataset([row for row in synthetic.rows() if row.get("technique") != name])
    rows = common.Rows(without, [without, timed], {}, prose.Claims())
    assert (rows.of_technique(name), rows.of_technique("xor_swizzle")) == (timed, without)
    assert rows.of_technique("wgmma") is without, "nobody timed it"


def test_gains_at_the_best_tiles_are_of_as_many_problems() -> None:
    technique = techniques.get("attention/cp_async_pipeline")
    chosen = dict(synthetic.CHOSEN)

    def found() -> Gains:
        data = Dataset("NVIDIA H200", True, synthetic.rows(), synthetic.hashes(), chosen)
        return gains(data, "ladder", technique)

    triton, speeds = found().languages["triton"], synthetic.SPEED["triton"]
    assert triton.best.value == pytest.approx(1.04 * speeds[technique.name] / speeds["large_tile"], rel=0.01)
    assert triton.best.cells == triton.gain.cells
    assert found().languages["cuda"].best is None
    del chosen["large_tile", "triton", "d128-full"]
    assert found().languages["triton"].best is None


def test_a_hole_names_its_languages_and_problems_once() -> None:
    rows, names = synthetic.rows(), ("direct_rescale", "xor_swizzle")
    for row in causal_timings(rows, "triton", *names):
        row |= {"status": "not_converged", "reason": "no median"}
    reference = techniques.reference_tile(techniques.get("attention/cp_async_pipeline"), 128).to_dict()
    refusal = "OutOfResources: out of resource: shared memory, Required: 262560, Hardware limit: 232448. Reducing."
    for row in rows:
        refused = ("timing", "cp_async_pipeline", "triton", FULL.to_dict(), reference)
        if tuple(map(row.get, ("kind", "technique", "backend", "problem", "tile"))) == refused:
            row |= {"status": "unsupported", "reason": f"{refusal}: launch at `function[grid(q)]` [file.py:3]"}
    again = gains(dataset(rows), "ladder", techniques.get("attention/xor_swizzle"))
    assert again.languages["triton"].same_program
    assert [(hole.languages, hole.where, hole.reason) for hole in again.holes if "median" in hole.reason] == [
        ("Triton", "head_dim 128, causal, head_dim 64, causal", "not_converged: no median")
    ]
    hole, *_ = gains(dataset(rows), "ladder", techniques.get("attention/cp_async_pipeline")).holes
    assert (hole.is_declined, hole.where) == (True, "head_dim 128, full")
    assert hole.reason == "the kernel needs 262,560 bytes of shared memory for a block, and the GPU has 232,448"


def test_a_program_with_its_parents_tile_on_some_problems_has_a_gain() -> None:
    """three_warpgroups has its parent's tile at head_dim 256 alone, where the parent's rows count for it."""
    names, repeated = ("producer_consumer", "three_warpgroups"), {"same_program": "producer_consumer"}
    model = next(row for row in synthetic.rows() if row["kind"] == "timing" and row.get("samples_ms"))
    rows: list[Row] = [synthetic.ENVIRONMENT]
    for name, head_dim in product(names, (128, 256)):
        tile = techniques.reference_tile(techniques.of_qualified(name), head_dim).to_dict()
        of = {"experiment": "hopper", "technique": name, "backend": "cuda", "tile": tile, "group": f"d{head_dim}"}
        of |= {"source_sha256": synthetic.sha(name, "cuda"), "samples_ms": [2.0 if head_dim == 256 else 1.0]}
        of |= {"problem": Problem.square(4, 16, 4096, head_dim).to_dict()}
        rows.append(model | of | {"details": repeated if (name, head_dim) == ("three_warpgroups", 256) else {}})
    assert rows[-1]["tile"] == rows[2]["tile"]
    found = gains(dataset(rows), "hopper", techniques.get("three_warpgroups")).languages["cuda"]
    assert (found.same_program, found.remark) == (False, "the parent’s program at another tile")
    assert found.gain.value == pytest.approx(1)


def test_remarks_tell_what_a_gain_is_over() -> None:
    rows, technique = synthetic.rows(), techniques.get("attention/cp_async_pipeline")
    for row in rows:
        if (row.get("technique"), row.get("backend"), row["kind"]) == (technique.name, "cuda", "timing"):
            row["source_sha256"] = "0"
    (timing, *_) = causal_timings(rows, "cuda", technique.name)
    gate = {**timing, "kind": "gate", "status": "wrong", "check": "max_error", "mode": None}
    of_another = {**gate, "source_sha256": "1", "problem": FULL.to_dict()}
    found = gains(dataset([*rows, gate, of_another]), "ladder", technique).languages["cuda"]
    assert found.remark == "only an earlier version was measured, which 1 gates found wrong"
    parent = techniques.get("direct_rescale")
    for spilled, told in ((4488, "its parent spills 4.5 kB a thread"), (100, "")):
        rows = [*synthetic.rows(), code(parent.name, techniques.reference_tile(parent, 128), spilled)]
        assert gains(dataset(rows), "ladder", techniques.get("attention/xor_swizzle")).languages["cuda"].remark == told


@pytest.mark.parametrize(
    ("name", "language", "before", "after"),
    [
        ("cp_async_pipeline", "cuda", "xor_swizzle", "cp_async_pipeline"),  # large_tile includes xor_swizzle
        ("direct_rescale", "triton", "register_softmax", "direct_rescale"),
        ("exp2_softmax", "triton", "cp_async_pipeline", "exp2_softmax"),
        ("mma_ldmatrix", "triton", "wmma", "wmma"),
        ("xor_swizzle", "cuda", "direct_rescale", "xor_swizzle"),
    ],
)
def test_a_difference_is_between_programs(name: str, language: str, before: str, after: str) -> None:
    technique = techniques.of_qualified(name)
    parent = techniques.parent(technique)
    assert parent is not None
    found = listing.diff(parent, technique, language)
    assert (found.before.name, found.after.name) == (before, after)
    assert bool(found.html) is (before != after)


def test_the_difference_is_the_technique() -> None:
    """No rung's diff is a whole file: the design allows 150 lines between adjacent rungs, in matrix products 100."""
    for technique in (*TECHNIQUES, *operators.get("gemm").techniques):
        parent = techniques.parent(technique)
        for language in ("cuda", "triton"):
            found = parent and listing.diff(parent, technique, language)
            most = 100 if technique.operator == "gemm" else 150
            assert not found or found.added < most, (technique.name, language)


def test_no_cuda_kernel_is_long() -> None:
    """Of a rung or an ablation: the design allows 350 lines in a file, in matrix products 250."""
    for kernel in techniques.kernels():
        lines = sources.kernel_file("cuda", kernel.path).read_text().splitlines()
        assert len(lines) <= (250 if kernel.operator == "gemm" else 350), (kernel.name, len(lines))


def code(name: str, tile: Tile, spilled: int, **problem: Any) -> Row:
    row = next(
        r for r in synthetic.rows() if (r["kind"], r.get("technique"), r.get("backend")) == ("code", name, "cuda")
    )
    row |= {"arch": "sm_90a", "tile": tile.to_dict(), "problem": {**FULL.to_dict(), **problem}, "kind": "gate"}
    return row | {"code": {**row["code"], "spill_bytes": spilled}, "time": "2030-01-03T00:00:00Z"}


def test_spills_of_every_build_are_told_with_their_range() -> None:
    name = "exp2_softmax"
    reference = techniques.reference_tile(techniques.of_qualified(name), 128)
    rows = [code(name, reference, 8), code(name, reference, 24, dtype="fp16"), code(name, Tile(128, 32, 1, 8), 4000)]
    rows.append(code(name, reference, 0, head_dim=64))
    first, second = page.spills([dataset([synthetic.ENVIRONMENT, *rows])], techniques.of_qualified(name))
    assert (first.reference, first.least, first.most) == (True, 8, 24)
    assert (second.tile, second.most, second.reference) == ("128x32-s1-w8", 4000, False)


def test_both_orders_of_blocks_stand_side_by_side() -> None:
    assert articles.L2_ORDERS == inspected.L2_ORDERS
    rows = []
    for name, rate in zip(articles.L2_ORDERS, (60.0, 88.0), strict=True):
        row = code(name, Tile(64, 64), 0) | {"kind": "counters", "experiment": "ncu", "on": "gpu"}
        metrics = {counters.HIT_RATE: rate, counters.DRAM_READ: 1e6 * rate}
        rows += [row | {"details": {"metrics": metrics}}]
    ((row, rates),) = articles.hit_rates([dataset([synthetic.ENVIRONMENT, *rows])])
    assert (row.problem, row.tile, list(rates.values())) == (FULL.slug, "64x64-s1-w4", [60.0, 88.0])
    assert articles.hit_rates([dataset([synthetic.ENVIRONMENT, rows[0]])]) == []


def test_racecheck_does_not_see_what_tma_writes() -> None:
    def seen(name: str, tool: str) -> bool:
        return sanitizers.Sanitized([{"technique": name, "tool": tool}], earlier=False).sees_all

    assert not seen("tma_loads", "racecheck")
    assert not seen("flagship", "racecheck")
    assert seen("tma_loads", "memcheck")
    assert seen("scalar", "racecheck")


def test_holes_of_one_reason_stand_together() -> None:
    base = {"kind": "timing", "backend": "cuda", "problem": FULL.to_dict(), "mode": "burst", "samples_ms": [2.0]}
    row = {**base, "status": "not_converged", "reason": "relative error of the median 2.34% after 12 samples"}
    rows = [{**row, "technique": name} for name in ("scalar", "wmma")]
    rows.append({**row, "technique": "scalar", "status": "wrong", "check": "finite", "reason": "NaN"})
    for size in ("192x80", "128x80"):
        why = f"tensors come in powers of two; got tile {size}-s2-w8, problem {FULL.slug}"
        rows.append({**row, "technique": "flagship", "status": "unsupported", "reason": why})
    together, alone, declined = common.group_holes(lines(rows))
    assert (declined.reason, len(declined.cells)) == ("tensors come in powers of two", 2)
    assert (together.status, together.kernels) == ("not_converged", [("cuda", "scalar"), ("cuda", "wmma")])
    assert together.cells[1][2].endswith("2.34%")
    assert (alone.check, alone.reason, alone.kernels) == ("finite", "NaN", [("cuda", "scalar")])


def test_a_library_that_was_timed_again_leaves_no_hole() -> None:
    rows = synthetic.rows()
    flash = next(row for row in rows if row.get("backend") == "sdpa_flash" and row["problem"] == FULL.to_dict())
    worse = {"status": "not_converged", "reason": "relative error of the median 2.34% after 12 samples"}
    beside = next(row["group"] for row in rows if row.get("technique") == "scalar" and row.get("group"))
    before = flash | worse | {"group": beside, "time": "2029-12-31T00:00:00Z"}
    after = before | {"time": "2030-01-09T00:00:00Z"}
    holes = [len(dataset([*rows, *more]).holes) for more in ([], [before], [after])]
    assert holes == [holes[0], holes[0], holes[0] + 1]
