"""Is there a faster backward pass of attention on this GPU than the libraries', and where?

The flagship in CUDA and Gluon and half_steps run against cuDNN and flash-attn 4, with paired_tiles where that changes
something, with eighty_rows at head_dim 128 without a mask, and the rungs whose bits repeat against flash-attn 4 that
repeats its own: from 1024 tokens a sequence to 16384, at both head sizes, full and causal, with a head of K and V for
each query head (16384 tokens, 2048 columns of heads) or one for each eight of 64 (8192 tokens, or one sequence).
Times are from a cool GPU with a cold L2 cache. The experiment `correctness` has more gates.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog import techniques
from harness.catalog.entries import Experiment
from harness.operators.attention_backward.problem import Problem

LENGTHS = (1024, 2048, 4096, 8192, 16_384)
SINGLE = Problem.comparison_grid(LENGTHS, (64, 128))
GROUPED = tuple(
    Problem(max(1, 8192 // seq), 64, 8, seq, seq, head_dim, causal=causal)
    for seq in LENGTHS
    for head_dim in (64, 128)
    for causal in (False, True)
)
PROBLEMS = (*SINGLE, *GROUPED)  # every fourth has one head size and mask: a shard of four builds each rung once
WHERE = {
    "deterministic": PROBLEMS,
    "ordered_halves": PROBLEMS,
    "half_steps": PROBLEMS,
    "paired_tiles": tuple(one for one in GROUPED if one.causal and one.head_dim == 64),
    "eighty_rows": tuple(one for one in PROBLEMS if not one.causal and one.head_dim == 128),
}
RUNGS = tuple(techniques.get(f"attention_backward/{name}") for name in WHERE)

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("flagship",),
    backends=("cuda", "gluon"),
    cells=tuple(
        (problem, rung.name, techniques.reference_tile(rung, problem.tile_key), "cuda")
        for problem in PROBLEMS
        for rung in RUNGS
        if problem in WHERE[rung.name]
    ),
    peers=("sdpa_cudnn", "fa4", "fa4_deterministic"),
    distributions=("shifted",),
    one_group=True,
)
