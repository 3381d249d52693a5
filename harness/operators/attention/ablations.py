"""Ablations: kernels of attention/ablations, each a patch on the flagship, or on another kernel, that takes out one
technique, or two. Plain data, standard library only.

They have no Triton twin and are in no ladder. Together with the ladder's steps from below they say what each technique
is worth (what_triton_misses). The counter is a part of one, persistent blocks, and the vote of another,
integer maxima; the experiment flagship_variants times kernels without them. So it does of the flagship in which MUFU
does not compute all exponentials, the one that does not wait for a number from the counter, the one with hints for L2,
and persistent blocks with one buffer of Q.
"""

from harness.catalog.entries import Ablation, Limit
from harness.operators.attention.ladders.hopper import (
    FLAGSHIP_LIMITS,
    LADDER,
    SHARED_MEMORY,
    WARPGROUP_ROWS,
    WARPGROUPS,
    WGMMA_COLUMNS,
)
from harness.operators.attention.limits import HEAD_DIM, RING, SHARED_MEMORY_BYTES, one_q_buffer

LAZY = Limit(
    "*",
    "at head_dim 64 the flagship does not rescale lazily: there is nothing to leave out",
    lambda problem, tile: problem.head_dim == 64,
)
DIAGONAL = Limit(
    "*",
    "without a causal mask there is no diagonal: there is nothing to leave out",
    lambda problem, tile: not problem.causal,
)
SECOND_Q_BUFFER = Limit(
    "*",
    f"where {SHARED_MEMORY_BYTES} bytes do not hold two buffers of Q and the rings of K and V, persistent has one: "
    "there is nothing to leave out",
    one_q_buffer,
)
POWERS_OF_TWO = Limit(
    "cuda",
    "core Triton's tensors and warps come in powers of two: block_n and warps must be such",
    lambda problem, tile: any(size & size - 1 for size in (tile.block_n, tile.warps)),
)
BLOCK_LIMITS = (HEAD_DIM, WARPGROUPS, WARPGROUP_ROWS, WGMMA_COLUMNS, SHARED_MEMORY)
VOCABULARY_LIMITS = (*BLOCK_LIMITS, POWERS_OF_TWO)


def _without(
    *lacks: str,
    idea: str,
    name: str = "",
    limits: tuple[Limit, ...] = (),
    serialized: bool = False,
    rung: str = "flagship",
) -> Ablation:
    return Ablation(
        name or f"without_{'_or_'.join(lacks)}",
        idea,
        builds_on=(rung,),
        limits=(HEAD_DIM, *limits, *FLAGSHIP_LIMITS),
        lacks=lacks,
        serialized=serialized,
    )


ABLATIONS = LADDER.rungs(
    _without("turns", idea="warpgroups issue their products when they come to them"),
    _without("overlap", idea="S and the P V of before are both awaited before the softmax"),
    _without("pinned_maxima", idea="K is handed back as soon as its product is there"),
    _without("persistent", idea="a block for each tile of queries"),
    _without("idle_warpgroups", idea="a warpgroup without a query multiplies zeros"),
    _without("own_diagonal", idea="every warpgroup works on all tiles of keys of its block", limits=(DIAGONAL,)),
    _without("lazy_rescale", idea="O is multiplied in every step", limits=(LAZY,)),
    _without("early_rescale", idea="O is multiplied behind the wait for the P V of before", limits=(LAZY,)),
    _without("integer_max", idea="maxima of floats, two at a time"),
    _without("vote", idea="maxima of floats until no row maximum is negative, then of integers"),
    _without("vote", idea="warps vote until no row maximum is negative", name="without_repeated_vote"),
    _without("mufu", idea="two exponentials of sixteen are polynomials on the FMA pipe", name="with_polynomials"),
    _without("tma_store", idea="lanes store O from their registers"),
    _without("head_by_head", idea="tiles are dealt out longest first"),
    _without("counter", idea="the number of a block says which tiles it takes"),
    _without(
        "wait_for_number",
        idea="the last V is asked for while the next number is on its way from the counter",
        name="with_number_in_flight",
    ),
    _without("evict_normal", idea="L2 is told to evict Q first, K and V last", name="with_cache_hints"),
    _without(
        "second_q_buffer",
        idea="the next Q is loaded only when all warps have finished their last Q K^T",
        limits=(SECOND_Q_BUFFER,),
        rung="persistent",
    ),
    _without("moved_descriptors", idea="operands are described anew for every wgmma"),
    _without("lazy_rescale", "integer_max", idea="O is multiplied in every step, by maxima of floats"),
    _without(
        "producer_consumer",
        idea="all warps keep as many registers",
        name="without_register_split",
        serialized=True,
    ),
    Ablation(
        "without_buffer_barriers",
        "all warps of a block meet before a buffer is filled again",
        builds_on=("wgmma",),
        limits=(*BLOCK_LIMITS, RING),
        lacks=("buffer_barriers",),
    ),
    Ablation(
        "triton_vocabulary",
        "what core Triton can say: equal warps, powers of two, both products awaited before the softmax",
        builds_on=("wgmma",),
        limits=VOCABULARY_LIMITS,
    ),
    Ablation(
        "vocabulary_head_by_head",
        "what core Triton can say, with tiles dealt out head by head",
        builds_on=("triton_vocabulary",),
        limits=VOCABULARY_LIMITS,
    ),
    Ablation(
        "vocabulary_at_any_tile",
        "what core Triton can say, but for the tile",
        builds_on=("triton_vocabulary",),
        limits=BLOCK_LIMITS,
    ),
    Ablation(
        "vocabulary_with_integers",
        "what core Triton can say, with row maxima of integers, three at a time",
        builds_on=("vocabulary_head_by_head",),
        limits=VOCABULARY_LIMITS,
    ),
    general=False,
)
