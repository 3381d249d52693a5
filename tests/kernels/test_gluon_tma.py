"""What is left of the tma ladder in Gluon by its compiler and the assembler: who waits for whom, who has which
registers, and what stands in the lock.

They need a GPU to run: the gates of `correctness` judge them there, and their rows stand with all others.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from harness.build import instruction_order
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.expressibility.child import disassembled
from harness.operators.attention.problem import Problem
from tests.support import gluon

pytestmark = pytest.mark.spread

NAMES = [one.name for one in techniques.TECHNIQUES if one.ladder == "tma" and sources.has_series("gluon", one.path)]
MASKS = {"full": False, "causal": True}
SWIZZLES = {name: "0" if name == "tma_loads" else "128" for name in NAMES}
"""Bytes that a descriptor swizzles over."""
WAITED_BY = {
    "tma_loads": {"bar.sync 0"},
    "tma_swizzle": {"bar.sync 0"},
    "mbarrier_ring": {"bar.sync 0"},
    "warp_specialized": {"bar.sync 0, 256"},
    "setmaxnreg_consumers": {"bar.sync 0, 128", "bar.sync 2, 128"},
    "softmax_lock": {"bar.sync 0, 128", "bar.sync 2, 128"},
}
"""The barriers between products: of the block, of the eight consumer warps, of each of two warpgroups."""


def cell(name: str, causal: bool = False, head_dim: int = 128) -> tuple[str, Problem, Tile]:
    problem = Problem.square(4, 16, 4096, head_dim, causal=causal)
    return name, problem, techniques.reference_tile(techniques.get(name), head_dim)


def texts(name: str, causal: bool = False, head_dim: int = 128) -> dict[str, Any]:
    return gluon.compiled(*cell(name, causal, head_dim)).asm


def main_loop(name: str, causal: bool, head_dim: int) -> instruction_order.Code:
    sass, _ = disassembled(texts(name, causal, head_dim)["cubin"])
    found = instruction_order.main_loop(sass)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_tma_swizzles_as_the_descriptor_says_and_ldmatrix_reads_it(name: str) -> None:
    assert set(re.findall(r"swizzlingByteWidth = (\d+)", texts(name)["ttgir"])) == {SWIZZLES[name]}
    census = gluon.code(*cell(name))["census"]
    assert census["UTMALDG"] > 0
    assert census["LDSM"] > 0
    assert census["LDSM.T"] > 0
    assert census["HMMA"] > 0
    assert census["HGMMA"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_who_waits_for_whom(name: str) -> None:
    """The compiler has a barrier of all that run a program before each arrival."""
    kinds = r"bar\.sync[^;]*|mma\.sync|mbarrier\.arrive\.shared"
    words = [" ".join(one.split()) for one in re.findall(kinds, texts(name)["ptx"])]
    products = [number for number, word in enumerate(words) if word == "mma.sync"]
    between = words[products[0] : products[-1] + 1]
    assert {word for word in between if word.startswith("bar.sync")} == WAITED_BY[name]
    before = {words[number - 1] for number, word in enumerate(words) if word == "mbarrier.arrive.shared"}
    assert before == (WAITED_BY[name] if name not in ("tma_loads", "tma_swizzle") else set())


@pytest.mark.parametrize("name", NAMES)
def test_consumers_have_what_the_launch_has_until_registers_move(name: str) -> None:
    roles = texts(name)["ptx"].partition("barrier.sync")[2]
    consumers = re.search(r"setmaxnreg\S+\s+(\d+)", roles)
    expected = {"warp_specialized": 168, "setmaxnreg_consumers": 240, "softmax_lock": 240}
    assert (int(consumers[1]) if consumers else None) == expected.get(name)


LETTERS = {"SYNCS.PHASECHK": "W", "SYNCS.ARRIVE": "A", "HMMA": "P", "MUFU.EX2": "E"}


@pytest.mark.parametrize(("mask", "head_dim"), list(product(MASKS, (64, 128))))
def test_the_lock_encloses_the_exponentials(mask: str, head_dim: int) -> None:
    """They stand behind a wait, perhaps with the last products of Q K^T, and an arrival follows before the next
    product."""
    for name, has_lock in (("setmaxnreg_consumers", False), ("softmax_lock", True)):
        loop = main_loop(name, MASKS[mask], head_dim)
        order = "".join(letter for one in loop for opcode, letter in LETTERS.items() if one.is_a(opcode))
        locked = re.search(r"WP*(E+)A", order + order)
        assert bool(locked and len(locked[1]) == order.count("E")) == has_lock, order


@pytest.mark.parametrize("name", NAMES)
def test_no_program_is_secretly_an_earlier_one(name: str) -> None:
    found = {one: gluon.machine_code_of(*cell(one, causal=True))["sass_sha256"] for one in NAMES}
    assert [other for other in NAMES[: NAMES.index(name)] if found[other] == found[name]] == []
