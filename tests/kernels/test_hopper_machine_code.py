"""What the assembler leaves of the hopper ladder: no serialized wgmma, no local memory in a main loop, and each
technique's own order, which a source only asks for.

`make test` reads the rows of what is recorded, of this source and by this compiler, and compiles the rest;
`make test-full` compiles all of it. test_compile_every_rung.py shows that rows say what is compiled here.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from harness.catalog import sources, techniques, tiles
from harness.catalog.cases import Case, origin
from harness.catalog.entries import Tile
from harness.inspection.survey import MEASURED, Cell
from harness.operators.attention.problem import Problem
from tests.support import proven

pytestmark = pytest.mark.spread

RUNGS = [one for one in techniques.TECHNIQUES if one.ladder == "hopper"]
MASKS = {"full": False, "causal": True}
LENGTHS = (1024, 4096, 16_384)
"""One of each class of lengths that has tiles of its own."""
PINNED = "pinned_maxima"
SQUARE = Tile(128, 128, 2, 8)
LEAST_EXPONENTIALS = 10
"""Before the wait for P V: as many as the fastest attention libraries have there at SQUARE."""
LEAST_OF_THREE_WARPGROUPS = 4
MOVED = {("cluster_multicast", 64, "full"): 3, ("lasting_roles", 64, "causal"): 3}
"""Kernel, head_dim and mask -> how many ptxas leaves there, where it moves the others behind the wait."""


def cell(name: str, head_dim: int, causal: bool, tile: Tile | None = None) -> Cell:
    problem = Problem.square(4, 16, 4096, head_dim, causal=causal)
    tile = tile or techniques.reference_tile(techniques.of_qualified(name), head_dim)
    return Case("inspect", name, "cuda", problem, tile), MEASURED


def is_after(rung: techniques.Technique | None, name: str) -> bool:
    """Whether the rung is this one or builds on it, whatever stands between."""
    return rung is not None and (rung.name == name or is_after(techniques.parent(rung), name))


def after_pinned(*tiles: tuple[int, Tile | None]) -> list[Any]:
    """(rung, head_dim, tile, mask) of each rung from PINNED on; the flagship has tests of its own."""
    found = []
    for rung, (head_dim, tile), mask in product(RUNGS, tiles, MASKS):
        case, _ = cell(rung.name, head_dim, MASKS[mask], tile)
        if rung.name == "flagship" or not is_after(rung, PINNED):
            continue
        if not techniques.unsupported(rung, "cuda", case.problem, case.tile):
            # Few rows are of SQUARE: `make test` compiles one mask there, `make test-full` both.
            is_second = (tile, mask) == (SQUARE, "causal") and rung.name != PINNED
            found.append(pytest.param(rung.name, head_dim, tile, mask, marks=pytest.mark.full if is_second else ()))
    return found


def committed() -> list[Cell]:
    """Every rung at its reference tile and at those of the tables, each program once."""
    found: dict[Any, Cell] = {}
    tables = [path.stem for path in tiles.folder("attention").glob("*.toml")]
    for rung, head_dim, causal in product(RUNGS, (64, 128, 256), MASKS.values()):
        case, _ = cell(rung.name, head_dim, causal)
        problems = [replace(case.problem, seq_q=length, seq_kv=length) for length in LENGTHS]
        chosen = [tiles.best_tile(rung.name, "cuda", *at) for at in product(problems, tables)]
        for tile in filter(None, (case.tile, *chosen)):
            if techniques.unsupported(rung, "cuda", case.problem, tile):
                continue
            one = cell(rung.name, head_dim, causal, tile)
            found.setdefault((origin(one[0]), tile, head_dim, causal), one)
    return list(found.values())


COMMITTED = committed()
IN_FP16 = [
    (replace(case, problem=replace(case.problem, dtype="fp16")), arch)
    for case, arch in COMMITTED
    if case.technique == "flagship"
]
"""Few rows are of fp16: the flagship alone, and only in `make test-full`."""
IN_BOTH_FORMATS = [*COMMITTED, *(pytest.param(one, marks=pytest.mark.full) for one in IN_FP16)]


def label(cell: Cell) -> str:
    problem, tile = cell[0].problem, cell[0].tile
    dtype = "" if problem.dtype == "bf16" else f"-{problem.dtype}"
    return f"{cell[0].technique}-d{problem.head_dim}-{problem.mask}-{tile.slug}{dtype}"


ORDERED = {
    label(one): one
    for one in (
        *(one for one in COMMITTED if one[0].technique == "flagship"),
        *(cell("flagship", 128, causal, SQUARE) for causal in MASKS.values()),
    )
}.values()
"""The flagship at its own tiles and at SQUARE."""


Code = Callable[[Cell], dict[str, Any]]


@pytest.fixture(params=["recorded", pytest.param("compiled", marks=pytest.mark.full)])
def code(request: pytest.FixtureRequest) -> Code:
    return proven.compile_here if request.param == "compiled" else proven.machine_code


@pytest.mark.parametrize("one", IN_BOTH_FORMATS, ids=label)
def test_no_main_loop_is_serialized_spills_or_fences_the_gpu(one: Cell, code: Code) -> None:
    """A fence of the GPU is what a release to the cluster is made of. Registers move from the producer on."""
    found = code(one)
    main_loop, moved = found["main_loop"], found.get("setmaxnreg", [])
    assert found.get("remarks", []) == []
    assert not main_loop["serialized"]
    assert main_loop["local_memory"] == 0
    assert "fence of the GPU" not in main_loop["sequence"]
    if one[0].technique == "wgmma":
        assert moved == []
    else:
        producer, consumers = moved
        assert producer < 64 < 128 < consumers


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["wgmma", "producer_consumer", "three_warpgroups", "exp_lock"])
def test_a_serial_softmax_stands_alone(name: str, mask: str, code: Code) -> None:
    assert set(code(cell(name, 128, MASKS[mask]))["main_loop"]["under_products"].values()) == {0}


@pytest.mark.parametrize(("head_dim", "mask"), list(product((64, 128), MASKS)))
def test_each_technique_has_its_own_order(head_dim: int, mask: str, code: Code) -> None:
    """Exponentials are in the lock and maxima are not. Overlapped, the assembler moves the wait above the exponentials,
    unless they are held; with two sets of P conversions are under the product too, two steps a round."""
    names = ("exp_lock", "overlapped_softmax", "pingpong", "wide_tile", "held_overlap", "double_buffered_p")
    loops = {name: code(cell(name, head_dim, MASKS[mask]))["main_loop"] for name in names}
    locked, held, double = (loops[name] for name in ("exp_lock", "held_overlap", "double_buffered_p"))
    assert locked["in_lock"]["exponentials"] == locked["all"]["exponentials"]
    assert locked["in_lock"]["maxima"] == locked["in_lock"]["shuffles"] == 0
    for loop in (loops[name] for name in ("overlapped_softmax", "pingpong", "wide_tile")):
        assert loop["under_products"]["exponentials"] < loop["all"]["exponentials"] / 4, loop["sequence"]
        assert loop["under_products"]["maxima"] < loop["all"]["maxima"], loop["sequence"]
    for kind in ("exponentials", "maxima", "shuffles"):
        assert held["under_products"][kind] == held["all"][kind], held["sequence"]
    assert double["under_products"] == double["all"], double["sequence"]
    assert held["under_products"]["conversions"] == 0 < held["all"]["conversions"]
    assert double["all"] == {kind: 2 * count for kind, count in held["all"].items()}, "two steps a round"


@pytest.mark.parametrize(
    ("name", "head_dim", "tile", "mask"), after_pinned((64, None), (128, None), (128, SQUARE), (256, None)), ids=str
)
def test_from_pinned_maxima_on_a_rung_reduces_before_the_wait_and_has_exponentials_there(
    name: str, head_dim: int, tile: Tile | None, mask: str, code: Code
) -> None:
    """What the fastest kernels have at 128x128: the whole reduction and at least ten exponentials before the wait."""
    one = cell(name, head_dim, MASKS[mask], tile)
    found = code(one)["main_loop"]
    for kind in ("maxima", "shuffles"):
        assert found["under_products"][kind] == found["all"][kind], found["sequence"]
    least = LEAST_OF_THREE_WARPGROUPS if one[0].tile.warps == 12 else LEAST_EXPONENTIALS
    least = MOVED.get((name, head_dim, mask), least)
    assert least <= found["under_products"]["exponentials"] < found["all"]["exponentials"], found["sequence"]


@pytest.mark.parametrize("one", ORDERED, ids=label)
def test_the_flagship_reduces_before_the_wait_and_has_exponentials_there(one: Cell, code: Code) -> None:
    """At each tile that it is measured with, though an iteration of 64 keys has half as many exponentials as SQUARE."""
    found = code(one)["main_loop"]
    for kind in ("maxima", "shuffles"):
        assert found["under_products"][kind] == found["all"][kind], found["sequence"]
    assert found["under_products"]["exponentials"] >= LEAST_EXPONENTIALS, found["sequence"]


def test_every_kernel_of_the_ladder_is_among_them() -> None:
    kernels = {path.stem for path in (sources.ROOT / "cuda_kernels/attention/hopper").glob("*.cu")}
    assert kernels == {rung.name for rung in RUNGS}
