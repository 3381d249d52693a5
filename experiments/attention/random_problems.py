"""Are the flagships of both ladders right on a thousand problems that nobody chose, and on some with few queries?

The problems are drawn at random, always the same ones: any lengths, one of three with as many keys as queries, up to
three batches and twelve heads, every head dimension, number format, mask and storage order, and rows of NaN after every
sequence. One of five is run again with up to 16 queries, there by three kernels of decode too. Some inputs have scores
of -inf. The tiles are those that `tune` or `waves` chose. Every kernel is checked, none is timed.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from dataclasses import replace
from functools import partial

from harness.catalog.entries import Experiment
from harness.catalog.experiments import distinct
from harness.operators.attention import waves
from harness.operators.attention.drawn import drawn
from harness.operators.attention.operator import OPERATOR
from harness.operators.attention.problem import Problem

DRAWN = distinct(partial(drawn, Problem))
FEW = tuple(dict.fromkeys(replace(one, seq_q=1 + one.seq_q % 16) for one in DRAWN[::5]))
"""One problem of five, with 1 to 16 queries."""
DECODE = ("flagship_decode", "short_fetches", "parts_at_once")

EXPERIMENT = Experiment(
    problems=(*DRAWN, *FEW),
    techniques=("flagship",),
    backends=("cuda",),
    peers=(),
    tiles=("best",),
    modes=(),
    distributions=(*OPERATOR.distributions, "hidden_keys"),
    cells=tuple((one, name, waves.decode_tile(one)) for one in FEW for name in DECODE),
    padded=True,
)
