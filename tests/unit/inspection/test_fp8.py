"""The arithmetic of 8 bits: roundings, sums and the order of keys are those of the hardware, and prices are apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.inspection import fp8
from harness.operators.attention import inputs
from harness.rows import schema


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    whole = {"schema": 2, "environment": "one", "time": "2026-01-01T00:00:00Z", **fp8.row()}
    schema.check(whole)
    return whole


def test_the_prices_of_inputs_and_of_the_kernel_are_apart(row: dict[str, Any]) -> None:
    assert set(row["numerics"]) == set(inputs.DISTRIBUTIONS)
    normal, outliers, peaked, equal = (
        row["numerics"][name] for name in ("normal", "outliers", "large_logits", "constant_rows")
    )
    assert 10 * normal["bf16"] < normal["p"] < normal["tensor"] < 0.1
    assert outliers["rotated"] < outliers["block"] < outliers["tensor"]
    assert peaked["p_scaled"] < 0.5 * peaked["p"]
    assert equal["p"] < 1e-12 < equal["sums"], "P is 1 and V is of 8 bits: only sums round"
    assert all(of["p lse"] < 1e-12 <= of["sums lse"] for of in row["numerics"].values())


def test_elements_are_rounded_to_four_bits_of_their_own_size() -> None:
    values = torch.linspace(0.02, 1, 1000, dtype=torch.float64)[:, None]
    rounded = fp8.quantized(values, 1000)
    assert ((rounded / values - 1).abs() <= 2**-4).all()
    assert rounded.max() == 1
    assert fp8.quantized(torch.zeros(4, 4), 2).equal(torch.zeros(4, 4, dtype=torch.float64))


def test_each_block_of_rows_has_its_scale() -> None:
    values = torch.cat([torch.full((2, 3), 1000.0), torch.full((2, 3), 1e-3)])
    torch.testing.assert_close(fp8.quantized(values, 2), values.double())
    assert fp8.quantized(values, 4)[2:].max() == 0


def test_a_rotation_keeps_products_and_spreads_an_outlier() -> None:
    turn = fp8.rotation(128)
    torch.testing.assert_close(turn @ turn.T, torch.eye(128, dtype=torch.float64))
    outlier = torch.eye(128, dtype=torch.float64)[:1] * 100
    assert (outlier @ turn).abs().max() < 9


def test_sums_lose_what_is_small_beside_them() -> None:
    small = 2.0 ** -(fp8.SUM_BITS + 1)
    row = torch.ones(1, fp8.DEPTH)
    ones = torch.ones(fp8.DEPTH, 1)
    ones[1:] = small
    assert fp8.product(row, ones) == 1, "each of 31 summands is below the last bit"
    ones[1:] = 2 * small
    assert fp8.product(row, ones) == 1 + 62 * small
    exact = torch.randint(-8, 9, (3, 64)).float()
    assert fp8.product(exact, exact.T).equal(exact @ exact.T)


def test_p_is_an_operand_without_a_shuffle() -> None:
    """wgmma.cuh: a lane's accumulators are the columns 8 j + 2 t and the next, its bytes of A 16 h + 4 t to + 3."""
    assert sorted(map(fp8.key_in_slot, range(fp8.DEPTH))) == list(range(fp8.DEPTH))
    for quad in range(4):
        has = {8 * column + 2 * quad + next_ for column in range(fp8.DEPTH // 8) for next_ in (0, 1)}
        gives = [16 * half + 4 * quad + byte for half in (0, 1) for byte in range(4)]
        assert {fp8.key_in_slot(slot) for slot in gives} == has
