"""Ablations: kernels of attention_backward/ablations, each a patch on a rung, that carry a term of the gap between core
Triton's best kernel and the flagship (prices.py). They have no Triton twin and are in no ladder. Plain data,
standard library only."""

from harness.catalog.entries import Ablation
from harness.operators.attention_backward.ladders.hopper import LADDER
from harness.operators.attention_backward.limits import DQ_BUFFER, GENERAL, RING, TWO_WARPGROUPS


def _ablation(name: str, idea: str, rung: str, *lacks: str) -> Ablation:
    return Ablation(
        name,
        idea,
        builds_on=(rung,),
        limits=(*GENERAL, TWO_WARPGROUPS, RING, DQ_BUFFER),
        repeats=False,
        lacks=lacks,
    )


ABLATIONS = LADDER.rungs(
    _ablation("without_dp_in_flight", "dP is awaited with S, before the exponentials", "overlapped", "dp_in_flight"),
    _ablation(
        "without_reducing_warp",
        "one thread of each warpgroup that multiplies adds its dQ",
        "overlapped",
        "reducing_warp",
    ),
    _ablation(
        "consumers_reduce",
        "the same in bulk_reduce, where all products are awaited at once",
        "bulk_reduce",
        "reducing_warp",
    ),
    _ablation(
        "triton_program",
        "core Triton's program in CUDA: equal warps, all products awaited at once, bulk additions by the same warps",
        "transposed_scores",
    ),
)
