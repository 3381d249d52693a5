"""Is the flagship right on a thousand products that nobody chose?

They are drawn at random, always the same ones: any number of rows, columns and steps of k in multiples of 8, every
number format and epilogue, C in either dtype, and NaN behind every row. Every kernel is checked and none is timed.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from collections.abc import Callable, Sequence

from harness.catalog.entries import Experiment
from harness.catalog.experiments import distinct
from harness.operators.gemm.problem import ALIGNED, DTYPES, EPILOGUES, OUTPUTS, Problem

LARGEST = 3000
"""Rows, columns, and steps of k."""


def drawn(draw: Callable[[], float]) -> Problem:
    """A problem. `draw` gives numbers from 0 to 1."""

    def up_to(most: int) -> int:
        return 1 + int(most * draw())

    def one_of(choices: Sequence[str]) -> str:
        return choices[int(len(choices) * draw())]

    m, n, k = up_to(LARGEST), ALIGNED * up_to(LARGEST // ALIGNED), ALIGNED * up_to(LARGEST // ALIGNED)
    return Problem(m, n, k, one_of(DTYPES), one_of(EPILOGUES), one_of(OUTPUTS))


EXPERIMENT = Experiment(
    problems=distinct(drawn),
    techniques=("flagship",),
    backends=("cuda",),
    peers=(),
    tiles=("chosen",),
    modes=(),
    padded=True,
)
