"""Every CUDA twin passes the numerics gate on the CPU, whatever the order of its warps.

A pairwise cover of dtype, head_dim, mask, layout, lengths and scheduler seed; the full product under the marker `full`.
`make test` runs every build of a kernel that passed the gate on no GPU as it is now, and twelve of the others, by the
commit. All this is at reference tiles; the flagship passes at the tuned ones too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, cycle, product
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_kernels import cpu_build
from harness.build import Case, Diagnosed, Variant, load
from harness.catalog import sources, techniques
from harness.catalog.entries import Technique, Tile
from harness.catalog.techniques import TECHNIQUES
from harness.measure import gate as gates
from harness.operators.attention import numerics, waves
from harness.operators.attention.api import FLAGSHIP
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem
from tests.support import chosen, cpu_run, proven
from tests.support.cpu_run import in_turn
from tests.support.tuned import tuned

pytestmark = pytest.mark.spread

HEAD_DIMS = (64, 128)
SEEDS = tuple(range(6))
LENGTHS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "more keys": lambda block_m, block_n: (2 * block_m, 3 * block_n),
    "fewer keys": lambda block_m, block_n: (3 * block_m, block_n),  # causal: rows that see no key
    "ragged": lambda block_m, block_n: (block_m + 13, 3 * block_n - 7),
}
"""Tile -> (seq_q, seq_kv)."""


@dataclass(frozen=True)
class Build:
    """What is compiled into a kernel: one library each, and most of the time."""

    technique: str
    dtype: str
    head_dim: int
    causal: bool

    def __str__(self) -> str:
        return f"{self.technique}-{self.dtype}-d{self.head_dim}-{'causal' if self.causal else 'full'}"


@dataclass(frozen=True)
class Cell:
    """What is given to a library at run time. Launches take the seeds in turn, and must give the same bits."""

    layout: str
    lengths: str
    seeds: tuple[int, ...]
    distribution: str


def head_dims(technique: Technique) -> tuple[int, ...]:
    return (*HEAD_DIMS, 256) if technique.general and 256 in technique.tile else HEAD_DIMS


def masks(technique: Technique) -> tuple[bool, ...]:
    """Those that the technique takes."""
    tile = techniques.reference_tile(technique, HEAD_DIMS[0])
    alike = [Problem(1, 1, 1, tile.block_m, tile.block_n, HEAD_DIMS[0], causal=causal) for causal in (False, True)]
    return tuple(one.causal for one in alike if not techniques.unsupported(technique, "cuda", one, tile))


def lengths_of(technique: Technique) -> tuple[str, ...]:
    """Those that the technique takes."""
    return tuple(name for name in LENGTHS if all(not declined(build, name) for build in all_builds(technique)))


def declined(build: Build, lengths: str) -> str | None:
    technique = techniques.get(build.technique)
    tile = techniques.reference_tile(technique, build.head_dim)
    return techniques.unsupported(technique, "cuda", problem_of(build, LAYOUTS[0], lengths), tile)


def levels(technique: Technique) -> tuple[tuple[Any, ...], ...]:
    return DTYPES, head_dims(technique), masks(technique), LAYOUTS, lengths_of(technique), SEEDS


def pairs(runs: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Every two levels that occur together in a run."""
    return {pair for run in runs for pair in combinations(enumerate(run), 2)}


def runs(build: Build, cell: Cell) -> list[tuple[Any, ...]]:
    """One for each scheduler seed, in the order of `levels`."""
    return [(build.dtype, build.head_dim, build.causal, cell.layout, cell.lengths, seed) for seed in cell.seeds]


@cache
def covering(dims: tuple[int, ...], masks: tuple[bool, ...], lengths: tuple[str, ...]) -> list[tuple[Build, Cell]]:
    """Every pair of levels, in few cells of half of the builds (with one mask all): each next cell has the most pairs
    that are missing."""
    builds = [
        Build("", DTYPES[(number + second) % 2], dim, masks[second % len(masks)])
        for number, dim in enumerate(dims)
        for second in range(2)
    ]
    choices = {
        (build, cell): pairs(runs(build, cell))
        for build in builds
        for cell in (Cell(*one, "") for one in product(LAYOUTS, lengths, combinations(SEEDS, 2)))
    }
    missing, chosen = set().union(*choices.values()), []
    while missing:
        best = max(choices, key=lambda choice: len(choices[choice] & missing))
        missing -= choices[best]
        chosen.append(best)
    return chosen


def cover() -> dict[Build, list[Cell]]:
    """Of all techniques; distributions in turn."""
    found: dict[Build, list[Cell]] = {}
    names = cycle(DISTRIBUTIONS)
    for technique in TECHNIQUES:
        for build, cell in covering(head_dims(technique), masks(technique), lengths_of(technique)):
            cells = found.setdefault(replace(build, technique=technique.name), [])
            cells.append(replace(cell, distribution=next(names)))
    return found


def all_builds(technique: Technique) -> list[Build]:
    return [Build(technique.name, *one) for one in product(DTYPES, head_dims(technique), masks(technique))]


def all_cells(technique: Technique) -> list[Cell]:
    return [
        Cell(layout, lengths, SEEDS, name)
        for layout, lengths, name in product(LAYOUTS, lengths_of(technique), DISTRIBUTIONS)
    ]


def problem_of(build: Build, layout: str, lengths: str) -> Problem:
    """Grouped heads: four query heads share two key heads; in two batches two or three share one."""
    tile = techniques.reference_tile(techniques.get(build.technique), build.head_dim)
    seq_q, seq_kv = LENGTHS[lengths](tile.block_m, tile.block_n)
    heads = {"more keys": (1, 4, 2), "fewer keys": (2, 3, 1), "ragged": (2, 2, 1)}[lengths]
    return Problem(*heads, seq_q, seq_kv, build.head_dim, build.dtype, build.causal, layout)


def check_apart(variant: Variant, problem: Problem) -> None:
    """Right where every tensor has row strides of its own: those of the gate's inputs follow from the shape."""
    expected = gates.expect(problem, "normal", 0, "cpu")
    q, k, v, o = cpu_run.apart(expected.sample)
    lse = torch.full(q.shape[:3], torch.nan)
    variant.schedule(0)
    variant.launch({"q": q, "k": k, "v": v, "o": o, "lse": lse}, expected.sample.scalars)
    verdict = numerics.judge(o, lse, expected)
    assert verdict.passed, f"{problem}, row strides of q, k, v, o unlike: {verdict.check}: {verdict.reason}"


def check(build: Build, cells: list[Cell]) -> None:
    technique = techniques.get(build.technique)
    tile = techniques.reference_tile(technique, build.head_dim)
    for cell in cells:
        problem = problem_of(build, cell.layout, cell.lengths)
        variant = load(Case("test", build.technique, "cuda", problem, tile), on="cpu")
        verdict = gates.gate(
            in_turn(variant, cell.seeds),
            problem,
            distributions=(cell.distribution,),
            device="cpu",
            repeats=len(cell.seeds),
            padded=technique.general,
        )
        assert verdict.passed, f"{cell}: {verdict.check}: {verdict.reason}"
    check_apart(variant, problem)
    verdict = numerics.judge(
        *cpu_run.launch_far_apart(build.technique, problem), gates.expect(problem, "normal", 0, "cpu")
    )
    assert verdict.passed, f"{problem}, batches and heads far apart: {verdict.check}: {verdict.reason}"


def quick(builds: Collection[Build]) -> set[Build]:
    """All builds of a kernel that no GPU has passed as it is now, and twelve of the others."""
    unproven = {build for build in builds if not proven.passed(build.technique)}
    return unproven | chosen.by_commit(set(builds) - unproven)


COVER = cover()
QUICK = quick(COVER)


@pytest.mark.parametrize(
    ("build", "cells"),
    [
        pytest.param(build, cells, id=str(build), marks=() if build in QUICK else pytest.mark.full)
        for build, cells in COVER.items()
    ],
)
def test_a_kernel_passes_the_gate_whatever_the_order_of_its_warps(build: Build, cells: list[Cell]) -> None:
    check(build, cells)


@pytest.mark.full
@pytest.mark.timeout(3600)  # 180 runs: a minute of one processor, or more on a busy machine
@pytest.mark.parametrize("build", [build for technique in TECHNIQUES for build in all_builds(technique)], ids=str)
def test_a_kernel_passes_the_gate_on_the_full_product(build: Build) -> None:
    check(build, all_cells(techniques.get(build.technique)))


BUILT = {
    (head_dim, causal, tile) for head_dim, costs in waves.COSTS.items() for causal in (False, True) for tile in costs
}
TILES = sorted({*tuned(), *BUILT})
"""(head_dim, causal, tile) of the tables, and of `harness.flash_attention`."""
QUICK_TILES = chosen.by_commit(TILES, 4) if proven.passed(FLAGSHIP.name) else set(TILES)


@pytest.mark.parametrize(
    ("head_dim", "causal", "tile"),
    [
        pytest.param(
            *one,
            id=f"d{one[0]}-{'causal' if one[1] else 'full'}-{one[2].slug}",
            marks=() if one in QUICK_TILES else pytest.mark.full,
        )
        for one in TILES
    ],
)
def test_the_flagship_passes_the_gate_at_every_tile_in_use(head_dim: int, causal: bool, tile: Tile) -> None:
    """Rings wrap within a tile of queries, and the last tiles of queries and of keys are ragged."""
    seq_q, seq_kv = tile.block_m + 13, (tile.stages + 2) * tile.block_n - 7
    problem = Problem(1, 4, 2, seq_q, seq_kv, head_dim, "bf16", causal, "bshd")
    variant = load(Case("test", FLAGSHIP.name, "cuda", problem, tile), on="cpu")
    verdict = gates.gate(
        in_turn(variant, SEEDS[:2]),
        problem,
        distributions=("normal", "negative_scores"),
        device="cpu",
        repeats=2,
        padded=True,
    )
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"


def test_the_cover_holds_every_pair() -> None:
    """Of all levels, for each technique; nothing in it is declined; and every distribution occurs."""
    cells = [(build, cell) for build, several in cover().items() for cell in several]
    for technique in TECHNIQUES:
        assert set(LENGTHS) - set(lengths_of(technique)) <= (set() if technique.general else {"ragged"})
        found = pairs([run for build, cell in cells if build.technique == technique.name for run in runs(build, cell)])
        for (i, first), (j, second) in combinations(enumerate(levels(technique)), 2):
            assert {((i, a), (j, b)) for a, b in product(first, second)} <= found, technique.name
    assert not [cell for build, cell in cells if declined(build, cell.lengths)]
    assert {cell.distribution for _, cell in cells} == set(DISTRIBUTIONS)


def test_every_build_of_a_kernel_that_changed_is_run_and_twelve_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven, "passed", lambda name: name != "wmma")
    own = {build for build in COVER if build.technique == "wmma"}
    assert own <= quick(COVER)
    assert len(own) > 1
    assert len(quick(COVER) - own) == chosen.COUNT


@pytest.mark.parametrize(
    ("of", "taken_for"), [("o_stride", "q_stride"), ("v_stride", "k_stride"), ("k_stride", "q_stride")]
)
def test_a_row_stride_taken_for_another_is_found(
    of: str, taken_for: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, problem = cpu_run.copied(tmp_path), Problem(2, 2, 2, 64, 64, 64, "fp16")
    path = root / "attention" / "ampere" / "mma_ldmatrix.cu"
    path.write_text(path.read_text().replace(f"{of}.seq", f"{taken_for}.seq"))
    monkeypatch.setattr(cpu_build, "HERE", root)
    variant = load(Case("test", "mma_ldmatrix", "cuda", problem, Tile(64, 64, 1, 4)), on="cpu")
    with pytest.raises((AssertionError, Diagnosed)):
        check_apart(variant, problem)


def test_an_offset_of_32_bits_is_found(tmp_path: Path) -> None:
    """In a process of its own: it writes where nothing is."""
    root, whole = cpu_run.copied(tmp_path), "batch * args.o_stride.batch"
    path = root / "attention" / "attention.cuh"
    path.write_text(path.read_text().replace(whole, f"static_cast<int>({whole})"))
    code = """
from pathlib import Path
from harness.operators.attention.problem import Problem
from tests.support import cpu_run
o, _ = cpu_run.launch_far_apart("mma_ldmatrix", Problem(2, 2, 2, 64, 64, 64, "fp16"), Path({root!r}))
print("whole" if o.isfinite().all() else "not whole")
"""
    for folder, is_whole in ((root, False), (cpu_build.HERE, True)):
        command = [sys.executable, "-c", code.format(root=str(folder))]
        done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True)
        assert (done.stdout == "whole\n") is is_whole, done.stderr


SECTIONED = {"longest_first": ("tile_schedulers", 16), "persistent": ("persistent_tiles", 32)}
"""A technique of each order that takes heads in sections: its header, and the MB that a section's K and V fit into."""


@pytest.mark.parametrize(("heads_in_section", "planted"), [(1, False), (2, False), (4, False), (4, True)])
@pytest.mark.parametrize("technique", SECTIONED)
def test_a_last_smaller_section_of_heads_is_told_from_a_whole_one(
    technique: str, heads_in_section: int, planted: bool, tmp_path: Path
) -> None:
    """In a cache so small that six heads of two batches are sections; a kernel that takes the last one, a smaller one,
    for a whole one is found out."""
    root, problem = cpu_run.copied(tmp_path), Problem(2, 3, 1, 384, 256, 64, "fp16", True)
    header, megabytes = SECTIONED[technique]
    path = root / "attention" / f"{header}.cuh"
    source, fits = path.read_text(), f"L2_BYTES = {megabytes} << 20;"
    assert fits in source
    kv_bytes = problem.seq_kv * problem.head_dim * 2 * 2
    source = source.replace(fits, f"L2_BYTES = {kv_bytes * heads_in_section};")
    if planted:
        assert "rest % here" in source
        source = source.replace("rest % here", "rest % section_heads")
    path.write_text(source)
    result = cpu_run.run(technique, problem, root=root)
    assert bool(result.diagnosis) is planted
    if planted:
        return
    verdict = numerics.judge(result.o, result.lse, gates.expect(problem, "normal", 0, "cpu"))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("slack", "status"), [("2.f", "passed"), ("8.f", "wrong")])
def test_a_rescale_may_be_lazy_by_a_factor_of_four_and_no_more(slack: str, status: str, tmp_path: Path) -> None:
    """Where one key dominates a row its P must not be rounded; with a slack of 2^8 it is, as a GPU showed."""
    root, problem = cpu_run.copied(tmp_path), Problem(2, 4, 4, 512, 512, 64, "fp16", True)
    kernel = root / "attention" / "tma" / "lazy_rescale.cu"
    source = kernel.read_text()
    assert "SLACK = 2.f;" in source
    kernel.write_text(source.replace("SLACK = 2.f;", f"SLACK = {slack};"))
    result = cpu_run.run("lazy_rescale", problem, root=root, distribution="outliers")
    assert result.diagnosis == ""
    assert numerics.judge(result.o, result.lse, gates.expect(problem, "outliers", 0, "cpu")).status == status
