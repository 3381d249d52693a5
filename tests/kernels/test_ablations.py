"""The flagship less one technique at a time: each file is whole and differs from the flagship by little, passes the
numerics gate on the CPU, and its machine code has lost what it says and nothing else.

`make test` runs and compiles each at one problem; `make test-full` at both head_dims and masks, and at every tile that
the flagship has there.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from itertools import groupby, product
from typing import Any

import pytest

from harness import variants
from harness.attention import numerics
from harness.catalog import ledger, sources, techniques
from harness.catalog.ablations import ABLATIONS
from harness.catalog.cases import Case
from harness.catalog.entries import Ablation
from harness.catalog.problem import Problem, Tile
from harness.inspection.survey import MEASURED, Cell
from tests.support import proven

pytestmark = pytest.mark.spread

SQUARE = ledger.SQUARE
TILES = {64: (Tile(192, 128, 3, 12), SQUARE), 128: (SQUARE, Tile(192, 80, 3, 12))}
OWN_TILES = (ledger.TRITONS, SQUARE)
"""Of the vocabulary."""
SERIALIZED = [one.name for one in ABLATIONS if one.serialized]
LESS = [one for one in ABLATIONS if one.name != ledger.VOCABULARY]


def cell(name: str, head_dim: int, causal: bool, tile: Tile) -> Cell:
    return Case("inspect", name, "cuda", Problem.square(4, 16, 4096, head_dim, causal=causal), tile), MEASURED


def cells() -> list[Any]:
    """At every tile; what `make test` leaves out is marked."""
    found = []
    for one, head_dim, causal in product(ABLATIONS, (128, 64), (True, False)):
        for tile in TILES[head_dim] if one in LESS else OWN_TILES:
            case, arch = cell(one.name, head_dim, causal, tile)
            if techniques.unsupported(one, "cuda", case.problem, tile) is None:
                quick = (head_dim, causal, tile) == (128, True, SQUARE)
                name = f"{one.name}-d{head_dim}-{'causal' if causal else 'full'}-{tile.slug}"
                found.append(pytest.param((case, arch), id=name, marks=() if quick else pytest.mark.full))
    return found


def main_loop(name: str) -> dict[str, Any]:
    return proven.machine_code(cell(name, 128, True, SQUARE))["main_loop"]


def test_every_file_of_the_folder_is_in_the_registry() -> None:
    folder = sources.ROOT / "cuda_kernels/hopper/ablations"
    assert {path.stem for path in folder.glob("*.cu")} == {one.name for one in ABLATIONS}
    assert not {one.name for one in ABLATIONS} & {one.name for one in techniques.TECHNIQUES}


@pytest.mark.parametrize("one", LESS, ids=lambda one: one.name)
def test_it_is_the_flagship_but_for_what_it_lacks(one: Ablation) -> None:
    flagship, less = (
        sources.kernel_file("cuda", path).read_text().splitlines()
        for path in (techniques.get(ledger.FLAGSHIP).path, one.path)
    )
    body = [lines[lines.index("#include <attention.cuh>") :] for lines in (flagship, less)]
    changed = [line for line in difflib.ndiff(*body) if line[0] in "+-"]
    assert 2 < len(changed) <= 60, "\n".join(changed)
    assert one.lacks
    assert set(one.lacks) <= {term.name for term in ledger.TERMS}


@pytest.mark.parametrize("one", cells())
def test_it_compiles_without_serialization_or_local_memory(one: Cell) -> None:
    case, code = one[0], proven.machine_code(one)
    fits = (case.problem.head_dim, case.tile) == (64, SQUARE)  # evenly shared registers too
    if case.technique in SERIALIZED and not fits:
        assert code["remarks"] == ["serialized due to insufficient register resources"]
        assert code["main_loop"]["serialized"]
        assert code["spill_bytes"] > 0
        return
    assert code.get("remarks", []) == []
    assert not code["main_loop"]["serialized"]
    assert code["main_loop"]["local_memory"] == 0
    assert code["spill_bytes"] == 0


def test_a_softmax_without_overlap_stands_alone() -> None:
    for name in ("without_overlap", "without_turns_or_overlap", ledger.VOCABULARY):
        assert set(main_loop(name)["under_products"].values()) == {0}


def test_maxima_that_nothing_holds_leave_the_place_that_they_had() -> None:
    held = main_loop("without_turns")["under_products"]
    for name in ("without_pinned_maxima", "without_turns_or_pinned_maxima"):
        free = main_loop(name)["under_products"]
        assert free["maxima"] + free["exponentials"] < held["maxima"] + held["exponentials"]


def test_maxima_of_floats_are_counted_once() -> None:
    """The main loop of integer maxima holds those of floats too, for where the vote is lost."""
    both = main_loop("without_turns")["all"]["maxima"]
    for name in ("without_integer_max", "without_lazy_rescale_or_integer_max"):
        assert main_loop(name)["all"]["maxima"] < both


@pytest.mark.parametrize("term", [pytest.param(one, id=one.name) for one in ledger.TERMS if one.ttgir])
def test_core_tritons_program_has_the_operations_in_the_order_that_a_term_says(term: ledger.Term) -> None:
    """Of the main loop, and what follows it: with no other of these operations between, repeats apart."""
    kinds = r"ttng\.\w+|math\.exp2|scf\.yield|tt\.store"
    order = re.findall(kinds, main_loop_of_triton())
    asked = set(term.ttgir)
    found = [name for name, _ in groupby(name for name in order if name in asked)]
    assert any(tuple(found[start : start + len(term.ttgir)]) == term.ttgir for start in range(len(found))), found


@cache
def main_loop_of_triton() -> str:
    """TTGIR from the last loop on."""
    case = Case("test", ledger.FLAGSHIP, "triton", Problem.square(4, 16, 4096, 128), ledger.TRITONS)
    text = variants.compile_triton(case, MEASURED).asm["ttgir"]
    return text[text.rindex("scf.for") :]


RUN = {64: Tile(192, 128, 2, 12), 128: SQUARE}


def runs() -> list[Any]:
    """Of each ablation the builds in turn: `make test` runs one."""
    found = []
    for number, one in enumerate(ABLATIONS):
        builds = [
            (one.name, head_dim, causal)
            for head_dim, causal in product((128, 64), (True, False))
            if techniques.unsupported(one, "cuda", problem_of(head_dim, causal), tile_of(one.name, head_dim)) is None
        ]
        for position, build in enumerate(builds):
            marks = () if position == number % len(builds) else pytest.mark.full
            found.append(pytest.param(*build, marks=marks))
    return found


def problem_of(head_dim: int, causal: bool) -> Problem:
    """Ragged, of grouped heads."""
    return Problem(1, 4, 2, RUN[head_dim].block_m + 13, 3 * RUN[head_dim].block_n - 7, head_dim, "fp16", causal, "bshd")


def tile_of(name: str, head_dim: int) -> Tile:
    return ledger.TRITONS if name == ledger.VOCABULARY else RUN[head_dim]


@pytest.mark.parametrize(("name", "head_dim", "causal"), runs())
def test_it_is_right_in_two_orders_of_its_warps(name: str, head_dim: int, causal: bool) -> None:
    problem = problem_of(head_dim, causal)
    variant = variants.load(Case("test", name, "cuda", problem, tile_of(name, head_dim)), on="cpu")
    seeds = iter(range(100))

    def launch(*tensors: Any, **options: Any) -> None:
        variant.schedule(next(seeds) % 2)
        variant.launch(*tensors, **options)

    verdict = numerics.gate(launch, problem, distributions=("negative_scores",), device="cpu", repeats=2, padded=True)
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"
