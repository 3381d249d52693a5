"""Is core Triton right with roles once the barriers that nobody uses are invalidated, and how fast is it then?

For its roles Triton 3.6 makes barriers that no warp waits for, in memory that is K's. Beside producer_consumer in core
Triton, with two and with more stages, runs the same kernel with mbarrier.inval for each of them, by inline PTX, and the
one that Triton 3.9 compiles.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.problem import Problem

PROBLEMS = Problem.comparison_grid((4096,), (64, 128))
TILES = {
    64: (Tile(128, 128, 2, 8), Tile(128, 128, 3, 8), Tile(128, 128, 4, 8)),
    128: (Tile(128, 128, 2, 8), Tile(128, 64, 2, 8), Tile(128, 64, 3, 8), Tile(128, 64, 4, 8)),
}
"""head_dim -> tiles, by rows, keys, stages and warps."""

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    backends=("triton", "triton@3.9.0", "hatch"),
    peers=("sdpa_cudnn",),
    cells=tuple((problem, "producer_consumer", tile) for problem in PROBLEMS for tile in TILES[problem.head_dim]),
    one_group=True,
)
