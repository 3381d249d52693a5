"""Gluon kernels of attention's backward pass: their compiler and the assembler leave of them what the source states."""

import importlib
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
import triton

from harness import operators
from harness.build import machine_code
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.inspection import survey
from harness.operators.attention_backward.problem import Problem
from tests.support import children, proven

pytestmark = pytest.mark.spread

BACKWARD = operators.get("attention_backward")
RUNGS = [one.name for one in BACKWARD.techniques if sources.has_series("gluon", one.path)]
CELLS = list(product((64, 128), (False, True)))


def module(name: str) -> Any:
    return importlib.import_module(f"triton_kernels.attention_backward.gluon.hopper.{name}")


@cache
def code(name: str, head_dim: int, causal: bool) -> dict[str, Any]:
    """What is recorded of a rung's machine code at its reference tile; where nothing is, what is compiled."""
    problem = Problem.square(4, 2048 // head_dim, 4096, head_dim, causal=causal)
    tile = techniques.reference_tile(techniques.get(f"attention_backward/{name}"), problem.tile_key)
    row = proven.code((Case("inspect", name, "gluon", problem, tile), survey.MEASURED))
    return row or machine_code.read_triton(module(name).twin.specialize(problem, None, tile, "sm_90a").compile())


@pytest.mark.parametrize(("name", "cell"), list(product(RUNGS, CELLS)))
def test_products_stay_in_flight_and_registers_suffice(name: str, cell: tuple[int, bool]) -> None:
    """A number or two that do not fit pass through local memory in the rungs with a branch; no accumulator does."""
    found = code(name, *cell)
    assert not found["main_loop"]["serialized"]
    assert found["main_loop"]["local_memory"] <= (0 if name in ("bulk_reduce", "overlapped") else 4)
    assert found["setmaxnreg"] == [24, 240]


@pytest.mark.parametrize("cell", CELLS)
def test_a_mask_apart_holds_all_exponentials_under_products(cell: tuple[int, bool]) -> None:
    found = {name: code(name, *cell)["main_loop"] for name in RUNGS}
    under = {name: loop["under_products"]["exponentials"] for name, loop in found.items()}
    everything = found["overlapped"]["all"]["exponentials"]
    assert under["bulk_reduce"] == 0 < under["overlapped"] < everything
    assert under["mask_apart"] == under["longest_first"] == everything
    assert (under["flagship"] == everything) is cell[1], "without a causal mask it has no branch"


@pytest.mark.parametrize(("name", "cell"), list(product(RUNGS, CELLS)))
def test_the_flagship_ends_a_step_under_the_next_products(name: str, cell: tuple[int, bool]) -> None:
    sequence = code(name, *cell)["main_loop"]["sequence"]
    assert ("wgmma, bar.sync, mbarrier arrive, wait 1" in sequence) == (name == "flagship")


def converted(head_dim: int, block_m: int) -> float:
    """The largest error of dQ in fp16 from sums that lie as the kernel stores them. Runs with TRITON_INTERPRET."""
    shared = importlib.import_module("triton_kernels.attention_backward.gluon_warpgroups")
    batch, heads, seq, rows = 2, 3, 200, 384
    dq = torch.randn(batch * heads, rows // block_m, block_m, head_dim)
    place = torch.arange(8192)
    row, column = torch.zeros(2, 8192, dtype=torch.long)
    for bit, (down, right) in enumerate(shared.in_register_order(block_m).offset_bases):
        row, column = row + (place >> bit & 1) * down, column + (place >> bit & 1) * right
    sums = dq[:, :, row, column].contiguous()
    got = torch.full((batch, heads, seq, head_dim), float("nan"), dtype=torch.float16)
    programs = batch * heads * triton.cdiv(seq, block_m) * 2
    shared.convert_dq_tiles[(programs,)](got, sums, 0.5, heads, seq, rows, *got.stride()[:3], head_dim, block_m)
    expected = 0.5 * dq.view(batch, heads, rows, head_dim)[:, :, :seq]
    return (got - expected.half()).abs().max().item()


@pytest.mark.parametrize(("head_dim", "block_m"), [(128, 64), (64, 128)])
def test_sums_in_the_order_of_registers_become_rows(head_dim: int, block_m: int) -> None:
    assert children.call(converted, head_dim, block_m, environment={"TRITON_INTERPRET": "1"}) == 0
