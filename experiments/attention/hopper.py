"""What does each step with wgmma gain, from short sequences to long ones?

Every rung of the wgmma ladder runs in each language, at its reference tile and at the tile tuned for the length, beside
the fastest attention libraries for this GPU. pinned_maxima and its parent also run at 128x128, where two warpgroups
leave more to gain. The number of tokens and the model width stay the same (batch * seq = 16384, heads * head_dim =
2048).
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.ladders.hopper import TECHNIQUES
from harness.operators.attention.problem import Problem

PROBLEMS = Problem.comparison_grid((4096, 1024, 16_384, 512))

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=tuple(technique.name for technique in TECHNIQUES),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "fa3", "fa4"),
    tiles=("reference", "best"),
    cells=tuple(
        (problem, name, Tile(128, 128, 2, 8))
        for problem in PROBLEMS
        if (problem.seq_q, problem.head_dim) == (4096, 128)
        for name in ("wide_tile", "pinned_maxima")
    ),
)
