"""How near to the memory's speed is attention of few queries over many keys?

One, 4 and 16 queries over 1k to 64k keys, in 1 to 64 batches, with 32 query heads on 8 or on 32 heads of K and V.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout

from itertools import product

from harness.catalog.entries import Experiment
from harness.operators.attention.ladders.decode import TECHNIQUES
from harness.operators.attention.problem import Problem

LARGEST_BYTES = 16 * 2**30
"""Of K and V: what fits an 80 GB GPU beside guard bands and copies."""


def problems() -> tuple[Problem, ...]:
    cells = product((1, 4, 16), (1024, 8192, 65_536), (1, 16, 64), (8, 32))
    all_of_them = (
        Problem(batch, 32, heads_kv, seq_q, seq_kv, 128, "bf16", True) for seq_q, seq_kv, batch, heads_kv in cells
    )
    return tuple(one for one in all_of_them if one.bytes <= LARGEST_BYTES)


EXPERIMENT = Experiment(
    name="decode",
    problems=problems(),
    techniques=("flagship", *(technique.name for technique in TECHNIQUES)),
    backends=("cuda", "triton", "gluon"),
    peers=("sdpa_cudnn", "fa2", "fa3"),
    tiles=("reference", "best"),
)

if __name__ == "__main__":
    from harness.setup.script import become

    become("run", EXPERIMENT.name)
