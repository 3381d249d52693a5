"""Cases of experiments: what a grid has beside its techniques."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import declined, of_experiment
from harness.catalog.problem import Tile


def test_the_grid_has_the_triton_kernel_that_can_be_faster_than_the_flagships_twin() -> None:
    cases = of_experiment(experiments.load("hopper_grid"), "h200")
    further = [case for case in cases if case.technique not in (None, "flagship")]
    assert {(case.technique, case.backend, case.tile) for case in further} == {
        ("producer_consumer", "triton", Tile(128, 64, 1, 8)),
        ("tma_store", "triton", Tile(64, 128, 1, 4)),
    }
    causal = [case.problem.seq_q for case in further if case.problem.causal]
    assert causal == [512, 1024, 2048, 4096, 8192, 16_384]
    assert {case.problem.head_dim for case in further if case.technique == "producer_consumer"} == {256}
    stored = [case.problem for case in further if case.technique == "tma_store"]
    assert {(problem.head_dim, problem.causal) for problem in stored} == {(128, False)}
    assert [problem.seq_q for problem in stored] == [512, 1024, 2048, 4096]


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


def test_cells_are_in_all_languages_or_in_the_one_that_they_name() -> None:
    grid = experiments.load("hopper_grid")
    problem = grid.problems[0]
    tile = Tile(128, 128, 2, 8)

    def backends(*named: str) -> set[str]:
        cells = replace(grid, problems=(problem,), cells=((problem, "wgmma", tile, *named),))
        return {case.backend for case in of_experiment(cells) if case.technique == "wgmma"}

    assert backends() == {"cuda", "triton", "gluon"}
    assert backends("gluon") == {"gluon"}
