"""Are the gradients right on a thousand problems that nobody chose, whether their bits may vary or must repeat?

They are drawn at random, always the same ones: any lengths, one of three with as many keys as queries, up to three
batches and twelve heads, both head dimensions, every number format, mask and storage order, and rows of NaN after every
sequence. Every kernel is checked and none is timed.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from functools import partial

from harness.catalog.entries import Experiment
from harness.catalog.experiments import distinct
from harness.operators.attention.drawn import drawn
from harness.operators.attention_backward.problem import Problem

PROBLEMS = distinct(partial(drawn, Problem, head_dims=(64, 128)))

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("half_steps", "eighty_rows", "paired_tiles", "deterministic", "ordered_halves"),
    where={"eighty_rows": tuple(one for one in PROBLEMS if one.head_dim == 128 and not one.causal)},
    backends=("cuda",),
    peers=(),
    tiles=("chosen",),
    modes=(),
    distributions=("shifted", "outliers", "negative_scores"),
    padded=True,
)
