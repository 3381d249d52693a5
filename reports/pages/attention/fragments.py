"""Which lane of a warp holds which score, as mma.m16n8k16 leaves them and as a softmax may want them.

Drawn are the first eight rows and sixteen keys; the other eight rows of a fragment are in the same lanes once more.
"""

from reports.facts.layouts import layout

KEYS = 16
MARKED = 1
SHOWN = ("register_softmax",)


def accumulator(row: int, key: int) -> int:
    """Of two C fragments side by side, 8 keys each: four lanes a row, two neighbours each. An A fragment of 16 keys is
    the same: registers 0 and 2 of a lane hold keys 2 * quad, the next, and both 8 further."""
    return row * 4 + key % 8 // 2


def half_a_warp(row: int, key: int) -> int:
    """Of 64 keys: 16 lanes a row, four neighbours each, and two rows at a time."""
    return row % 2 * 16 + key // 4


HOLDINGS = (
    layout("S, as Q K leaves it", "A row is in four lanes: two scores of every eight keys in each.", accumulator, KEYS),
    layout(
        "S, as half a warp wants it",
        "A row is in sixteen lanes. Nearly every score changes its lane: S and P pass through shared memory.",
        half_a_warp,
        KEYS,
    ),
    layout(
        "P, as P V takes it",
        "Where S was: a softmax in these lanes moves nothing, and two shuffles join the four of a row.",
        accumulator,
        KEYS,
    ),
)
