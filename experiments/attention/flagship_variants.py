"""Does any of seven changes make the flagship faster?

Each variant runs beside the flagship, at the flagship's tile. Exponentials: MUFU is busy for as long as the tensor
cores at head_dim 64, so polynomials on the FMA pipe compute two of sixteen, as in flash-attn-4 on Blackwell. Maxima: no
vote on the sign of a row's scores, or a vote that ends once no row maximum is negative. Tiles: a block's number says
which are its own, instead of a counter in global memory; or the producer asks for the last V of a tile while the next
number is on its way. Loads: hints tell L2 to evict Q first, K and V last. The second buffer of Q is left out of an
earlier rung, persistent, also at a tile of 128 rows at head_dim 128: the shorter the sequence, the larger the share of
what lies between two tiles.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog import techniques
from harness.catalog.entries import Experiment
from harness.operators.attention.gap import SQUARE
from harness.operators.attention.problem import Problem

PROBLEMS = Problem.comparison_grid((16_384, 4096, 1024), (128, 64))
PERSISTENT = ("persistent", "without_second_q_buffer")

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("flagship",),
    backends=("cuda",),
    peers=("sdpa_cudnn",),
    tiles=("best",),
    at_its_tile=(
        *("with_polynomials", "without_vote", "without_repeated_vote", "without_counter", "with_number_in_flight"),
        "with_cache_hints",
    ),
    cells=tuple(
        (problem, name, tile)
        for problem in PROBLEMS
        for name in PERSISTENT
        for tile in (
            techniques.reference_tile(techniques.at(name, problem), problem.head_dim),
            *([SQUARE] if problem.head_dim == 128 else []),
        )
    ),
    one_group=True,
)
