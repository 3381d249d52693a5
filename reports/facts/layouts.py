"""Three layouts of a tile in shared memory, and how many passes over the banks one ldmatrix needs in each.

A row of 64 numbers of 16 bits is eight pieces of 16 bytes; eight groups of four banks serve one piece each in a pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

SIZE = 8
ASKED = 2
"""The piece that the drawn ldmatrix needs of each row."""
SHOWN = ("mma_ldmatrix", "xor_swizzle", "padded_rows", "tma_swizzle")


@dataclass(frozen=True)
class Layout:
    """`rows`: per row of the tile the number drawn at each place; `asked`: how often a group of banks is asked."""

    title: str
    text: str
    rows: tuple[tuple[int, ...], ...]

    @property
    def asked(self) -> tuple[int, ...]:
        return tuple(sum(row[group] == ASKED for row in self.rows) for group in range(SIZE))

    @property
    def passes(self) -> int:
        return max(self.asked)


def layout(title: str, text: str, piece: Callable[[int, int], int], columns: int = SIZE) -> Layout:
    """`piece(row, column)`: the number that the drawing shows there."""
    return Layout(title, text, tuple(tuple(piece(row, column) for column in range(columns)) for row in range(SIZE)))


LAYOUTS = (
    layout(
        "Straight rows",
        "A row is 128 bytes, as long as all banks together, so a column of pieces lies in one group.",
        lambda row, group: group,
    ),
    layout(
        "XOR swizzle",
        "Piece c of row r lies at place c XOR r. No byte is added; writing and reading use the same formula.",
        lambda row, group: group ^ row,
    ),
    layout(
        "Padded rows",
        "Rows of 144 bytes: each begins four banks further on, at the price of 16 bytes a row.",
        lambda row, group: (group - row) % SIZE,
    ),
)
