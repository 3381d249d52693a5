"""Do the general rungs take any length, and leave their neighbours alone?

Problems have lengths next to multiples of the tile, prime lengths, and a single token; as many keys as queries, fewer
and more; grouped heads; and rows of NaN after every sequence. Every kernel is checked and none is timed. Number formats
and storage orders alternate, so that each pair of them meets every head dimension and mask. Two problems have enough
heads that a persistent block of an H200 takes several tiles.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from itertools import product

from harness.catalog.entries import Experiment
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.problem import DTYPES, LAYOUTS, Problem

LENGTHS = (
    *((length, length) for length in (1, 2, 63, 64, 65, 113, 127, 128, 129, 203, 257, 1023, 1025)),
    *((1, 1025), (1025, 1), (113, 203), (203, 113), (128, 257), (257, 128)),
    *((255, 255), (256, 256)),
)
"""(seq_q, seq_kv). Append new ones: number formats and storage orders are assigned by position."""
TURNS = tuple(product(DTYPES, LAYOUTS))
SEVERAL_TILES = (
    Problem(3, 24, 8, 700, 911, 128, "bf16", True, "bshd"),
    Problem(3, 24, 8, 700, 911, 256, "fp16", False),
)
"""More than two tiles of 192 queries for each multiprocessor."""


def problems() -> tuple[Problem, ...]:
    cells = enumerate(product(LENGTHS, (64, 128, 256), (False, True)))
    turns = [(TURNS[(number + number // 6) % len(TURNS)], cell) for number, cell in cells]
    lengths = (
        Problem(2, 4, 2, seq_q, seq_kv, head_dim, dtype, causal, layout)
        for (dtype, layout), ((seq_q, seq_kv), head_dim, causal) in turns
    )
    return (*lengths, *SEVERAL_TILES)


EXPERIMENT = Experiment(
    problems=problems(),
    techniques=tuple(technique.name for technique in TECHNIQUES if technique.general),
    peers=(),
    modes=(),
    padded=True,
)
