"""What is left of the hopper ladder in Gluon by its compiler and the assembler: roles, registers, and each technique's
own order, which a source only asks for.

`make test` reads the rows of what is recorded, of this source and by this compiler, and compiles the rest;
`make test-full` compiles all of it.

They need a GPU to run: the gates of `correctness` judge them there, and their rows stand with all others.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from tests.support import gluon

pytestmark = pytest.mark.spread

SQUARE = Tile(128, 128, 2, 8)
NAMES = [
    one.name
    for one in techniques.TECHNIQUES
    if one.ladder == "hopper" and sources.has_series("gluon", one.path) and not sources.same_program(one.path, "gluon")
    if techniques.unsupported(one, "gluon", Problem.square(4, 16, 4096, 128), SQUARE) is None  # else by newer Tritons
]
ROLES = [name for name in NAMES if name != "wgmma"]
PINNED = NAMES[NAMES.index("pinned_maxima") :]
MASKS = {"full": False, "causal": True}
ROUND_TRIPS = {"lazy_rescale_wgmma": 2, "early_rescale": 3}
"""Loads and stores of a value or two that do not fit beside what a vote needs."""


def compiled(name: str, causal: bool = False, head_dim: int = 128, tile: Tile = SQUARE) -> Any:
    return gluon.compiled(name, Problem.square(4, 16, 4096, head_dim, causal=causal), tile)


Code = Callable[..., dict[str, Any]]


@pytest.fixture(params=["recorded", pytest.param("compiled", marks=pytest.mark.full)])
def code(request: pytest.FixtureRequest) -> Code:
    """The `code` of a row of a rung: code(name, causal, head_dim, tile)."""
    of = gluon.code if request.param == "compiled" else gluon.machine_code_of

    def found(name: str, causal: bool = False, head_dim: int = 128, tile: Tile = SQUARE) -> dict[str, Any]:
        return of(name, Problem.square(4, 16, 4096, head_dim, causal=causal), tile)

    return found


@pytest.mark.parametrize(("name", "mask"), list(product(NAMES, MASKS)))
def test_no_main_loop_is_serialized_or_spills(name: str, mask: str, code: Code) -> None:
    main_loop = code(name, MASKS[mask])["main_loop"]
    assert not main_loop["serialized"]
    assert main_loop["local_memory"] <= ROUND_TRIPS.get(name, 0)


@pytest.mark.parametrize(
    ("name", "head_dim", "tile"),
    [
        ("producer_consumer", 128, Tile(192, 128, 2, 12)),
        ("producer_consumer", 64, Tile(64, 256, 2, 4)),
        ("flagship", 128, Tile(192, 64, 3, 12)),
        ("flagship", 64, Tile(192, 64, 4, 12)),
        ("flagship", 64, Tile(192, 128, 2, 12)),
        ("flagship", 256, Tile(128, 64, 2, 8)),
    ],
    ids=str,
)
def test_one_to_three_warpgroups_hold_what_the_limits_allow(name: str, head_dim: int, tile: Tile, code: Code) -> None:
    found = code(name, False, head_dim, tile)
    assert not found["main_loop"]["serialized"]
    assert found["main_loop"]["local_memory"] == 0
    warps = max(tile.warps, 4) + 4  # the producer is one warp of a warpgroup
    assert f".reqntid {32 * warps}" in compiled(name, False, head_dim, tile).asm["ptx"]


@pytest.mark.parametrize("name", NAMES)
def test_registers_move_from_the_producer_on(name: str, code: Code) -> None:
    assert ({24, 240} <= set(code(name).get("setmaxnreg", []))) == (name in ROLES)
    assert code(name)["census"]["UTMALDG"] > 0


@pytest.mark.parametrize("name", ["wgmma", "producer_consumer", "exp_lock"])
def test_a_serial_softmax_stands_alone(name: str, code: Code) -> None:
    assert set(code(name)["main_loop"]["under_products"].values()) == {0}


@pytest.mark.parametrize("mask", MASKS)
def test_exponentials_are_in_the_lock_and_maxima_are_not(mask: str, code: Code) -> None:
    """The lock is an mbarrier: all maxima stand before its wait, all exponentials before its arrival."""
    sequence = code("exp_lock", MASKS[mask])["main_loop"]["sequence"]
    before, _, behind = sequence.partition("66 ex2")
    assert "ex2" not in before + behind
    assert before.rstrip("( ").endswith("mbarrier wait, bar.sync,"), sequence
    assert " max" not in behind
    assert "mbarrier arrive" in behind.partition("wgmma")[0], sequence


@pytest.mark.parametrize("mask", MASKS)
def test_the_assembler_moves_the_wait_above_the_exponentials(mask: str, code: Code) -> None:
    """As in the CUDA twins, though the source says otherwise."""
    for name in ("overlapped_softmax", "pingpong"):
        found = code(name, MASKS[mask])["main_loop"]
        assert found["under_products"]["exponentials"] < found["all"]["exponentials"] / 4, found["sequence"]


@pytest.mark.parametrize(("name", "mask"), list(product(PINNED, MASKS)))
def test_pinned_maxima_leave_some_exponentials_under_the_product(name: str, mask: str, code: Code) -> None:
    found = code(name, MASKS[mask])["main_loop"]
    for kind in ("maxima", "shuffles"):
        assert found["under_products"][kind] == found["all"][kind], found["sequence"]
    assert found["under_products"]["exponentials"] >= 10, found["sequence"]


@pytest.mark.parametrize("mask", MASKS)
def test_a_vote_keeps_exponentials_before_the_wait(mask: str, code: Code) -> None:
    """Behind a branch the assembler does not carry them past it; the earlier the branch, the more stay."""
    names = ("persistent", "lazy_rescale_wgmma", "early_rescale")
    kept = [code(name, MASKS[mask])["main_loop"]["under_products"]["exponentials"] for name in names]
    assert kept == sorted(kept)
    assert kept[0] < kept[1] - 10, kept


@pytest.mark.parametrize("mask", MASKS)
def test_maxima_of_integers_are_of_three(mask: str, code: Code) -> None:
    floats, integers = (code(name, MASKS[mask])["main_loop"]["all"]["maxima"] for name in ("persistent", "integer_max"))
    assert integers < 0.7 * floats


def test_o_leaves_by_tma_where_the_rung_says_so(code: Code) -> None:
    stores = {name: code(name)["census"].get("UTMASTG", 0) for name in NAMES}
    assert {name for name, number in stores.items() if number} == {"tma_store", "head_by_head", "flagship"}


def test_o_lies_where_q_was() -> None:
    """Staging takes no shared memory of its own."""
    assert compiled("tma_store").metadata.shared <= compiled("persistent").metadata.shared


@pytest.mark.parametrize("name", NAMES)
def test_no_program_is_secretly_an_earlier_one(name: str, code: Code) -> None:
    mine, earlier = code(name, causal=True)["sass_sha256"], NAMES[: NAMES.index(name)]
    assert [other for other in earlier if code(other, causal=True)["sass_sha256"] == mine] == []
