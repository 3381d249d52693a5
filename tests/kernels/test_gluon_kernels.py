"""Gluon kernels: each is a small step from its parent, and of the ampere ladder the layouts that they state are what is
compiled. What becomes of the tma ladder is test_gluon_tma.py's, of warpgroups test_gluon_warpgroups.py's.

They need a GPU to run: the gates of `correctness` judge them there, and their rows stand with all others.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from harness import build
from harness.catalog import sources, techniques
from harness.catalog.cases import of_experiment, of_grids
from harness.catalog.entries import Experiment, Technique, Tile
from harness.inspection import survey
from harness.operators.attention.problem import Problem
from tests.support import gluon
from tests.support.programs import changed_lines, normalized

STATED = [technique for technique in techniques.TECHNIQUES if sources.has_series("gluon", technique.path)]
REPEATED = [one for one in STATED if sources.same_program(one.path, "gluon")]
OWN = [one for one in STATED if one not in REPEATED]
NAMES = [one.name for one in OWN if one.ladder == "ampere"]
PROBLEM, TILE = Problem(2, 4, 2, 256, 256, 64, "bf16", True), Tile(64, 64)
LONGEST_STEP = {"ampere": 40, "tma": 150, "hopper": 200}


def ttgir(name: str, arch: str = "sm_90a") -> str:
    return gluon.compiled(name, PROBLEM, TILE, arch).asm["ttgir"]


def census(name: str, arch: str = "sm_90a") -> dict[str, int]:
    return gluon.code(name, PROBLEM, TILE, arch)["census"]


def before(technique: Technique) -> Technique | None:
    """The program of the same ladder that it builds on."""
    for name in technique.builds_on:
        parent = techniques.get(name)
        if parent in STATED and parent.ladder == technique.ladder:
            return techniques.get(sources.same_program(parent.path, "gluon") or name)
    return None


def test_every_file_is_a_rung_and_is_its_series() -> None:
    folder = sources.ROOT / "triton_kernels" / "attention" / "gluon"
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("[!_]*.py")}
    assert files == {f"{technique.ladder}/{technique.name}" for technique in STATED}
    scalar = techniques.get("scalar")
    assert not sources.has_series("gluon", scalar.path)
    assert all(sources.has_series(twin, scalar.path) for twin in techniques.TWINS)


def test_only_what_is_stated_is_asked_for() -> None:
    names = ("scalar", "xor_swizzle")
    experiment = Experiment(name="ladder", problems=(PROBLEM,), techniques=names, backends=techniques.SERIES, peers=())
    asked = [(case.technique, case.backend) for case in of_experiment(experiment)]
    assert ("xor_swizzle", "gluon") in asked
    assert ("scalar", "gluon") not in asked
    assert ("scalar", "triton_native") in asked
    read = [case.technique for case, _ in survey.cells(names, ("gluon",), [PROBLEM], ("sm_90a",))]
    assert read == ["xor_swizzle"]
    assert {case.technique for case in of_grids(names, ("gluon",), [PROBLEM])} == {"xor_swizzle"}


@pytest.mark.parametrize("technique", OWN, ids=lambda technique: technique.name)
def test_the_step_from_the_parent_is_small(technique: Technique) -> None:
    """The three layouts of shared memory differ in one line of code."""
    parent = before(technique)
    if parent is None:
        assert technique == next(one for one in STATED if one.ladder == technique.ladder)
        return
    changed = changed_lines(parent, technique)
    assert 2 <= changed < LONGEST_STEP[technique.ladder]
    assert changed == 2 or technique.name not in NAMES or technique.name == "cp_async_pipeline"


@pytest.mark.parametrize("name", NAMES)
def test_no_program_is_secretly_an_earlier_one(name: str) -> None:
    earlier = NAMES[: NAMES.index(name)]
    assert [other for other in earlier if normalized(ttgir(other)) == normalized(ttgir(name))] == []


def test_a_renamed_copy_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sources.kernel_file("gluon", "attention/ampere/xor_swizzle").read_text()
    (tmp_path / "gluon_copy.py").write_text(
        source.replace("xor_swizzle", "another_name").replace("new_max", "larger_max")
    )
    monkeypatch.syspath_prepend(tmp_path)
    copy = importlib.import_module("gluon_copy").twin.specialize(PROBLEM, None, TILE, "sm_90a").compile()
    assert normalized(copy.asm["ttgir"]) == normalized(ttgir("xor_swizzle"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_the_layout_that_is_stated_is_the_one_that_is_compiled(arch: str) -> None:
    layouts = {
        "direct_rescale": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 1,",
        "padded_rows": "padded_shared<[64:+8]",
        "xor_swizzle": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8,",
        "cp_async_pipeline": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8,",
    }
    assert set(layouts) == set(NAMES)
    for name, layout in layouts.items():
        assert layout in ttgir(name, arch), name
        assert census(name, arch)["HMMA"] > 0


def test_ldmatrix_is_derived_from_swizzled_layouts_alone() -> None:
    """With bank conflicts or without them: one number of the layout. From a padded one it is not derived."""
    straight, swizzled, padded = (census(name) for name in ("direct_rescale", "xor_swizzle", "padded_rows"))
    assert straight["LDSM"] == swizzled["LDSM"] > 0
    assert straight["LDSM.T"] == swizzled["LDSM.T"] > 0
    assert not padded["LDSM"]
    assert not padded["LDSM.T"]
    assert padded["LDS.16"] > 0


def test_copies_run_under_the_products_with_one_buffer_of_each() -> None:
    """Two waits a step, each for all that is in flight, and a barrier behind each; core Triton issues K after P V."""
    main_loop = ttgir("cp_async_pipeline").partition("scf.for")[2].partition("scf.for")[0]
    steps = [
        name
        for line in main_loop.splitlines()
        for name in ("async_wait", "async_copy_global", "tt.dot")
        if name in line
    ]
    assert steps == ["async_wait", "async_copy_global", "tt.dot", "async_wait", "async_copy_global", "tt.dot"]
    assert census("cp_async_pipeline")["BAR"] == 2 * 2, "two loops, full tiles and the diagonal"
    assert census("cp_async_pipeline")["LDGSTS"] > 0
    assert census("xor_swizzle")["LDGSTS"] == 0


@pytest.mark.parametrize("technique", REPEATED, ids=lambda one: one.name)
def test_a_re_export_says_whose_program_it_is(technique: Technique) -> None:
    program = sources.same_program(technique.path, "gluon")
    assert f"the same program as {program}" in (gluon.module(technique.name).__doc__ or "")


@pytest.mark.parametrize(
    ("tile", "reason"), [(Tile(64, 64, 1, 8), "multiple of 16 * warps"), (Tile(64, 64, 2), "stages must be 1")]
)
def test_a_tile_that_it_cannot_hold_is_declined(tile: Tile, reason: str) -> None:
    found = techniques.unsupported(techniques.get("xor_swizzle"), "gluon", PROBLEM, tile)
    assert found is not None
    assert reason in found


def test_without_a_gpu_it_is_declined_with_the_reason() -> None:
    case = build.Case("test", "xor_swizzle", "gluon", PROBLEM, TILE)
    with pytest.raises(build.Unsupported, match="interpreter does not run Gluon"):
        build.load(case, "cpu")
