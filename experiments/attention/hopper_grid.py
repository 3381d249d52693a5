"""Is there a faster attention forward on this GPU?

The flagship in CUDA, Triton and Gluon runs against cuDNN, FlashAttention-3 and flash-attn 4, at every point of the grid
on which these are usually compared: batch * seq = 16384, heads * head_dim = 2048, from 512 tokens to 16384. At
head_dim 256, and without a mask in short sequences at head_dim 128, another Triton kernel of the ladder can be faster
than the flagship's Triton twin. So it runs there too, up to 4096 tokens at head_dim 128. With a causal mask the twin
itself may be faster with fewer registers a thread: at head_dim 128 over long sequences with more rows, and at head_dim
64, where one more program then shares a multiprocessor. Roles in other forms ran faster in trials: lasting_roles at
head_dim 128 without a mask, host_descriptors over long sequences at head_dim 256. So did ascending_keys with a causal
mask, over long sequences at head_dim 128, and with 1024 tokens at head_dim 64. In Gluon thread_rescale can be faster at
head_dim 128 and 256, and in short causal sequences the flagship with fewer keys, or tma_store.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.problem import Problem

PROBLEMS = Problem.comparison_grid((512, 1024, 2048, 4096, 8192, 16_384))

EXPERIMENT = Experiment(
    problems=PROBLEMS,
    techniques=("flagship",),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "fa3", "fa4"),
    tiles=("reference", "best"),
    cells=(
        *(
            (problem, "producer_consumer", Tile(128, 64, 1, 8), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 256 and (problem.causal or problem.seq_q >= 2048)
        ),
        *(
            (problem, "tma_store", Tile(64, 128, 1, 4), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 128 and not problem.causal and problem.seq_q <= 4096
        ),
        *(
            (problem, "lasting_roles", Tile(128, 128, 2, 8), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 128 and not problem.causal
        ),
        *(
            (problem, "host_descriptors", Tile(128, 64, 2, 8), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 256 and problem.seq_q >= (2048 if problem.causal else 8192)
        ),
        *(
            (problem, "ascending_keys", Tile(64, 128, 1, 4), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 128 and problem.causal and problem.seq_q >= 4096
        ),
        *(
            (problem, "ascending_keys", Tile(64, 128, 1, 4, (("maxnreg", 128),)), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 64 and problem.causal and problem.seq_q == 1024
        ),
        *(
            (problem, "flagship", Tile(128, 64, 2, 8, (("maxnreg", 128),)), "triton")
            for problem in PROBLEMS
            if problem.head_dim == 128 and problem.causal and problem.seq_q >= 4096
        ),
        *(
            (problem, "flagship", tile, "triton")
            for problem in PROBLEMS
            for tile, lengths in (
                (Tile(64, 64, 2, 4, (("maxnreg", 96),)), (512,)),
                (Tile(64, 128, 1, 4, (("maxnreg", 128),)), (1024, 2048, 4096, 8192, 16_384)),
            )
            if problem.head_dim == 64 and problem.causal and problem.seq_q in lengths
        ),
        *(
            (problem, "thread_rescale", Tile(128, 128 if problem.head_dim == 128 else 64, 2, 8), "gluon")
            for problem in PROBLEMS
            if problem.head_dim > 64 and not (problem.causal and problem.seq_q * problem.head_dim <= 1024 * 128)
        ),
        *(
            (problem, name, tile, "gluon")
            for problem in PROBLEMS
            for length, head_dim, name, tile in (
                (512, 128, "flagship", Tile(128, 64, 3, 8)),
                (1024, 128, "flagship", Tile(128, 64, 3, 8)),
                (1024, 64, "tma_store", Tile(128, 128, 3, 8)),
            )
            if problem.causal and (problem.seq_q, problem.head_dim) == (length, head_dim)
        ),
    ),
)
