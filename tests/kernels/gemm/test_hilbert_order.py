"""The curve of hilbert_order has every tile of C once, and what is near on it is near in C, in both languages."""

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import pairwise, product

import pytest

from harness.operators.gemm.arguments import GemmArgs
from harness.operators.gemm.problem import Problem
from tests.support import children, hilbert_places, together

BLOCK_M, BLOCK_N = 128, 256
TILE_AT = """
EXPORT void tile_at(const GemmArgs* args, int number, int* place) {
  const Tile tile = hilbert_tile(*args, number);
  place[0] = tile.row / BLOCK_M, place[1] = tile.col / BLOCK_N;
}
"""


@cache
def tile_at() -> Callable[..., None]:
    def read(file: str) -> str | None:
        text = together.as_it_is(file)
        return f"{text}{TILE_AT}" if file == "gemm/hopper/hilbert_order.cu" else text

    return together.build([together.Kernel("hilbert_order", Problem(1, 264, 8, "fp16"), read=read)])[0].handle.tile_at


def cuda(m: int, n: int) -> list[tuple[int, int]]:
    found = []
    for number in range(-(-m // BLOCK_M) * -(-n // BLOCK_N)):
        place = (ctypes.c_int * 2)()
        tile_at()(ctypes.byref(GemmArgs(m=m, n=n, k=8)), number, place)
        found.append((place[0], place[1]))
    return found


def triton(m: int, n: int) -> list[tuple[int, int]]:
    return children.call(hilbert_places.places, m, n, BLOCK_M, BLOCK_N, environment={"TRITON_INTERPRET": "1"})


@pytest.mark.parametrize("places", [cuda, triton])
def test_every_tile_of_any_c_is_on_the_curve_once(places: Callable[[int, int], list[tuple[int, int]]]) -> None:
    for rows, columns in ((1, 7), (9, 1), (5, 3), (4, 6)):
        found = places(rows * BLOCK_M - 8, columns * BLOCK_N - 8)
        assert sorted(found) == [*product(range(rows), range(columns))]


@pytest.mark.parametrize("places", [cuda, triton])
def test_next_on_the_curve_is_next_in_c(places: Callable[[int, int], list[tuple[int, int]]]) -> None:
    """In a square of 8 x 8 squares of two tiles, one below the other."""
    found = places(16 * BLOCK_M, 8 * BLOCK_N)
    assert found[1::2] == [(row + 1, column) for row, column in found[::2]]
    steps = [abs(a - c) // 2 + abs(b - d) for (a, b), (c, d) in pairwise(found[::2])]
    assert steps == [1] * 63
