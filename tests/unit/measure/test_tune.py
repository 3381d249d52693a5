"""Tuning tries every tile of the grid, keeps the fastest that is right, and says how many it tried."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import techniques, tiles
from harness.catalog.entries import Limit, Technique, Tile
from harness.machine import environment
from harness.measure import tune
from harness.measure.worker import Deadlines
from harness.operators.attention.problem import Problem
from harness.operators.gemm.problem import Problem as Product
from harness.rows import results
from tests.support import fake_kernels
from tests.support.here import work_here

pytestmark = pytest.mark.slow

PROBLEM = Problem(1, 2, 1, 64, 64, 64, "fp16", True)
GRID = (Tile(16, 16), Tile(16, 32), Tile(16, 64))
PACES = tuple(Tile(16, milliseconds) for milliseconds in (400, 40, 80, 20, 300, 60))
TOO_SMALL = Limit("cuda", "block_n must be 32 or more", lambda problem, tile: tile.block_n < 32)


def row(tile: Tile, milliseconds: float | None, problem: Any = PROBLEM, **fields: Any) -> dict[str, Any]:
    status = {"status": "passed", "samples_ms": [milliseconds]} if milliseconds else {"status": "wrong", "reason": "x"}
    cell = {"technique": "scalar", "backend": "cuda", "problem": problem.to_dict(), "tile": tile.to_dict()}
    return {"kind": "tune", "time": "1", **cell, **status, **fields}


def test_the_fastest_tile_that_is_right_wins() -> None:
    wrong = row(GRID[1], 1.0, status="wrong", reason="last timed output")
    rows = [row(GRID[0], 3.0), wrong, row(GRID[2], 2.0), row(GRID[0], 1.0, backend="triton")]
    assert tune.of_lengths(tune.fastest(rows, "run"), []) == [
        tiles.Selection("scalar", "cuda", "d64-causal", GRID[2], 3, "run"),
        tiles.Selection("scalar", "triton", "d64-causal", GRID[0], 1, "run"),
    ]
    assert tune.fastest([row(GRID[0], None)], "run") == []


def test_problems_of_one_cell_share_a_tile() -> None:
    longer = Problem(1, 2, 1, 128, 128, 64, "fp16", True)
    rows = [row(GRID[0], 1.0), row(GRID[0], 9.0, longer), row(GRID[1], 2.0), row(GRID[1], 5.0, longer)]
    (selection,) = tune.of_lengths(tune.fastest([*rows, row(GRID[2], 0.5)], "run"), [])
    assert (selection.tile, selection.tried) == (GRID[1], 3)


def test_a_shape_has_its_tile_and_a_wider_cell_one_that_was_timed_on_all_its_problems() -> None:
    square, flat, deep = Product(4096, 4096, 4096), Product(4096, 4096, 512), Product(1024, 1024, 32_768)
    times = {square: (1.0, 2.0), flat: (2.0, None), deep: (None, 3.0)}
    gemm = {"operator": "gemm", "technique": "flagship"}
    rows = [
        row(tile, ms, problem, **gemm) for problem, both in times.items() for tile, ms in zip(GRID, both, strict=False)
    ]
    found = {one.cell: one.tile for one in tune.of_lengths(tune.fastest(rows, "run"), [])}
    shapes = {square.cells[0]: GRID[0], flat.cells[0]: GRID[0], deep.cells[0]: GRID[1]}
    assert found == {**shapes, "many_waves": GRID[0], "one_wave": GRID[1]}, "none was timed on all three"


def test_lengths_of_several_classes_get_tiles_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, middle, long = (Problem(1, 2, 1, n, n, 64, "fp16", True) for n in (1024, 4096, 16_384))
    rows = [row(GRID[0], 1.0, short), row(GRID[0], 7.0, long), row(GRID[1], 2.0, short), row(GRID[1], 5.0, long)]
    found = tune.of_lengths(tune.fastest(rows, "run"), [])
    cells = {"d64-causal": GRID[1], "d64-causal-long": GRID[1], "d64-causal-short": GRID[0]}
    assert {one.cell: one.tile for one in found} == cells
    tiles.update(tmp_path / "h200.toml", found)
    monkeypatch.setattr(tiles, "folder", lambda operator: tmp_path)
    chosen = [tiles.best_tile("scalar", "cuda", problem, "h200") for problem in (short, middle, long)]
    assert chosen == [GRID[0], GRID[1], GRID[1]]
    # A run of one class replaces that class where there is one, else the entry for all.
    for problem, cell in ((short, "d64-causal-short"), (middle, "d64-causal")):
        again = tune.of_lengths(tune.fastest([row(GRID[2], 1.0, problem)], "again"), found)
        assert [(one.cell, one.tile) for one in again] == [(cell, GRID[2])]


def test_the_table_reads_back_keeps_other_cells_and_is_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h200.toml"
    lever = Tile(64, 128, 2, 8, (("num_ctas", 2),))
    first = tiles.Selection("xor_swizzle", "triton", "d128-full", lever, 12, "a-tune")
    second = tiles.Selection("scalar", "cuda", "d64-causal", GRID[0], 3, "b-tune")
    tiles.update(path, [first])
    tiles.update(path, [second])
    assert tiles.read(path) == [second, first]
    newer = tiles.Selection("scalar", "cuda", "d64-causal", GRID[1], 4, "c-tune")
    tiles.update(path, [newer])
    assert tiles.read(path) == [newer, first]
    assert path.read_text() == (
        "# The fastest tiles on h200, selected by `twinkernels tune`.\n"
        "\n[scalar.cuda]\n"
        'd64-causal = { block_m = 16, block_n = 32, stages = 1, warps = 4, tried = 4, run = "c-tune" }\n'
        "\n[xor_swizzle.triton]\n"
        "d128-full = { block_m = 64, block_n = 128, stages = 2, warps = 8, extra = { num_ctas = 2 }, "
        'tried = 12, run = "a-tune" }\n'
    )
    monkeypatch.setattr(tiles, "folder", lambda operator: tmp_path)
    assert tiles.best_tile("scalar", "cuda", PROBLEM, "h200") == GRID[1]
    assert tiles.best_tile("scalar", "triton", PROBLEM, "h200") is None
    assert tiles.best_tile("scalar", "cuda", PROBLEM, "a100") is None
    assert tiles.best_tile("scalar", "cuda", PROBLEM, None) is None


def test_a_tile_of_its_own_comes_before_that_of_the_series_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h200.toml"
    gluon = [
        tiles.Selection("scalar", "gluon", cell, GRID[0], 3, "a-tune") for cell in ("d64-causal", "d64-causal-short")
    ]
    own = tiles.Selection("scalar", "tlx@3.8.0", "d64-causal", GRID[1], 3, "b-tune")
    tiles.update(path, gluon)
    monkeypatch.setattr(tiles, "folder", lambda operator: tmp_path)
    others = ("gluon", "gluon@3.9.0", "tlx@3.8.0")
    assert [tiles.best_tile("scalar", backend, PROBLEM, "h200") for backend in others] == [GRID[0]] * 3
    tiles.update(path, [own])
    assert tiles.read(path) == [*gluon, own]
    assert '[scalar."tlx@3.8.0"]' in path.read_text()
    assert [tiles.best_tile("scalar", backend, PROBLEM, "h200") for backend in others] == [GRID[0], GRID[0], GRID[1]]


def test_several_processes_may_write_one_table(tmp_path: Path) -> None:
    path = tmp_path / "h200.toml"
    script = f"""
from pathlib import Path
import sys
from harness.catalog import tiles
for number in range(20):
    tile = tiles.Tile(16, 16)
    tiles.update(Path({str(path)!r}), [tiles.Selection(f"t{{sys.argv[1]}}", "cuda", f"d{{number}}-full", tile, 1, "x")])
"""
    processes = [subprocess.Popen([sys.executable, "-c", script, str(number)]) for number in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(tiles.read(path)) == 4 * 20


FAKE: dict[str, Any] = {
    "on": "cpu",
    "modes": ("burst",),
    "loader": "tests.support.fake_kernels",
    "deadlines": Deadlines(600, 600, 600, 600),
    "timing": {"target": 10.0, "limit": 10.0, "max_seconds": 60.0},
}
"""Options of runner.run for fake kernels."""


def tuned(names: tuple[str, ...], path: Path, **options: Any) -> Path | None:
    """The table, beside the rows, of the fake kernels of these names."""
    tune.tune(names, ("cuda",), (PROBLEM,), path, **FAKE, **options)
    return tune.select(path, (PROBLEM,), folder=path.parent, same_program=fake_kernels.same_program)


@pytest.fixture
def fakes() -> Iterator[None]:
    def technique(name: str, first: Tile, **fields: Any) -> Technique:
        return Technique(name, "a fake", operator="attention", mma="fma", tile={64: first}, **fields)

    fake = (
        technique("right", GRID[0], grid={"cuda": GRID}),
        technique("declines", GRID[0], grid={"cuda": GRID[:1]}),
        technique("paced", PACES[0], grid={"cuda": PACES}),
        technique("paced_again", PACES[0], grid={"cuda": PACES}),
        technique("paced_once_more", PACES[0], limits=(TOO_SMALL,)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(techniques, "TECHNIQUES", (*techniques.TECHNIQUES, *fake))
        described = environment.describe([]) | {"gpu": {"name": "NVIDIA H200", "capability": [9, 0]}}
        patch.setattr(environment, "describe", lambda: described)
        yield


@pytest.fixture
def here(fakes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    work_here(monkeypatch)


def test_a_tile_near_the_fastest_is_timed_too(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "NEAR", 5.0)
    tuned(("paced",), tmp_path / "tune.jsonl")
    timed = [row for row in results.read(tmp_path / "tune.jsonl") if row.get("samples_ms")]
    assert sorted(row["tile"]["block_n"] for row in timed) == [20, 40, 60, 80]


def test_the_fastest_samples_are_timed_and_same_programs_inherit(here: None, tmp_path: Path) -> None:
    names = ("paced", "paced_again", "right")  # paced_once_more runs the program too, and declines the tile
    path = tmp_path / "tune.jsonl"
    table = tuned(names, path)
    assert table is not None
    rows = [row for row in results.read(path) if row.get("technique") == "paced"]
    assert {row.get("technique") for row in results.read(path)[1:]} == {"paced", "right"}, "same programs are not tuned"
    timed = [row for row in rows if row.get("samples_ms")]
    assert sorted(row["tile"]["block_n"] for row in timed) == [20, 40, 60]
    assert len({row["group"] for row in timed}) == 1, "rivals are interleaved with each other"
    screened = [row for row in rows if row not in timed]
    assert sorted(row["tile"]["block_n"] for row in screened) == [80, 300, 400]
    assert {(row["purpose"], row["status"], row["details"]["screened"]) for row in screened} == {
        ("tune", "not_converged", "slower in 4 launches than 3 others")
    }
    assert all(row["details"]["launch_ms"] > row["tile"]["block_n"] for row in screened)
    chosen = {one.technique: (one.tile.block_n, one.tried) for one in tiles.read(table)}
    assert chosen == {"paced": (20, 6), "paced_again": (20, 6), "right": (chosen["right"][0], 3)}
    again = len(results.read(path))
    tuned(names, path, resume=True)
    assert len(results.read(path)) == again + 1


def test_each_cell_gives_one_row(fakes: None, tmp_path: Path) -> None:
    names, path = ("right", "declines"), tmp_path / "tune.jsonl"
    assert tuned(names, path) == tmp_path / "h200.toml"
    rows = [row for row in results.read(path) if row["kind"] != "environment"]
    assert {row["purpose"] for row in rows} == {"tune"}
    outcomes = [(row["technique"], Tile.from_dict(row["tile"]), row["status"]) for row in rows]
    assert sorted(outcomes) == [("declines", GRID[0], "unsupported"), *(("right", tile, "passed") for tile in GRID)]
    (selection,) = tiles.read(tmp_path / "h200.toml")
    assert (selection.technique, selection.tried, selection.run) == ("right", 3, "tune")
    assert tuned(names, path, resume=True) == tmp_path / "h200.toml"
    assert len(results.read(path)) == len(rows) + 2


def test_a_fast_tile_that_is_wrong_leaves_its_place_to_another(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WRONG", "20,40")
    table = tuned(("paced",), tmp_path / "tune.jsonl")
    rows = [row for row in results.read(tmp_path / "tune.jsonl") if row.get("technique") == "paced"]
    assert sorted(row["tile"]["block_n"] for row in rows if row["status"] == "wrong") == [20, 40]
    assert sorted(row["tile"]["block_n"] for row in rows if row.get("samples_ms")) == [60, 80, 300]
    assert table is not None
    assert {one.tile.block_n for one in tiles.read(table) if one.technique == "paced"} == {60}
