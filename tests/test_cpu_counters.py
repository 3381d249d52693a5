"""Counters of the CPU runtime: what the kernels' own addresses do to the banks and sectors."""

from __future__ import annotations

from typing import Any

from cuda_kernels.cpu_library import totals
from harness.problem import Problem
from tests.cpu_run import run

PROBLEM = Problem(1, 1, 1, 128, 128, 128, "fp16")
BLOCKS = KEY_TILES = 2
WARPS, KEYS, DEPTH = 4, 64, 128


def count(name: str) -> list[dict[str, Any]]:
    result = run(name, PROBLEM, counters=True)
    assert result.code == 0, result.diagnosis
    return result.library.counters()


def of(sites: list[dict[str, Any]], mnemonic: str) -> list[dict[str, Any]]:
    return [site for site in sites if site["mnemonic"] == mnemonic]


def test_plain_rows_conflict_eightfold() -> None:
    """Rows of 256 bytes start in one bank: each 8x8 matrix takes eight passes instead of one."""
    (k_load,) = of(count("mma_ldmatrix"), "ldmatrix_x2")
    assert k_load["executions"] == BLOCKS * KEY_TILES * WARPS * (KEYS // 8) * (DEPTH // 16)
    assert k_load["wavefronts"] == k_load["executions"] * 2 * 8
    assert k_load["bank_conflicts"] == k_load["executions"] * 2 * 7
    addresses = k_load["example_addresses"]
    assert len({address % 128 for address in addresses[:8]}) == 1
    assert addresses[16:] == [None] * 16


def test_swizzled_rows_do_not_conflict() -> None:
    sites = count("xor_swizzle")
    assert totals(sites)["bank_conflicts"] == 0
    (k_load,) = of(sites, "ldmatrix_x2")
    assert {address % 128 // 16 for address in k_load["example_addresses"][:8]} == set(range(8))


def test_mma_count_is_the_work() -> None:
    for name in ("mma_ldmatrix", "cp_async_pipeline"):
        executed = totals(count(name))["executions"]["mma_m16n8k16"]
        assert executed * 2 * 16 * 8 * 16 == PROBLEM.flops


def test_bytes_by_path() -> None:
    """Q is read once, K and V once per block of 64 query rows, O and the log-sum-exp are written once."""
    tile = PROBLEM.seq_q * PROBLEM.head_dim * 2
    copied = totals(count("cp_async_pipeline"))["bytes"]
    assert copied["global_to_shared"] == tile + 2 * BLOCKS * tile
    assert copied["registers_to_global"] == tile + PROBLEM.seq_q * 4
    assert "global_to_registers" not in copied


def test_a_quad_fills_half_a_sector() -> None:
    """A fragment's row is four lanes of 4 bytes: 16 of a sector's 32 bytes."""
    stores = of(count("xor_swizzle"), "st_global")
    o_store = max(stores, key=lambda site: site["bytes"])
    assert o_store["sectors"] == 2 * o_store["least_sectors"]


def test_bulk_copies_are_bytes() -> None:
    """No lane addresses a bulk copy: it has bytes, and neither wavefronts nor sectors."""
    sites = count("tma_swizzle")
    loads = of(sites, "cp_async_bulk_tensor_load")
    tile = PROBLEM.seq_q * PROBLEM.head_dim * 2
    assert sum(site["bytes"] for site in loads) == tile + 2 * BLOCKS * tile
    assert not any("wavefronts" in site or "sectors" in site for site in loads)
    assert totals(sites)["bank_conflicts"] == 0
