"""Every CUDA twin passes the numerics gate on the CPU, whatever the order of its warps.

Per commit a pairwise cover; the full product under the marker `full`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product
from os import cpu_count

import pytest
import torch

from harness import numerics, techniques, variants
from harness.inputs import DISTRIBUTIONS
from harness.problem import DTYPES, LAYOUTS, Problem
from harness.techniques import TECHNIQUES, Technique

HEAD_DIMS = (64, 128)
SEEDS = range(6)
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
    """What is given to a library at run time."""

    layout: str
    lengths: str
    seed: int
    distribution: str


def head_dims(technique: Technique) -> tuple[int, ...]:
    return (*HEAD_DIMS, 256) if technique.general and 256 in technique.tile else HEAD_DIMS


def covering_builds() -> list[Build]:
    """Every pair of dtype, head_dim and mask, in half of their product."""
    return [
        Build(technique.name, DTYPES[(number + causal) % 2], dim, causal)
        for technique in TECHNIQUES
        for number, dim in enumerate(head_dims(technique))
        for causal in (False, True)
    ]


def all_builds() -> list[Build]:
    return [
        Build(technique.name, dtype, dim, causal)
        for technique in TECHNIQUES
        for dtype, dim, causal in product(DTYPES, head_dims(technique), (False, True))
    ]


def covering_cells(number: int) -> list[Cell]:
    """All lengths and both layouts for each build, and every pair of them in two; seeds and distributions in turn."""
    names = tuple(DISTRIBUTIONS)
    return [
        Cell(LAYOUTS[i % 2], lengths, SEEDS[i % len(SEEDS)], names[i % len(names)])
        for i, lengths in enumerate(LENGTHS, start=number * len(LENGTHS))
    ]


def all_cells() -> list[Cell]:
    return [Cell(*cell) for cell in product(LAYOUTS, LENGTHS, SEEDS, DISTRIBUTIONS)]


def problem_of(build: Build, layout: str, lengths: str) -> Problem:
    """Grouped heads: four query heads share two key heads."""
    tile = techniques.reference_tile(techniques.get(build.technique), build.head_dim)
    seq_q, seq_kv = LENGTHS[lengths](tile.block_m, tile.block_n)
    return Problem(1, 4, 2, seq_q, seq_kv, build.head_dim, build.dtype, build.causal, layout)


def check(build: Build, cells: list[Cell]) -> None:
    technique = techniques.get(build.technique)
    tile = techniques.reference_tile(technique, build.head_dim)
    for cell in cells:
        problem = problem_of(build, cell.layout, cell.lengths)
        if reason := techniques.unsupported(technique, "cuda", problem, tile):
            assert cell.lengths == "ragged", reason
            assert not technique.general, f"{build.technique} is general, but: {reason}"
            continue
        variant = variants.load(variants.Case("test", build.technique, "cuda", problem, tile), on="cpu")
        variant.schedule(cell.seed)
        verdict = numerics.gate(
            variant.launch,
            problem,
            distributions=(cell.distribution,),
            device="cpu",
            repeats=2,
            padded=technique.general,
        )
        assert verdict.passed, f"{cell}: {verdict.check}: {verdict.reason}"


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """The kernels and their compilers have the other processors; tensors this small gain nothing from threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest) -> Iterator[dict[Build, Future[None]]]:
    """Compiles what the selected tests need on all processors, in the order in which they need it."""

    def load(build: Build) -> None:
        technique = techniques.get(build.technique)
        tile = techniques.reference_tile(technique, build.head_dim)
        problem = problem_of(build, LAYOUTS[0], "more keys")
        variants.load(variants.Case("test", build.technique, "cuda", problem, tile), on="cpu")

    selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    builds = dict.fromkeys(params["build"] for params in selected if isinstance(params.get("build"), Build))
    with ThreadPoolExecutor(cpu_count()) as pool:
        yield {build: pool.submit(load, build) for build in builds}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("number", "build"), list(enumerate(covering_builds())), ids=str)
def test_cover(number: int, build: Build, compiled: dict[Build, Future[None]]) -> None:
    compiled[build].result()
    check(build, covering_cells(number))


@pytest.mark.full
@pytest.mark.timeout(3600)  # 180 cells: a minute of one processor, or more on a busy machine
@pytest.mark.parametrize("build", all_builds(), ids=str)
def test_full_product(build: Build, compiled: dict[Build, Future[None]]) -> None:
    compiled[build].result()
    check(build, all_cells())


def test_cover_holds_every_pair() -> None:
    """Of dtype, head_dim, mask, layout and lengths for each technique; and every seed and distribution occurs."""
    runs: dict[str, list[tuple]] = {}
    for number, build in enumerate(covering_builds()):
        for cell in covering_cells(number):
            run = (build.dtype, build.head_dim, build.causal, cell.layout, cell.lengths, cell.seed, cell.distribution)
            runs.setdefault(build.technique, []).append(run)
    for technique in TECHNIQUES:
        levels = (DTYPES, head_dims(technique), (False, True), LAYOUTS, tuple(LENGTHS))
        for first, second in combinations(range(len(levels)), 2):
            pairs = {(run[first], run[second]) for run in runs[technique.name]}
            assert pairs == set(product(levels[first], levels[second]))
    everything = [run for group in runs.values() for run in group]
    assert {run[5] for run in everything} == set(SEEDS)
    assert {run[6] for run in everything} == set(DISTRIBUTIONS)
