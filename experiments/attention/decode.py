"""How near to the memory's speed is attention of few queries over many keys?

One, 4 and 16 queries over 1k to 64k keys, in 1 to 64 batches, with 32 query heads on 8 or on 32 heads of K and V.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from itertools import product

from harness.catalog.entries import Experiment
from harness.catalog.techniques import get, reference_tile
from harness.operators.attention import waves
from harness.operators.attention.ladders.decode import TECHNIQUES
from harness.operators.attention.problem import Problem

LARGEST_BYTES = 4 * 2**30
"""Of a problem: an exact result of a larger one takes longer than all the timing."""
ALONE = Problem(1, 32, 8, 1, 8192, 128, "bf16")
"""On which every rung of the ladder is timed, and what it starts from. The flagship is on all problems, at the tile
that `flash_attention` takes, and so is its CUDA kernel that fetches less on a miss."""


def problems() -> tuple[Problem, ...]:
    """Without a mask: cuDNN aligns a causal one top left, and a single query sees every key in any case."""
    cells = product((1, 4, 16), (1024, 8192, 65_536), (1, 16, 64), (8, 32))
    all_of_them = (Problem(batch, 32, heads_kv, seq_q, seq_kv, 128, "bf16") for seq_q, seq_kv, batch, heads_kv in cells)
    return tuple(one for one in all_of_them if one.bytes <= LARGEST_BYTES)


BEFORE = get("attention/general_shapes")
*RUNGS, FLAGSHIP, SHORT_FETCHES, PARTS_AT_ONCE = TECHNIQUES
JOINED = tuple(one for one in problems() if one.seq_kv == 1024 or (one.batch, one.heads_kv) == (1, 8))
"""Short caches, where a join takes much of the time, and a few long ones: the kernel that joins at once is on these."""
EXPERIMENT = Experiment(
    problems=problems(),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "sdpa_flash", "fa3"),
    distributions=("normal",),
    cells=(
        *((ALONE, rung.name, reference_tile(rung, ALONE.head_dim)) for rung in (BEFORE, *RUNGS)),
        *((one, FLAGSHIP.name, waves.decode_tile(one)) for one in problems()),
        *((one, SHORT_FETCHES.name, waves.decode_tile(one), "cuda") for one in problems()),
        *((one, PARTS_AT_ONCE.name, waves.decode_tile(one), "cuda") for one in JOINED),
    ),
    one_group=True,
)
