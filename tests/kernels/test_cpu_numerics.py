"""Every CUDA twin passes the numerics gate on the CPU, whatever the order of its warps.

Each build of a kernel runs on every class of lengths, with layouts, distributions and scheduler seeds in turn; the full
product under the marker `full`. `make test` runs every build of a kernel that passed the gate on no GPU as it is now,
and four of the others, by the commit. All this is at reference tiles; the flagship passes at the tuned ones too.
"""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest
import torch

from cuda_kernels.cpu_library import Library
from harness.catalog import techniques
from harness.catalog.entries import Technique, Tile
from harness.catalog.techniques import TECHNIQUES
from harness.measure import gate as gates
from harness.operators.attention import numerics, waves
from harness.operators.attention.api import FLAGSHIP
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem
from tests.support import chosen, cpu_run, proven, together
from tests.support.tuned import tuned

pytestmark = pytest.mark.spread

HEAD_DIMS = (64, 128)
SEEDS = tuple(range(6))
LENGTHS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "more keys": lambda block_m, block_n: (block_m, 3 * block_n),
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


def problem_of(build: Build, layout: str, lengths: str) -> Problem:
    """Grouped heads: four query heads share two key heads; in two batches two or three share one."""
    tile = techniques.reference_tile(techniques.of_qualified(build.technique), build.head_dim)
    seq_q, seq_kv = LENGTHS[lengths](tile.block_m, tile.block_n)
    heads = {"more keys": (1, 4, 2), "fewer keys": (2, 3, 1), "ragged": (2, 2, 1)}[lengths]
    return Problem(*heads, seq_q, seq_kv, build.head_dim, build.dtype, build.causal, layout)


def declined(build: Build, lengths: str) -> str | None:
    technique = techniques.of_qualified(build.technique)
    tile = techniques.reference_tile(technique, build.head_dim)
    return techniques.unsupported(technique, "cuda", problem_of(build, LAYOUTS[0], lengths), tile)


def all_builds(technique: Technique) -> list[Build]:
    """Those with a mask that the technique takes."""
    dims = (*HEAD_DIMS, 256) if technique.general and 256 in technique.tile else HEAD_DIMS
    builds = [Build(technique.name, *one) for one in product(DTYPES, dims, (False, True))]
    return [build for build in builds if not declined(build, "more keys")]


BUILDS = [build for technique in TECHNIQUES for build in all_builds(technique)]


def few_cells(build: Build) -> list[Cell]:
    """One of each class of lengths that the technique takes; the next build has the next of the rest."""
    taken, number = [name for name in LENGTHS if not declined(build, name)], BUILDS.index(build)
    return [
        Cell(
            LAYOUTS[(number + place) % len(LAYOUTS)],
            lengths,
            (SEEDS[number % 6], SEEDS[(number + 1 + place) % 6]),
            list(DISTRIBUTIONS)[(number + 2 * place) % len(DISTRIBUTIONS)],
        )
        for place, lengths in enumerate(taken)
    ]


def all_cells(build: Build) -> list[Cell]:
    taken = [name for name in LENGTHS if not declined(build, name)]
    return [Cell(layout, lengths, SEEDS, name) for layout, lengths, name in product(LAYOUTS, taken, DISTRIBUTIONS)]


def check_apart(library: Library, problem: Problem) -> None:
    """Right where every tensor has row strides of its own: those of the gate's inputs follow from the shape."""
    expected = gates.expect(problem, "normal", 0, "cpu")
    q, k, v, o = cpu_run.apart(expected.sample)
    lse = torch.full(q.shape[:3], torch.nan)
    cpu_run.launcher(library, problem)({"q": q, "k": k, "v": v, "o": o, "lse": lse}, expected.sample.scalars)
    verdict = numerics.judge(o, lse, expected)
    assert verdict.passed, f"{problem}, row strides of q, k, v, o unlike: {verdict.check}: {verdict.reason}"


def check(build: Build, cells: list[Cell]) -> None:
    technique = techniques.of_qualified(build.technique)
    library = cpu_run.build(build.technique, problem_of(build, cells[0].layout, cells[0].lengths))
    for cell in cells:
        problem = problem_of(build, cell.layout, cell.lengths)
        verdict = gates.gate(
            cpu_run.launcher(library, problem, *cell.seeds),
            problem,
            distributions=(cell.distribution,),
            device="cpu",
            repeats=len(cell.seeds),
            padded=technique.general,
        )
        assert verdict.passed, f"{cell}: {verdict.check}: {verdict.reason}"
    check_apart(library, problem)
    o, lse = cpu_run.launch_far_apart(library, problem)
    verdict = numerics.judge(o, lse, gates.expect(problem, "normal", 0, "cpu"))
    assert verdict.passed, f"{problem}, batches and heads far apart: {verdict.check}: {verdict.reason}"


@pytest.mark.parametrize("build", chosen.params(BUILDS, lambda build: proven.passed(build.technique), 4))
def test_a_kernel_passes_the_gate_whatever_the_order_of_its_warps(build: Build) -> None:
    check(build, few_cells(build))


@pytest.mark.full
@pytest.mark.timeout(3600)  # 180 runs: a minute of one processor, or more on a busy machine
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_a_kernel_passes_the_gate_on_the_full_product(build: Build) -> None:
    check(build, all_cells(build))


BUILT = {
    (head_dim, causal, tile) for head_dim, costs in waves.COSTS.items() for causal in (False, True) for tile in costs
}
TILES = sorted({*tuned(), *BUILT})
"""(head_dim, causal, tile) of the tables, and of `harness.flash_attention`."""


@pytest.mark.parametrize(
    ("head_dim", "causal", "tile"), chosen.params(TILES, lambda one: proven.passed(FLAGSHIP.name), 2)
)
def test_the_flagship_passes_the_gate_at_every_tile_in_use(head_dim: int, causal: bool, tile: Tile) -> None:
    """Rings wrap within a tile of queries, and the last tiles of queries and of keys are ragged."""
    seq_q, seq_kv = tile.block_m + 13, (tile.stages + 2) * tile.block_n - 7
    problem = Problem(1, 4, 2, seq_q, seq_kv, head_dim, "bf16", causal, "bshd")
    (library,) = together.build([together.Kernel(FLAGSHIP.name, problem, tile)])
    verdict = gates.gate(
        cpu_run.launcher(library, problem, *SEEDS[:2]),
        problem,
        distributions=("normal", "negative_scores"),
        device="cpu",
        repeats=2,
        padded=True,
    )
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"


def test_few_cells_have_every_layout_seed_and_distribution_of_each_technique() -> None:
    for technique in TECHNIQUES:
        builds = all_builds(technique)
        cells = [cell for build in builds for cell in few_cells(build)]
        assert set(LENGTHS) - {cell.lengths for cell in cells} <= (set() if technique.general else {"ragged"})
        assert {cell.layout for cell in cells} == set(LAYOUTS), technique.name
        assert {seed for cell in cells for seed in cell.seeds} >= (set(SEEDS) if len(builds) > 4 else {0, 1})
        assert {cell.distribution for cell in cells} == set(DISTRIBUTIONS) or len(builds) <= 4, technique.name


@pytest.mark.parametrize(
    ("of", "taken_for", "times"),
    [("o_stride", "q_stride", 1), ("v_stride", "k_stride", 2), ("k_stride", "q_stride", 2)],
)
def test_a_row_stride_taken_for_another_is_found(of: str, taken_for: str, times: int) -> None:
    problem = Problem(2, 2, 2, 64, 64, 64, "fp16")
    read = together.edited("attention/ampere/mma_ldmatrix.cu", {f"{of}.seq": f"{taken_for}.seq"}, times)
    (library,) = together.build([together.Kernel("mma_ldmatrix", problem, read=read)])
    with pytest.raises((AssertionError, cpu_run.Named)):
        check_apart(library, problem)


def test_an_offset_of_32_bits_is_found() -> None:
    """In a process of its own: it writes where nothing is. `check` launches every kernel so."""
    problem, whole = Problem(2, 2, 2, 64, 64, 64, "fp16"), "batch * args.o_stride.batch"
    read = together.edited("attention/attention.cuh", {whole: f"static_cast<int>({whole})"})
    right = together.Kernel("mma_ldmatrix", problem)
    for library, is_right in zip(together.build([right, right._replace(read=read)]), (True, False), strict=True):
        child = multiprocessing.get_context("fork").Process(target=launch_far_apart_or_die, args=(library, problem))
        child.start()
        child.join()
        assert (child.exitcode == 0) is is_right


def launch_far_apart_or_die(library: Library, problem: Problem) -> None:
    o, _ = cpu_run.launch_far_apart(library, problem)
    assert o.isfinite().all()


SECTIONED = {"longest_first": ("tile_schedulers", 16), "persistent": ("persistent_tiles", 32)}
"""A technique of each order that takes heads in sections: its header, and the MB that a section's K and V fit into."""


@pytest.mark.parametrize("technique", SECTIONED)
def test_a_last_smaller_section_of_heads_is_told_from_a_whole_one(technique: str) -> None:
    """In a cache so small that six heads of two batches are sections; a kernel that takes the last one, a smaller one,
    for a whole one is found out."""
    problem, (header, megabytes) = Problem(2, 3, 1, 384, 256, 64, "fp16", True), SECTIONED[technique]
    kv_bytes = problem.seq_kv * problem.head_dim * 2 * 2

    def sectioned(heads_in_section: int, planted: bool) -> together.Kernel:
        edits = {f"L2_BYTES = {megabytes} << 20;": f"L2_BYTES = {kv_bytes * heads_in_section};"}
        edits |= {"rest % here": "rest % section_heads"} if planted else {}
        return together.Kernel(technique, problem, read=together.edited(f"attention/{header}.cuh", edits))

    cases = ((2, False), (4, False), (4, True))
    built = together.build([sectioned(*case) for case in cases])
    for (heads_in_section, planted), library in zip(cases, built, strict=True):
        result = cpu_run.run(technique, problem, library=library)
        assert bool(result.diagnosis) is planted, heads_in_section
        if not planted:
            verdict = numerics.judge(result.o, result.lse, gates.expect(problem, "normal", 0, "cpu"))
            assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("slack", "status"), [("2.f", "passed"), ("8.f", "wrong")])
def test_a_rescale_may_be_lazy_by_a_factor_of_four_and_no_more(slack: str, status: str) -> None:
    """Where one key dominates a row its P must not be rounded; with a slack of 2^8 it is, as a GPU showed."""
    problem = Problem(2, 4, 4, 512, 512, 64, "fp16", True)
    read = together.edited("attention/tma/lazy_rescale.cu", {"SLACK = 2.f;": f"SLACK = {slack};"})
    (library,) = together.build([together.Kernel("lazy_rescale", problem, read=read)])
    result = cpu_run.run("lazy_rescale", problem, library=library, distribution="outliers")
    assert result.diagnosis == ""
    assert numerics.judge(result.o, result.lse, gates.expect(problem, "outliers", 0, "cpu")).status == status
