"""A hatch compiles to what it says, which is all that can be known of it without a GPU."""

from __future__ import annotations

import re

import pytest

from harness import build
from harness.build import tritons
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.expressibility import programs
from harness.operators.attention.claims.twin import Twin
from harness.operators.attention.problem import Problem


def test_a_hatch_is_no_series_of_a_ladder() -> None:
    assert techniques.HATCH not in techniques.SERIES
    having = [each.name for each in techniques.TECHNIQUES if sources.has_series(techniques.HATCH, each.path)]
    assert having == ["softmax_lock", "producer_consumer"]


def test_a_hatch_is_not_interpreted() -> None:
    assert "inline PTX" in str(build.available(techniques.HATCH, "cpu"))


def test_the_lock_declines_a_tile_that_has_no_two_halves() -> None:
    problem = Problem.square(2, 4, 1024, 64)
    lock = techniques.get("softmax_lock")
    assert "two halves" in str(techniques.unsupported(lock, techniques.HATCH, problem, Tile(128, 64, 2, 4)))
    assert techniques.unsupported(lock, techniques.HATCH, problem, Tile(128, 64, 2, 8)) is None


@pytest.mark.parametrize(("head_dim", "tile"), [(64, "256x64-s3-w8"), (128, "128x64-s2-w8")])
def test_nothing_between_the_wait_and_the_arrival_needs_the_whole_block(head_dim: int, tile: str) -> None:
    """Else half of the warps stand at that barrier and half at the lock, for ever."""
    hatch = Twin("softmax_lock", techniques.HATCH, head_dim, tile)
    ((_, texts),) = programs.compiled([programs.at(hatch, tritons.installed() or "")])
    order = " ".join(re.findall(r"bar\.(?:sync\s+\d+|arrive\s+\w+)|\bex2(?=\.)", texts["ptx"])).replace("\t", "")
    assert re.search(r"^bar\.arrive 9 .*bar\.sync 9 bar\.sync 10 (?:ex2 )+bar\.arrive t .*bar\.sync 9", order)
    assert len(re.findall(r"bar\.(?:sync|arrive) (?!0)", order)) == 5


@pytest.mark.parametrize("tile", ["128x64-s2-w8", "128x64-s3-w8", "128x64-s4-w8"])
def test_it_invalidates_the_barriers_that_nobody_uses_before_k_is_loaded(tile: str) -> None:
    """They lie one after another where the memory of the block begins, and so does K's first stage."""
    hatch = Twin("producer_consumer", techniques.HATCH, 128, tile)
    ((_, texts),) = programs.compiled([programs.at(hatch, tritons.installed() or "")])
    ptx, stages = texts["ptx"], Tile.parse(tile).stages
    base = re.search(r"mov\.b32\s+(%r\d+), global_smem;", ptx)[1]  # type: ignore[index]
    offsets = {base: 0} | {name: int(at) for name, at in re.findall(rf"add\.s32\s+(%r\d+), {base}, (\d+);", ptx)}
    made = {offsets[name] for name in re.findall(r"mbarrier\.init\.shared::cta\.b64 \[(%r\d+)\]", ptx)}
    keys = stages * 64 * 128 * 2
    assert sorted(at for at in made if at < keys) == [8 * stage for stage in range(stages)]
    order = "".join(re.findall(r"mbarrier\.in(?=val)|(?<=cp\.async\.bulk\.)tensor(?=\S*mbarrier)", ptx))
    assert order.startswith("tensor" * 2 + "mbarrier.in" * stages + "tensor"), "Q of two consumers, then K"
