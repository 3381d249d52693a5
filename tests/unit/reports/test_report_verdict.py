"""What a step is said to buy, and what a page shows as its difference: from rows, and from the program that runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from harness.catalog import sources, techniques
from harness.catalog.problem import Problem, Tile
from harness.catalog.techniques import TECHNIQUES, Technique
from harness.inspection import hardware_counters
from harness.operators.attention.claims import CLAIMS
from harness.rows.intervals import Interval
from reports.data.dataset import Dataset
from reports.data.questions import question
from reports.facts import correctness, counters, resources
from reports.facts.holes import group_holes
from reports.facts.spills import spills
from reports.facts.verdict import Gain, Verdict, _cells, lacking, sentence, verdict
from reports.pages import listing, overview
from tests.support import synthetic_rows as synthetic
from tests.support.pages import dataset, rendered

Row = dict[str, Any]
FULL, CAUSAL = synthetic.PROBLEMS[:2]


def causal_timings(rows: list[Row], backend: str, *names: str) -> list[Row]:
    timings = {id(row): row for row in rows if row["kind"] == "timing" and row["problem"]["causal"]}
    return [row for row in timings.values() if row.get("technique") in names and row["backend"] == backend]


def test_a_gain_on_one_problem_and_a_loss_on_another_is_mixed() -> None:
    technique = techniques.get("cp_async_pipeline")
    assert "In CUDA it gives 1.15× the speed;" in verdict(dataset(synthetic.rows()), "ladder", technique).sentence
    rows = synthetic.rows()
    for row in causal_timings(rows, "cuda", technique.name):
        row["samples_ms"] = [1.3 * ms for ms in row["samples_ms"]]
    told = verdict(dataset(rows), "ladder", technique).sentence
    assert told.startswith("In CUDA it gives 1.05× the speed on average, from 0.88× to")
    assert told.endswith(" Ratios are means over 4 problems.")


def test_a_gain_is_also_told_with_each_rung_at_its_best_tile_where_that_is_another() -> None:
    technique = techniques.get("cp_async_pipeline")
    rows, chosen = synthetic.rows(), dict(synthetic.CHOSEN)

    def told() -> Verdict:
        return verdict(Dataset("NVIDIA H200", True, rows, synthetic.hashes(), chosen), "ladder", technique)

    triton, speeds = told().languages["triton"], synthetic.SPEED["triton"]
    assert triton.gain
    assert triton.best_gain
    assert triton.best_gain.value == pytest.approx(1.04 * speeds[technique.name] / speeds["large_tile"], rel=0.01)
    assert triton.best_gain.cells == triton.gain.cells
    assert told().languages["cuda"].best_gain is None
    assert "with each at its best tile" not in told().sentence
    for row in {id(row): row for row in rows}.values():
        if row["kind"] == "timing" and row.get("tile") == chosen[technique.name, "triton", "d128-full"].to_dict():
            row["samples_ms"] = [ms / 2 for ms in row["samples_ms"]]
    assert "in Triton it gives 1.06× the speed (2.20× with each at its best tile)" in told().sentence
    del chosen["large_tile", "triton", "d128-full"]
    assert told().languages["triton"].best_gain is None, "not of fewer problems"


@pytest.mark.parametrize(
    ("low", "high", "mixed"), [(0.96, 1.16, True), (0.99, 1.01, False), (1.0, 1.1, False), (0.999, 1.1, False)]
)
def test_what_is_mixed(low: float, high: float, mixed: bool) -> None:
    assert Gain((low * high) ** 0.5, 4, low, high, linked=False).mixed is mixed


def test_a_gain_of_two_runs_is_told_as_about() -> None:
    assert Gain(1.1, 1, 1.1, 1.1, linked=True).phrase == "gives about 1.10× the speed"
    assert Gain(1.1, 1, 1.1, 1.1, linked=False).phrase == "gives 1.10× the speed"


@pytest.mark.parametrize(
    ("value", "interval", "told"),
    [
        (1.015, None, "changes little (1.01×)"),
        (1.015, Interval(None, None, 2, 1), "changes little (1.01×)"),
        (1.015, Interval(1.012, 1.018, 3, 2), "gives 1.01× the speed (95% interval 1.01 to 1.02)"),
        (0.97, Interval(0.93, 1.01, 3, 1), "changes little (0.97×, 95% interval 0.93 to 1.01)"),
        (0.97, None, "gives 0.97× the speed, a loss"),
        (1.002, Interval(1.001, 1.003, 3, 1), "changes nothing (1.00×, 95% interval 1.00 to 1.00)"),
    ],
)
def test_an_interval_decides_before_a_threshold(value: float, interval: Interval | None, told: str) -> None:
    assert Gain(value, 1, value, value, linked=False, interval=interval).phrase == told


@pytest.mark.parametrize(
    ("name", "same", "best", "told"),
    [
        ("scalar", 0.43, None, "The ladder starts here. At the same tile Triton runs at 0.43× the speed of CUDA."),
        (
            "wmma",
            0.86,
            1.0,
            " At the same tile Triton then runs at 0.86× the speed of CUDA, or 1.00× with each at its best tile.",
        ),
        (
            "wmma",
            1.0,
            1.2,
            " both then run equally fast; with each at its best tile Triton runs at 1.20× the speed of CUDA.",
        ),
        ("wmma", 1.0, 1.05, " At the same tile both then run equally fast."),
    ],
)
def test_where_triton_stands_is_a_sentence(name: str, same: float, best: float | None, told: str) -> None:
    technique = techniques.get(name)
    versus, best_versus = (value and Gain(value, 1, value, value, linked=False) for value in (same, best))
    given = Verdict(technique, techniques.parent(technique), {}, versus, best_versus)
    given.languages["cuda"] = verdict(dataset(synthetic.rows()), "ladder", technique).languages["cuda"]
    assert sentence(given).endswith(told)


def test_a_hole_of_a_program_is_told_once_and_named_where_it_runs_again() -> None:
    rows, names = synthetic.rows(), ("direct_rescale", "xor_swizzle")
    for row in causal_timings(rows, "triton", *names):
        row |= {"status": "not_converged", "reason": "relative error of the median 2.34% after 12 samples"}
    data = dataset(rows)
    first, again = (verdict(data, "ladder", techniques.get(name)).languages["triton"] for name in names)
    assert again.program == "direct_rescale"
    assert [hole.told(["Triton"]).partition(" TFLOPS")[0] for hole in first.holes] == [
        "No number in Triton (d=128 causal): repeated timings did not settle, at 242",
        "No number in Triton (d=64 causal): repeated timings did not settle, at 208",
    ]
    assert [hole.told(["Triton"]) for hole in again.holes] == [
        "No number in Triton (d=128 causal, d=64 causal): it runs the program of “New maximum first”, which has none."
    ]


def test_a_hole_at_the_reference_tile_names_the_number_at_the_best_tile() -> None:
    rows = synthetic.rows()
    reference = techniques.reference_tile(techniques.get("cp_async_pipeline"), 128).to_dict()
    refusal = "OutOfResources: out of resource: shared memory, Required: 262560, Hardware limit: 232448. Reducing."
    refused = ("timing", "cp_async_pipeline", "triton", FULL.to_dict(), reference)
    for row in rows:
        if tuple(map(row.get, ("kind", "technique", "backend", "problem", "tile"))) == refused:
            row |= {"status": "unsupported", "reason": f"{refusal}: launch at `function[grid(q)]` [file.py:3]"}
    data = Dataset("NVIDIA H200", True, rows, synthetic.hashes(), synthetic.CHOSEN)
    found = verdict(data, "ladder", techniques.get("cp_async_pipeline"))
    (hole,) = found.languages["triton"].holes
    best = data.point("ladder", FULL, "cp_async_pipeline", "triton", best=True)
    tile = synthetic.CHOSEN["cp_async_pipeline", "triton", "d128-full"].slug
    assert hole.is_declined
    assert found.holes[:1] == [
        (
            hole,
            "No number in Triton at the reference tile (d=128 full): the kernel needs 262,560 bytes of shared memory "
            f"for a block, and the GPU has 232,448. At its best tile it reaches {best.tflops:.0f} TFLOPS "
            f"(d=128 full, tile {tile}).",
        )
    ]


def test_where_a_hole_is_names_a_mask_only_where_it_is_alone() -> None:
    full, causal = (Problem.square(1, 1, 64, 128, causal=causal) for causal in (False, True))
    assert _cells([full, causal, Problem.square(1, 1, 64, 64, causal=True)]) == "d=128, d=64 causal"


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
    assert verdict(data, "ladder", technique).languages["cuda"].program is None
    assert data.point("ladder", FULL, "large_tile", "cuda", tile=Tile(64, 128)).kind == "same_program"
    assert data.point("ladder", FULL, "xor_swizzle", "triton").kind == "same_program"


def test_a_program_that_has_another_tile_on_some_problems_is_told_by_its_gains() -> None:
    """three_warpgroups has its parent's tile at head_dim 256 alone, where the parent's rows stand for it."""
    names, repeated = ("producer_consumer", "three_warpgroups"), {"same_program": "producer_consumer"}
    model = next(row for row in synthetic.rows() if row["kind"] == "timing" and row.get("samples_ms"))
    rows: list[Row] = [synthetic.ENVIRONMENT]
    for name, head_dim in product(names, (128, 256)):
        of = {
            "experiment": "hopper",
            "technique": name,
            "backend": "cuda",
            "source_sha256": synthetic.sha(name, "cuda"),
        }
        of |= {
            "problem": Problem.square(4, 16, 4096, head_dim).to_dict(),
            "samples_ms": [2.0 if head_dim == 256 else 1.0],
        }
        of |= {"tile": techniques.reference_tile(techniques.get(name), head_dim).to_dict(), "group": f"d{head_dim}"}
        rows.append(model | of | {"details": repeated if (name, head_dim) == ("three_warpgroups", 256) else {}})
    assert rows[-1]["tile"] == rows[2]["tile"]
    told = verdict(dataset(rows), "hopper", techniques.get("three_warpgroups"))
    assert told.languages["cuda"].program is None
    assert told.sentence.startswith("In CUDA the tile alone changes nothing (1.00×)")


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
    technique = techniques.get(name)
    parent = techniques.parent(technique)
    assert parent is not None
    found = listing.diff(parent, technique, language)
    assert found is not None
    assert (found.before.name, found.after.name) == (before, after)
    assert bool(found.html) is (before != after)


def test_the_difference_is_the_technique() -> None:
    """No rung's diff is a whole file: the design allows 150 lines between adjacent rungs."""
    for technique in TECHNIQUES:
        parent = techniques.parent(technique)
        for language in ("cuda", "triton"):
            found = parent and listing.diff(parent, technique, language)
            assert not found or found.added < 150, (technique.name, language)


def test_no_cuda_kernel_is_long() -> None:
    """Of a rung or an ablation: the design allows 350 lines in a file."""
    for kernel in techniques.kernels():
        lines = sources.kernel_file("cuda", kernel.path).read_text().splitlines()
        assert len(lines) <= 350, (kernel.name, len(lines))


def code(name: str, tile: Tile, spilled: int, **problem: Any) -> Row:
    row = next(
        r for r in synthetic.rows() if (r["kind"], r.get("technique"), r.get("backend")) == ("code", name, "cuda")
    )
    row |= {"arch": "sm_90a", "tile": tile.to_dict(), "problem": {**FULL.to_dict(), **problem}, "kind": "gate"}
    return row | {"code": {**row["code"], "spill_bytes": spilled}, "time": "2030-01-03T00:00:00Z"}


def test_machine_code_is_of_the_reference_tile_and_its_spill_the_worst_of_the_ladders_problems() -> None:
    name = "exp2_softmax"
    reference = techniques.reference_tile(techniques.get(name), 128)
    found = [code(name, Tile(128, 32, 1, 8), 4000), code(name, reference, 8), code(name, reference, 72, causal=True)]
    (item,) = resources.usage([dataset([synthetic.ENVIRONMENT, *found])], [techniques.get(name)])
    assert item.codes["cuda"]["code"]["spill_bytes"] == 8
    assert item.spilled["cuda"]["code"]["spill_bytes"] == 72


def test_spills_of_every_build_are_told_with_their_range() -> None:
    name = "exp2_softmax"
    reference = techniques.reference_tile(techniques.get(name), 128)
    rows = [code(name, reference, 8), code(name, reference, 24, dtype="fp16"), code(name, Tile(128, 32, 1, 8), 4000)]
    rows.append(code(name, reference, 0, head_dim=64))
    first, second = spills([dataset([synthetic.ENVIRONMENT, *rows])], techniques.get(name))
    assert (first.reference, first.least, first.most) == (True, 8, 24)
    assert (second.tile, second.most, second.reference) == ("128x32-s1-w8", 4000, False)


def test_both_orders_of_blocks_stand_side_by_side() -> None:
    assert resources.L2_ORDERS == hardware_counters.L2_ORDERS
    rows = []
    for name, rate in zip(resources.L2_ORDERS, (60.0, 88.0), strict=True):
        row = code(name, Tile(64, 64), 0) | {"kind": "counters", "experiment": "ncu", "on": "gpu"}
        metrics = {counters.HIT_RATE: rate, counters.DRAM_READ: 1e6 * rate}
        rows += [row | {"details": {"metrics": metrics}}]
    (one,) = resources.hit_rates([dataset([synthetic.ENVIRONMENT, *rows])])
    assert (one.problem, one.tile, one.rates, one.read) == (FULL, "64x64-s1-w4", (60.0, 88.0), (60e6, 88e6))
    assert resources.hit_rates([dataset([synthetic.ENVIRONMENT, rows[0]])]) == []


def test_racecheck_does_not_see_what_tma_writes() -> None:
    def seen(name: str, tool: str) -> bool:
        return correctness.Sanitized([{"technique": name, "tool": tool}], earlier=False).sees_all

    assert not seen("tma_loads", "racecheck")
    assert not seen("flagship", "racecheck")
    assert seen("tma_loads", "memcheck")
    assert seen("scalar", "racecheck")


@pytest.mark.parametrize("name", ["ladder", "tune", "ncu", "sanitizer", "sanitizer_planted", "inspect", "memory"])
def test_every_page_of_rows_opens_with_a_question(name: str) -> None:
    assert question(name).split("\n")[0].endswith("?")
    assert "assembler" in question("ladder_shared_ptxas")
    assert question("no_such_run") == ""


def test_holes_of_one_reason_stand_together() -> None:
    base = {"kind": "timing", "backend": "cuda", "problem": FULL.to_dict(), "mode": "burst", "samples_ms": [2.0]}
    row = {**base, "status": "not_converged", "reason": "relative error of the median 2.34% after 12 samples"}
    rows = [{**row, "technique": name} for name in ("scalar", "wmma")]
    rows.append({**row, "technique": "scalar", "status": "wrong", "check": "finite", "reason": "NaN"})
    together, alone = group_holes(rows)
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
    holes = [len(dataset([*rows, *more]).holes()) for more in ([], [before], [after])]
    assert holes == [holes[0], holes[0], holes[0] + 1]


def test_an_earlier_version_that_the_gate_found_wrong_is_told_as_such() -> None:
    rows, technique = synthetic.rows(), techniques.get("cp_async_pipeline")
    for row in rows:
        if (row.get("technique"), row.get("backend"), row["kind"]) == (technique.name, "cuda", "timing"):
            row["source_sha256"] = "0"
    earlier = "In CUDA only an earlier version was measured"
    assert verdict(dataset(rows), "ladder", technique).sentence.startswith(f"{earlier};")
    (timing, *_) = causal_timings(rows, "cuda", technique.name)
    gate = {**timing, "kind": "gate", "status": "wrong", "check": "max_error", "mode": None}
    of_another = {**gate, "source_sha256": "1", "problem": FULL.to_dict()}
    told = verdict(dataset([*rows, gate, of_another]), "ladder", technique).sentence
    assert told.startswith(f"{earlier}, which the gate found wrong on 1 problem;")


@pytest.mark.parametrize(
    ("name", "grade", "words"),
    [
        ("xor_swizzle", "hint", "Triton leaves the layout of shared memory to its compiler, so it runs"),
        ("padded_rows", "hatch", "Triton has only an escape hatch for padded shared memory, so it runs"),
        ("tma_swizzle", "hint", "Triton leaves the layout of shared memory to its compiler, so it runs"),
    ],
)
def test_what_is_missing_is_said_as_the_matrix_grades_it(name: str, grade: str, words: str) -> None:
    found = verdict(dataset(synthetic.rows()), "ladder", techniques.get(name))
    assert found.languages["triton"].grade == grade
    assert words in found.sentence


REPEATED = [one for one in TECHNIQUES if sources.same_program(one.path, "triton")]


@pytest.mark.parametrize("technique", REPEATED, ids=lambda one: one.name)
def test_a_re_export_says_who_decides_as_the_matrix_grades_it(technique: Technique) -> None:
    """Core Triton "leaves" a hint and what is automatic to the compiler, and "cannot express" a hatch or less. What it
    expresses in full has neither phrase, nor have two kernels whose missing pieces are several."""
    grades = {claim.grade for claim in CLAIMS if claim.cell == (technique.name, "triton")}
    assert grades, f"{technique.name}: no claim about core Triton, expected one in harness/operators/attention/claims"
    text = sources.kernel_file("triton", technique.path).read_text()
    said = [verb for verb in ("cannot express", "leaves") if f"Core Triton {verb} " in " ".join(text.split())]
    if grades == {"direct"} or technique.name in ("flagship", "wide_tile"):
        assert said == []
    else:
        assert said == ["leaves" if grades <= {"hint", "automatic"} else "cannot express"]
        assert lacking(technique, "triton"), "what follows ends in a colon, or in `to the compiler`"


def test_a_step_that_gives_back_what_its_parent_lost_is_told_as_such() -> None:
    """direct_rescale is made slow on purpose; what comes after it is as fast as what was before, times 1.05."""
    names = ("register_softmax", "direct_rescale", "xor_swizzle")
    rows = synthetic.rows()
    speeds = dict(zip(names, (1.0, 0.2, 1.05), strict=True))
    for row in {id(row): row for row in rows}.values():
        if row.get("samples_ms") and row["backend"] == "cuda" and row.get("technique") in names:
            row["samples_ms"] = [1 / speeds[row["technique"]] for _ in row["samples_ms"]]
    told = verdict(dataset(rows), "ladder", techniques.get("xor_swizzle"))
    assert told.crippled
    lost, together = told.crippled
    assert (lost.value, together.value) == (pytest.approx(0.2), pytest.approx(1.05))
    assert "at 0.20× the speed of “Scores stay in registers” in CUDA" in told.sentence
    assert "both steps together give 1.05× the speed of that kernel." in told.sentence
    assert told.caveat("cuda") == "over a parent that is slow on purpose; both steps 1.05×"
    assert told.caveat("triton") == ""
    whole = verdict(dataset(synthetic.rows()), "ladder", techniques.get("xor_swizzle"))
    assert (whole.crippled, whole.caveat("cuda")) == (None, "")
    listed = rendered("techniques.html", overview.techniques_page(dataset(rows), {}))
    assert listed.count("slow on purpose") == 1


@pytest.mark.parametrize(("spilled", "caveat"), [(4488, "over a parent that spills 4.5 kB a thread"), (100, "")])
def test_a_gain_over_a_parent_that_spills_says_so(spilled: int, caveat: str) -> None:
    parent = techniques.get("direct_rescale")
    rows = [*synthetic.rows(), code(parent.name, techniques.reference_tile(parent, 128), spilled)]
    told = verdict(dataset(rows), "ladder", techniques.get("xor_swizzle"))
    assert told.caveat("cuda") == caveat
    assert ("spills" in told.sentence) == bool(caveat)
