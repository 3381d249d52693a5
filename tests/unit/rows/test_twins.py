"""harness/rows/twins.py: what a technique gained where a language has it, from invented rows."""

from __future__ import annotations

from typing import Any

import pytest

from harness.catalog.problem import Problem, Tile
from harness.operators.attention.gap import GLUON, GLUON_TERMS, TERMS, TLX, TLX_TERMS, TRITON, TRITONS, Term
from harness.rows.twins import Twins, written
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]
PROBLEM = Problem.square(4, 16, 4096, 128)
SMALL, LARGE = Tile(64, 64, 2, 4), Tile(128, 128, 2, 8)
HASHES = {
    (name, backend): synthetic.sha(name, backend)
    for name in (
        "wgmma",
        "persistent",
        "lazy_rescale_wgmma",
        "integer_max",
        "flagship",
        "lazy_rescale",
        "lean_mbarrier_ring",
    )
    for backend in ("triton", "triton_native", "gluon", "tlx@3.8.0")
}


def term(name: str) -> Term:
    return next(one for one in (*TERMS, *GLUON_TERMS, *TLX_TERMS) if one.name == name)


def timed(
    name: str | None,
    backend: str,
    tile: Tile | None,
    ms: float,
    process: str = "one",
    problem: Problem = PROBLEM,
    **rest: Any,
) -> Row:
    about = {"experiment": "hopper", "mode": "burst", "environment": process, "group": f"{process}-01"}
    return synthetic.make("timing", name, backend, problem, tile, **about, samples_ms=[ms, ms, ms], **rest)


def twins(*rows: Row) -> Twins:
    boards = [synthetic.environment(name, f"board-{name}") for name in ("one", "two", "three")]
    return Twins([*boards, *rows], HASHES)


def test_a_technique_is_written_where_the_language_has_a_program_of_its_own() -> None:
    lazy = ("triton", "lazy_rescale_wgmma", "persistent")
    assert written(term("lazy_rescale"), TRITON) == (lazy, ("triton_native", "lazy_rescale", "lean_mbarrier_ring"))
    assert written(term("early_rescale"), TRITON) == (), "its Triton twin is the same program as its parent's"
    assert written(term("head_by_head"), TRITON) == (("triton", "head_by_head", "wgmma"),), "its parent is another"
    assert written(term("turns"), TRITON) == ()
    assert written(term("integer_max"), TRITON) == (("triton", "integer_max", "wgmma"),), "it builds on another there"
    both = (("gluon", "lazy_rescale_wgmma", "persistent"), ("gluon", "integer_max", "persistent"))
    assert written(term("gluon_votes"), GLUON) == both
    assert written(term("tlx_votes"), TLX) == both, "TLX has one program; Gluon has the same schedule"
    assert written(term("gluon_schedule"), GLUON) == ()


def test_a_step_is_at_one_tile_and_the_fastest_comes_first() -> None:
    found = twins(
        timed("persistent", "triton", SMALL, 1.0),
        timed("lazy_rescale_wgmma", "triton", SMALL, 1.25),
        timed("persistent", "triton", LARGE, 2.0),
        timed("lazy_rescale_wgmma", "triton", LARGE, 1.9),
        timed("lazy_rescale_wgmma", "triton", TRITONS, 0.5),
    )
    small, large = found.steps(term("lazy_rescale"), TRITON, PROBLEM)
    assert (small.tile, large.tile) == (SMALL, LARGE)
    assert small.size.value == pytest.approx(-0.2231, abs=1e-3)
    assert small.loses
    assert not large.loses
    assert found.steps(term("lazy_rescale"), TRITON, Problem.square(1, 16, 16_384, 128)) == []


def test_kernels_of_two_groups_are_compared_over_the_anchor_of_each() -> None:
    """The second board is half as fast: the anchor knows."""
    rows = [
        timed(None, "sdpa_cudnn", None, 1.0),
        timed("persistent", "gluon", LARGE, 1.0),
        timed(None, "sdpa_cudnn", None, 2.0, "two"),
        timed("integer_max", "gluon", LARGE, 2.2, "two"),
    ]
    (step,) = twins(*rows).steps(term("gluon_integer_max"), GLUON, PROBLEM)
    assert step.size.value == pytest.approx(-0.0953, abs=1e-3)
    assert step.loses
    assert twins(*rows[1:]).steps(term("gluon_integer_max"), GLUON, PROBLEM) == []


@pytest.mark.parametrize(("ms", "loses"), [((1.02,), False), ((1.04,), True), ((1.02, 1.02, 1.02), True)])
def test_a_small_loss_counts_only_where_several_processes_agree(ms: tuple[float, ...], loses: bool) -> None:
    rows = []
    for process, slower in zip(("one", "two", "three"), ms, strict=False):
        rows.append(timed("wgmma", "triton", SMALL, 1.0, process))
        rows.append(timed("integer_max", "triton", SMALL, slower, process))
    (step,) = twins(*rows).steps(term("integer_max"), TRITON, PROBLEM)
    assert step.loses is loses


def test_rows_that_do_not_count_are_no_step() -> None:
    start = timed("wgmma", "triton", SMALL, 1.0)
    for other in (
        timed("integer_max", "triton", SMALL, 1.2, assembler="shared"),
        timed("integer_max", "triton", SMALL, 1.2) | {"source_sha256": "earlier"},
        timed("integer_max", "triton", SMALL, 1.2) | {"mode": "sustained"},
        timed("integer_max", "triton", SMALL, 1.2) | {"status": "not_converged"},
    ):
        assert twins(start, other).steps(term("integer_max"), TRITON, PROBLEM) == []


def test_a_languages_flagship_at_the_shape_of_cudas_is_a_step_of_its_own() -> None:
    wide, best = Tile(192, 128, 2, 12), Tile(128, 128, 3, 8)
    rows = (timed("flagship", "gluon", wide, 1.1), timed("flagship", "gluon", best, 1.0))
    (step,) = twins(*rows).tile_step(GLUON, PROBLEM, Tile(192, 128, 3, 12), best)
    assert (step.tile, step.before) == (wide, best)
    assert step.loses
    assert twins(*rows).tile_step(GLUON, PROBLEM, Tile(192, 80, 3, 12), best) == []
    assert twins(*rows).tile_step(GLUON, PROBLEM, LARGE, best) == [], "the shape is the same"
