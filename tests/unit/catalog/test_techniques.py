"""The registry answers for cells and rungs that it does not have."""

import re
from dataclasses import replace

import pytest

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique, Tile
from harness.operators.attention.ladders import hopper
from harness.operators.attention.problem import Problem


def test_a_rung_whose_parent_is_not_there_yet_stands_on_the_nearest_ancestor() -> None:
    rung = techniques.Technique("rung", "", builds_on=("not_there_yet", "large_tile", "scalar"))
    assert techniques.parent(rung) == techniques.get("large_tile")
    assert techniques.reference_tile(rung, 64) == techniques.reference_tile(techniques.get("large_tile"), 64)
    assert techniques.parent(replace(rung, builds_on=("not_there_yet",))) is None


@pytest.mark.parametrize("backend", techniques.TWINS)
@pytest.mark.parametrize("technique", techniques.TECHNIQUES, ids=lambda technique: technique.name)
def test_a_head_dim_that_a_rung_has_no_tile_for_is_declined(technique: techniques.Technique, backend: str) -> None:
    for head_dim in (72, 256, 512):
        problem = Problem.square(1, 1, 1024, head_dim)
        reason = techniques.unsupported(technique, backend, problem, techniques.reference_tile(technique, head_dim))
        if head_dim == 256 and technique.general:  # a language may decline the tile
            assert reason is None or reason.startswith("core Triton's tensors")
        else:
            assert reason.startswith("head_dim must be 64")
            assert techniques.grid(technique, backend, problem) == ()


HOPPER = techniques.get("attention/producer_consumer")


@pytest.mark.parametrize(
    ("backend", "head_dim", "tile", "reason"),
    [
        ("cuda", 128, Tile(128, 176, 2, 8), None),
        ("cuda", 128, Tile(192, 80, 2, 12), None),
        ("cuda", 64, Tile(64, 256, 2, 4), None),
        ("cuda", 256, Tile(128, 80, 2, 8), None),
        ("cuda", 256, Tile(128, 96, 2, 8), "shared memory"),
        ("cuda", 128, Tile(192, 128, 3, 12), "shared memory"),
        ("cuda", 64, Tile(64, 272, 2, 4), "block_n must be one that wgmma.cuh has"),
        ("cuda", 64, Tile(128, 72, 2, 8), "block_n must be one that wgmma.cuh has"),
        ("cuda", 64, Tile(128, 144, 2, 8), "block_n must be one that wgmma.cuh has"),
        ("cuda", 64, Tile(256, 64, 2, 8), "block_m must be 16"),
        ("cuda", 64, Tile(256, 64, 2, 16), "warps must be 4, 8 or 12"),
        ("cuda", 64, Tile(128, 64, 1, 8), "stages must be 2"),
        ("triton", 128, Tile(128, 128, 2, 8), None),
        *(("triton", 128, Tile(128, n, 2, 8), "powers of two") for n in (176, 112, 96, 80)),
        ("triton", 128, Tile(192, 128, 2, 12), "powers of two"),
        ("gluon", 128, Tile(192, 128, 2, 12), None),
        ("gluon", 128, Tile(128, 176, 2, 8), "block_n must be such"),
        ("gluon", 128, Tile(192, 32, 2, 12), "64 or more"),
        ("gluon", 128, Tile(192, 128, 3, 12), "shared memory"),
        ("gluon", 64, Tile(192, 256, 2, 12), "2 * head_dim + 3 * block_n"),
        ("gluon", 64, Tile(64, 256, 2, 4), None),
    ],
    ids=str,
)
def test_what_a_warpgroup_can_hold_is_said_for_each_language(
    backend: str, head_dim: int, tile: Tile, reason: str | None
) -> None:
    said = techniques.unsupported(HOPPER, backend, Problem.square(1, 1, 4096, head_dim), tile)
    assert said is None if reason is None else reason in (said or "")


def test_gluon_holds_what_its_registers_and_its_count_of_warps_allow() -> None:
    three, square = Tile(192, 128, 2, 12), Tile(128, 128, 2, 8)

    def said(name: str, tile: Tile) -> str:
        return (
            techniques.unsupported(techniques.of_qualified(name), "gluon", Problem.square(1, 1, 4096, 128), tile) or ""
        )

    assert "powers of two: warps must be 4 or 8" in said("wgmma", three)
    assert "the next scores" in said("overlapped_softmax", three)
    assert "take turns" in said("pingpong", Tile(64, 64, 2, 4))
    assert not said("producer_consumer", three)
    assert not said("flagship", square)
    assert "stages must be 2" in said("mbarrier_ring", Tile(64, 128, 1, 4))
    assert "multiple of 16 * warps" in said("warp_specialized", Tile(64, 128, 2, 8))
    assert "warps must be 8" in said("setmaxnreg_consumers", Tile(128, 64, 2, 4))
    assert "must be 128 or 256" in said("setmaxnreg_consumers", Tile(512, 32, 2, 8))
    assert "49152 at most" in said("softmax_lock", Tile(256, 128, 2, 8))
    assert "shared memory" in said("softmax_lock", Tile(256, 64, 6, 8))
    for name in ("producer_consumer", "overlapped_softmax", "flagship"):
        grid = techniques.grid(techniques.of_qualified(name), "gluon", Problem.square(1, 1, 4096, 128))
        assert {tile.warps for tile in grid} >= {8, 12}


def test_another_triton_is_tuned_over_the_grid_of_the_installed_one_and_tlx_over_gluons() -> None:
    problem = Problem.square(4, 16, 4096, 64)

    def grid(backend: str) -> tuple[Tile, ...]:
        return techniques.grid(techniques.get("attention/flagship"), backend, problem)

    assert len(grid("gluon")) > 4
    assert grid("gluon") == grid("gluon@3.9.0") == grid("tlx@3.8.0") == grid("tlx")
    assert len(grid("triton@3.9.0")) > 4
    assert grid("triton") == grid("triton@3.9.0")
    wmma = techniques.get("wmma")
    native = techniques.grid(wmma, "triton_native", problem)
    assert native == techniques.grid(wmma, "triton_native@3.9.0", problem)


def test_every_tile_that_the_flagship_is_tuned_over_has_the_registers_and_the_stages() -> None:
    flagship = techniques.get("attention/flagship")

    def grid(head_dim: int, *, causal: bool) -> set[str]:
        problem = Problem.square(4, 16, 4096, head_dim, causal=causal)
        return {tile.slug for tile in techniques.grid(flagship, "cuda", problem)}

    for head_dim in (64, 128, 256):
        tile = techniques.reference_tile(flagship, head_dim)
        both = grid(head_dim, causal=True) & grid(head_dim, causal=False)
        assert tile.slug in both
    wide = "192x128-s2-w12"
    assert wide in grid(64, causal=False) - grid(128, causal=False)


def test_a_tile_whose_output_has_no_room_is_declined() -> None:
    problem = Problem.square(4, 8, 4096, 256)

    def said(tile: Tile) -> str:
        return techniques.unsupported(techniques.get("attention/flagship"), "cuda", problem, tile) or ""

    assert said(Tile(128, 80, 2, 8)) == said(Tile(128, 48, 2, 8)) == ""  # V holds O; two buffers of Q do
    assert "each warpgroup stages O in a stage of V" in said(Tile(128, 48, 3, 8))


def test_triton_is_one_series_where_it_may_use_wgmma() -> None:
    assert sources.series(techniques.TWINS, "attention/hopper/wgmma") == ["cuda", "triton"]
    assert sources.series(techniques.TWINS, "attention/tma/tma_loads") == list(techniques.TWINS)


@pytest.mark.parametrize("technique", techniques.TECHNIQUES, ids=lambda technique: technique.name)
def test_a_rung_says_whether_its_tile_changes_too(technique: Technique) -> None:
    changes = False
    for dim in (64, 128):
        if parent := techniques.parent(technique):
            own, other = (techniques.reference_tile(rung, dim) for rung in (technique, parent))
            changes |= (own.block_m, own.block_n) != (other.block_m, other.block_n)
    is_the_change = technique.idea.startswith("the tile only") or technique.name == "batched_m_tiles"
    assert ("tile" in technique.also) == (changes and not is_the_change)
    assert technique.change == technique.idea + "; it also changes the tile" * bool(technique.also)


def _program(name: str) -> str:
    while other := sources.same_program(techniques.of_qualified(name).path, "triton"):
        name = other
    return name


def test_a_triton_kernel_says_on_which_rung_it_builds() -> None:
    """On its parent in the registry, or on the rung whose program that runs."""
    found = {}
    for technique in techniques.TECHNIQUES:
        parent = techniques.parent(technique, "triton")
        if parent and not sources.same_program(technique.path, "triton"):
            text = " ".join(sources.kernel_file("triton", technique.path).read_text().split())
            said = re.search(r"Builds on (?:\w+/)?(\w+)", text)
            if not said or said[1] not in (parent.name, _program(parent.name)):
                found[technique.name] = said and said[1]
    assert found == {}


@pytest.mark.parametrize(
    ("name", "capability", "message"),
    [
        ("attention/scalar", (7, 5), r"capability 7.5, too old for scalar \(ampere\), expected one of 8.x, 9.x, 12.x"),
        ("attention/scalar", (10, 0), r"capability 10.0, without these instructions for scalar"),
        ("gemm/tma_swizzle", (8, 0), r"capability 8.0, too old for tma_swizzle"),
    ],
)
def test_a_gpu_that_cannot_run_the_technique_is_refused(name: str, capability: tuple[int, int], message: str) -> None:
    technique = techniques.get(name)
    with pytest.raises(ValueError, match=f"GPU: got compute {message}"):
        techniques.check_capability(technique, capability)
    techniques.check_capability(technique, (9, 0))
    techniques.check_capability(technique, None)
    techniques.check_capability(None, capability)


def test_the_widths_of_wgmma_are_those_of_its_header() -> None:
    header = (sources.ROOT / "cuda_kernels" / "ptx" / "wgmma.cuh").read_text()
    by_descriptor, by_register = re.findall(r"static_assert\((N == 16(?:[^;]|\n)*?),\n\s+\"add N here\"", header)
    assert by_descriptor == by_register
    assert tuple(map(int, re.findall(r"N == (\d+)", by_descriptor))) == hopper.WIDTHS
