"""The page about a user's kernel: which rung its machine code resembles, and its speed beside the ladder."""

import shutil
from pathlib import Path

import pytest

from cuda_kernels import toolchain
from harness.catalog import own, techniques
from harness.catalog.cases import Case
from harness.catalog.sources import ROOT, kernel_file
from harness.cli import own_page
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports import build
from reports.facts import resemblance
from reports.pages import own as page

pytestmark = pytest.mark.slow

RECORDED = ROOT / "reports" / "recorded"


@pytest.fixture(scope="module")
def recorded() -> list[dict]:
    """Of timings those of one problem: each search for the next technique makes a table of all of them."""
    problem = Problem.square(4, 16, 4096, 128).to_dict()
    return [
        row
        for row in page.recorded_rows(RECORDED, "h200")
        if row["kind"] == "counters"
        or (row["kind"] == "gate" and row.get("code"))
        or (row["kind"] == "timing" and row.get("problem") == problem)
    ]


def gate(recorded: list[dict], technique: str, backend: str = "cuda") -> dict:
    return next(
        row
        for row in recorded
        if (row["kind"], row.get("technique"), row["backend"]) == ("gate", technique, backend)
        and (row.get("code") or {}).get("census")
        and row["tile"]
        == techniques.reference_tile(reading.technique_of(row), reading.problem_of(row).tile_key).to_dict()
    )


def as_own(row: dict) -> dict:
    mine = {**row, "backend": "own", "kernel": "mine.cu"}
    del mine["technique"]
    return mine


@pytest.mark.parametrize(
    "technique", ["scalar", "xor_swizzle", "tma_loads", "setmaxnreg_consumers", "wgmma", "pingpong"]
)
def test_a_kernel_resembles_the_rung_that_it_is(recorded: list[dict], technique: str) -> None:
    row = gate(recorded, technique)
    found = resemblance.nearest(as_own(row), recorded)
    assert found.row["code"]["census"] == row["code"]["census"]
    assert (found.lacks, found.adds) == ((), ())


def test_features_part_kernels_before_counts_do(recorded: list[dict]) -> None:
    """Without TMA, a kernel of the tma ladder's counts resembles one that has none either."""
    row = gate(recorded, "setmaxnreg_consumers")
    assert {"mma.sync", "TMA loads", "setmaxnreg"} <= set(resemblance.features(row))
    census = {name: n for name, n in row["code"]["census"].items() if not name.startswith(("UTMA", "SYNCS", "USETMAX"))}
    mine = as_own({**row, "code": {**row["code"], "census": census}})
    found = resemblance.nearest(mine, recorded)
    assert found.technique.ladder == "ampere"


def test_the_next_technique_builds_on_the_one_it_resembles(recorded: list[dict]) -> None:
    found = resemblance.nearest(as_own(gate(recorded, "ldmatrix_x4")), recorded)
    assert found.technique.name in found.then.builds_on
    assert resemblance.nearest(as_own(gate(recorded, "scalar")), []) is None


def test_what_the_kernel_has_already_is_not_next(recorded: list[dict]) -> None:
    row = as_own(gate(recorded, "direct_rescale"))
    cures = ("padded_rows", "xor_swizzle")
    for conflicts, expected in ((7, True), (0, False)):
        found = resemblance.nearest({**row, "details": {"totals": {"bank_conflicts": conflicts}}}, recorded)
        assert found.technique.name == "direct_rescale"
        assert (found.then.name in cures) == expected


def test_a_technique_whose_program_the_kernel_is_is_not_next(recorded: list[dict]) -> None:
    row = gate(recorded, "general_shapes")
    child = {**row, "technique": "lean_instructions"}
    others = [other for other in recorded if other.get("technique") != "lean_instructions"]
    found = resemblance.nearest(as_own(row), [*others, child])
    assert found.technique.name == "general_shapes"
    assert found.then.builds_on[0] == "lean_instructions"


@pytest.mark.parametrize("technique", ["general_shapes", "exp2_softmax", "lazy_consumers", "pingpong"])
def test_at_another_tile_counts_are_compared_for_each_product(recorded: list[dict], technique: str) -> None:
    """A tile three times as large has three times the products, and three times the rest."""
    row = gate(recorded, technique)
    census = {name: 3 * count for name, count in row["code"]["census"].items()}
    tile = {**row["tile"], "block_m": 3 * row["tile"]["block_m"]}
    found = resemblance.nearest(as_own({**row, "tile": tile, "code": {**row["code"], "census": census}}), recorded)
    assert found.technique.name == technique


def test_rungs_at_the_tile_of_the_kernel_are_compared_first(recorded: list[dict]) -> None:
    row = gate(recorded, "conditional_rescale")
    tile = {**row["tile"], "block_m": 3 * row["tile"]["block_m"]}
    there = {**gate(recorded, "exp2_softmax"), "tile": tile, "problem": row["problem"], "kind": "code"}
    mine = as_own({**row, "tile": tile, "code": {**row["code"], "sass_sha256": "0" * 64}})
    found = resemblance.nearest(mine, [*recorded, there])
    assert found.row is there


def test_candidates_use_what_the_kernel_uses(recorded: list[dict]) -> None:
    names = {technique.name for technique in resemblance.candidates(as_own(gate(recorded, "general_shapes")), recorded)}
    assert {"cp_async_pipeline", "longest_first", "general_shapes", "lean_instructions"} <= names
    assert not {"scalar", "xor_swizzle", "tma_loads", "wgmma"} & names


OTHER = "lean_instructions"


@pytest.mark.skipif(toolchain.find(toolchain.homes()) is None, reason="there is no nvcc")
def test_a_copy_of_a_rung_resembles_it_at_the_default_tile(recorded: list[dict], tmp_path: Path) -> None:
    """Where most of them have no recorded row: they are compiled there. Of the candidates two are enough, because one
    that is the same program comes first."""
    problem, tile = (
        Problem.square(4, 16, 4096, 64, causal=True),
        techniques.reference_tile(techniques.TECHNIQUES[0], 64),
    )
    copy = tmp_path / "mine.cu"
    shutil.copy(kernel_file("cuda", techniques.get("general_shapes").path), copy)
    first = own_page.compiled(Case("check", None, own.BACKEND, problem, tile, own.Kernel(copy, None)))
    candidates = [one for one in resemblance.candidates(first, recorded) if one.name in ("general_shapes", OTHER)]
    rungs = own_page.rungs(first, candidates)
    other = next(as_own(row) for row in rungs if row["technique"] == OTHER)
    for name, code in {"general_shapes": first, OTHER: other}.items():
        found = resemblance.nearest(code, [*recorded, *rungs])
        assert found.then is not None
        assert found.technique.name == name
        assert found.row["code"]["sass_sha256"] == code["code"]["sass_sha256"]
        assert techniques.parent(found.then) == found.technique
    build.own_page([first], tmp_path / "page.html", [*recorded, *rungs])
    assert f"CUDA at {tile.slug}, compiled beside it) most" in (tmp_path / "page.html").read_text()


def test_of_rungs_with_one_program_the_earlier_is_named(recorded: list[dict]) -> None:
    row = gate(recorded, "xor_swizzle")
    later = {**row, "technique": "large_tile"}
    found = resemblance.nearest(as_own(row), [later, row])
    assert found.technique.name == "xor_swizzle"


def test_bank_conflicts_tell_a_swizzle_from_none(recorded: list[dict]) -> None:
    row = as_own(gate(recorded, "xor_swizzle"))
    assert resemblance.SWIZZLE in resemblance.features({**row, "details": {"totals": {"bank_conflicts": 0}}})
    assert resemblance.SWIZZLE not in resemblance.features({**row, "details": {"totals": {"bank_conflicts": 7}}})
    assert resemblance.SWIZZLE not in resemblance.features(row)


def test_the_page_shows_speed_error_and_code(recorded: list[dict], tmp_path: Path) -> None:
    timing = next(row for row in recorded if row["kind"] == "timing" and row.get("technique") == "xor_swizzle")
    slow = as_own({**timing, "samples_ms": [1000.0], "details": {"label": "no LSE"}})
    peer = next(row for row in recorded if row["kind"] == "timing" and row["backend"] == "sdpa_cudnn")
    peer = {**peer, "problem": timing["problem"], "samples_ms": [1.0]}
    code = as_own(gate(recorded, "xor_swizzle"))
    failed = {**code, "status": "wrong", "reason": "<b> is off", "numerics": {"normal": {"max_abs": None}}}
    target = tmp_path / "page.html"
    backward = {**timing, "operator": "attention_backward", "technique": "paired_tiles", "samples_ms": [1e-6]}
    build.own_page([slow, peer, code, failed], target, [*recorded, backward])
    said = target.read_text()
    assert "mine.cu beside the ladder" in said
    assert "Two tiles a multiprocessor" not in said, "gradients of a problem with the same fields"
    assert said.index("cuDNN") < said.index(", no LSE"), "the fastest first"
    assert "recorded" in said
    assert "wrong: &lt;b&gt; is off" in said
    assert "not finite" in said
    assert "<code>xor_swizzle</code>" in said
    assert "Next to try: <strong>" in said


def test_the_page_says_where_code_of_another_tile_is_compared(recorded: list[dict], tmp_path: Path) -> None:
    row = gate(recorded, "xor_swizzle")
    tile = reading.tile_slug(row)
    for mine, hint in ((row["tile"], False), (row["tile"] | {"block_n": 16}, True)):
        build.own_page([as_own({**row, "tile": mine})], tmp_path / "page.html", recorded)
        said = (tmp_path / "page.html").read_text()
        assert f"CUDA at {tile}) most" in said
        assert (f"<code>--tile {tile}</code> compares at its tile" in said) == hint
        assert (f"Yours is built for {reading.tile_slug({'tile': mine})}" in said) == hint


def test_the_page_says_why_a_kernel_has_no_machine_code(tmp_path: Path, recorded: list[dict]) -> None:
    row = as_own(gate(recorded, "xor_swizzle"))
    del row["code"]
    failed = {**row, "kind": "code", "status": "compile_error", "reason": "mine.cu does not build: error: <FILENAME>"}
    build.own_page([row, failed], tmp_path / "page.html", recorded)
    said = (tmp_path / "page.html").read_text()
    assert "None was read: mine.cu does not build: error: &lt;FILENAME&gt;. <code>twinkernels doctor" in said
    build.own_page([row], tmp_path / "page.html", recorded)
    assert "None was read: the kernel was not compiled for a GPU." in (tmp_path / "page.html").read_text()


def test_without_times_and_code_the_page_says_why(tmp_path: Path, recorded: list[dict]) -> None:
    row = as_own(gate(recorded, "xor_swizzle"))
    del row["code"]
    build.own_page([{**row, "kernel": "mine.py:attend"}], tmp_path / "page.html", recorded)
    said = (tmp_path / "page.html").read_text()
    assert "only on a GPU" in said
    assert "None was read: of a Python function it is read only on a GPU" in said
