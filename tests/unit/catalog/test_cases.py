"""Cases of experiments: what a grid has beside its techniques."""

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from experiments.attention import random_problems
from experiments.attention.hopper_grid import PROBLEMS
from harness.catalog import experiments, sources, techniques, tiles
from harness.catalog.cases import declined, of_experiment
from harness.catalog.entries import Tile
from harness.operators.attention.problem import DTYPES, LAYOUTS

FIRST_RANDOM = ["b1-h6k2-n2151-d64-bf16-causal-bshd", "b2-h12k3-q1878k600-d128-fp16-causal"]
RANDOM_SHA256 = "ddf7ed0760406e99957b8a2450ee5d1e01398d21b4778fdb7ec17bc06ff9e300"


def test_the_grid_has_the_kernels_that_can_be_faster_than_the_flagships_twins() -> None:
    cases = of_experiment(experiments.load("hopper_grid"), "h200")
    further = [case for case in cases if case.technique not in (None, "flagship")]
    assert {(case.technique, case.backend, case.tile) for case in further} == {
        ("producer_consumer", "triton", Tile(128, 64, 1, 8)),
        ("host_descriptors", "triton", Tile(128, 64, 2, 8)),
        ("lasting_roles", "triton", Tile(128, 128, 2, 8)),
        ("ascending_keys", "triton", Tile(64, 128, 1, 4)),
        ("ascending_keys", "triton", Tile(64, 128, 1, 4, (("maxnreg", 128),))),
        ("tma_store", "triton", Tile(64, 128, 1, 4)),
        ("tma_store", "gluon", Tile(128, 128, 3, 8)),
        ("thread_rescale", "gluon", Tile(128, 64, 2, 8)),
        ("thread_rescale", "gluon", Tile(128, 128, 2, 8)),
    }
    with_roles = [case.problem for case in further if case.technique == "producer_consumer"]
    assert [problem.seq_q for problem in with_roles if problem.causal] == [512, 1024, 2048, 4096, 8192, 16_384]
    assert {problem.head_dim for problem in with_roles} == {256}
    stored = [case.problem for case in further if (case.technique, case.backend) == ("tma_store", "triton")]
    assert {(problem.head_dim, problem.causal) for problem in stored} == {(128, False)}
    assert [problem.seq_q for problem in stored] == [512, 1024, 2048, 4096]
    by_thread = [case.problem for case in further if case.technique == "thread_rescale"]
    assert {problem.head_dim for problem in by_thread} == {128, 256}
    assert [problem.slug for problem in PROBLEMS if problem.head_dim > 64 and problem not in by_thread] == [
        "b32-h16-n512-d128-bf16-causal",
        "b32-h8-n512-d256-bf16-causal",
        "b16-h16-n1024-d128-bf16-causal",
    ]


def test_an_experiment_has_no_name_until_it_is_loaded_by_it() -> None:
    """An empty name would match no row, and whoever looks for rows of the experiment would find nothing wrong."""
    with pytest.raises(AttributeError, match="no attribute 'name'"):
        of_experiment(random_problems.EXPERIMENT)
    assert experiments.load("attention/random_problems").name == "random_problems"


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h200", None])
def test_an_experiment_of_gates_checks_every_twin_that_takes_the_problem_at_some_tile(gpu: str | None) -> None:
    """Core Triton and Gluon decline reference tiles of 192 queries or 80 keys."""
    for name in ("correctness", "any_length"):
        cases = of_experiment(experiments.load(name), gpu)
        left = [case for case in cases if case.technique and declined(case)]
        assert {case.technique for case in left} == {"cluster_multicast"}, "what it declines is no tile"
    flagship = [case for case in cases if (case.technique, case.backend) == ("flagship", "triton")]
    assert len(flagship) == len(experiments.load("any_length").problems)
    timed = of_experiment(experiments.load("hopper"), gpu)
    assert [case for case in timed if (case.technique, case.backend) == ("flagship", "triton") and declined(case)]


@pytest.mark.slow
def test_persistent_kernels_are_gated_at_lengths_where_blocks_take_several_tiles() -> None:
    """On an H200, between rows of NaN and with a ragged tail, at the tile of each."""
    found: dict[str, set[int]] = {}
    for case in of_experiment(experiments.load("any_length"), "h200"):
        if case.technique and case.tile and case.backend == "cuda" and case.problem.query_tiles(case.tile) >= 2 * 132:
            problem = case.problem
            assert problem.seq_q % case.tile.block_m
            assert problem.seq_kv % case.tile.block_n
            assert problem.heads != problem.heads_kv
            found.setdefault(case.technique, set()).add(problem.head_dim)
    persistent = [one.name for one in techniques.TECHNIQUES if sources.is_persistent(one.path)]
    assert {name: found[name] for name in persistent} == {name: {128, 256} for name in persistent}


def test_random_problems_are_always_the_same() -> None:
    """In every version of Python: what is recorded says so of these and no others."""
    drawn = random_problems.DRAWN
    assert len(set(drawn)) == len(drawn) == 1000
    assert random_problems.EXPERIMENT.problems == (*drawn, *random_problems.FEW)
    assert [problem.slug for problem in drawn[:2]] == FIRST_RANDOM
    assert hashlib.sha256(" ".join(problem.slug for problem in drawn).encode()).hexdigest() == RANDOM_SHA256


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("gemm/random_problems", "bb513879b2b13bba2d0431c39bae7c12514408f1fcc3f9a8a226289a36e48726"),
        ("attention_backward/random_problems", "3920c7239d25e1dd6a5dd0aaa4ab86bc9ad22f6a0f59b096b1b146ff25449c60"),
    ],
)
def test_random_problems_of_other_operators_are_the_same_too_and_none_is_declined(name: str, sha256: str) -> None:
    experiment = experiments.load(name)
    slugs = [problem.slug for problem in experiment.problems]
    assert len(set(slugs)) == 1000
    assert hashlib.sha256(" ".join(slugs).encode()).hexdigest() == sha256
    cases = of_experiment(experiment, "h200")
    assert not any(map(declined, cases))
    assert sum(case.problem.is_ragged(case.tile) for case in cases if case.tile) > 900


def test_random_problems_are_of_every_kind() -> None:
    """Within the ranges that the file names."""
    drawn = random_problems.DRAWN
    kinds = Counter((one.head_dim, one.dtype, one.causal, one.layout) for one in drawn)
    assert set(kinds) == set(product((64, 128, 256), DTYPES, (False, True), LAYOUTS))
    assert min(kinds.values()) > 20
    assert {one.batch for one in drawn} == {1, 2, 3}
    heads = {(one.heads_kv, one.heads // one.heads_kv) for one in drawn}
    assert heads == set(product((1, 2, 3), (1, 2, 3, 4)))
    lengths = [length for one in drawn for length in (one.seq_q, one.seq_kv)]
    assert min(lengths) == 1
    assert 2400 < max(lengths) <= 2500
    assert 300 < sum(one.seq_q == one.seq_kv for one in drawn) < 370


def test_random_problems_have_ragged_tails_rows_without_a_key_and_blocks_with_several_tiles() -> None:
    """Of the flagship, which takes all of them, on an H200; decode's takes those of few queries."""
    every = of_experiment(experiments.load("attention/random_problems"), "h200")
    assert not any(declined(case) for case in every)
    for name in random_problems.DECODE:
        decode = [case for case in every if case.technique == name]
        assert [case.problem for case in decode] == list(random_problems.FEW)
    assert {(one.problem.head_dim, one.problem.seq_q) for one in decode} == set(product((64, 128, 256), range(1, 17)))
    drawn = set(random_problems.DRAWN)
    cases = [case for case in every if case.technique == "flagship" and case.problem in drawn]
    assert [case.problem for case in cases] == list(random_problems.DRAWN)
    assert {case.backend for case in every} == {"cuda"}
    assert {case.technique for case in every} == {"flagship", *random_problems.DECODE}
    builds = {(case.tile, case.problem.head_dim, case.problem.dtype, case.problem.causal) for case in cases}
    assert len(builds) == 16, "those that the tables choose up to 2500 tokens"
    tiles = [(case.problem, case.tile) for case in cases if case.tile]
    ragged = [one for one, tile in tiles if one.seq_q % tile.block_m and one.seq_kv % tile.block_n]
    assert len(ragged) > 900
    assert sum(one.causal and one.seq_q > one.seq_kv for one, _ in tiles) > 100
    several = Counter(one.head_dim for one, tile in tiles if one.query_tiles(tile) > 2 * 132)
    assert set(several) == {64, 128, 256}
    assert sum(one.batch * one.heads * -(-one.seq_q // 192) > 2 * 132 for one, _ in tiles) >= 20


def test_cells_are_in_all_languages_or_in_the_one_that_they_name() -> None:
    grid = experiments.load("hopper_grid")
    problem = grid.problems[0]
    tile = Tile(128, 128, 2, 8)

    def backends(*named: str) -> set[str]:
        cells = replace(grid, problems=(problem,), cells=((problem, "wgmma", tile, *named),))
        return {case.backend for case in of_experiment(cells) if case.technique == "wgmma"}

    assert backends() == {"cuda", "triton", "gluon"}
    assert backends("gluon") == {"gluon"}


def test_a_hopper_gpu_takes_from_another_ones_table_what_its_own_lacks(tmp_path: Path) -> None:
    asked = ("h100", "h200", "h20", "gh200", "rtx-5090", None)
    served = [[path.stem for path in tiles.tables("attention", gpu)] for gpu in asked]
    assert served == [["h100", "h200"], *[["h200", "h100"]] * 3, [], []]
    (tmp_path / "h100.toml").touch()
    alone = [[path.stem for path in tiles.tables("gemm", gpu, tmp_path)] for gpu in asked]
    assert alone == [["h100"]] * 4 + [[], []]
    for problem in experiments.load("hopper_grid").problems:
        of_h200 = tiles.best_tile("head_by_head", "triton", problem, "h200")
        assert of_h200 == tiles.best_tile("head_by_head", "triton", problem, "h20")
