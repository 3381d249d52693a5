"""The terms between a language's best kernel and the flagship: how each is measured, and what caused it. Plain data.

A technique has two prices: what the flagship loses without it, and what the ladder gains with it. Techniques need each
other, so the two differ; a term is the mean of their logarithms (the Shapley value where only the first and the last
place of an order are known). What the terms leave is the remainder. prices.py says what is compared on a problem.
"""

from dataclasses import dataclass

from harness.catalog.entries import Tile
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.problem import Problem

FLAGSHIP = "flagship"
VOCABULARY, ORDERED, WITH_INTEGERS = "triton_vocabulary", "vocabulary_head_by_head", "vocabulary_with_integers"
"""CUDA kernels limited to what core Triton can express: as its SECTIONS, as its FLOATS, and that with integers."""
CONFINED = "core Triton's program in CUDA"
"""That of them which has what core Triton's best kernel has on a problem."""
ANY_TILE = "vocabulary_at_any_tile"
"""VOCABULARY at the flagship's tile; each product is waited for before the next, as core Triton does with one stage."""
AWAITED = "core Triton's program in CUDA, each product awaited"
"""ANY_TILE at core Triton's tile where that has two stages, VOCABULARY where it has one."""
IN_STEP = "without_buffer_barriers"
"""The ladder's first rung with a barrier of the block before each refill."""
FLOATS, SECTIONS, INTEGERS = "head_by_head", "wgmma", "integer_max"
"""Core Triton's kernels: its best one without maxima of integers, that without the order of its tiles too, and this
with such maxima."""
TRITONS = Tile(64, 128, 1, 4)
"""What `tune` chose for core Triton nearly everywhere; the vocabulary's."""
CAUSAL_TRITONS = Tile(64, 128, 2, 4)
"""The same at head_dim 64 with a causal mask."""
SQUARE = Tile(128, 128, 2, 8)
"""Two consumer warpgroups, and powers of two."""
NARROW = Tile(128, 80, 3, 8)
"""Two consumer warpgroups, and the keys and stages that the flagship's tile has at head_dim 128."""
FIRST_RUNG = "wgmma"
"""The ladder's first rung here, at the flagship's tile. Its twin in core Triton is SECTIONS."""

CAUSES = {
    "language": "only by an escape hatch",
    "compiler": "the compiler decides otherwise",
    "slower": "written in core Triton, slower there",
    "assembler": "ptxas",
    "effort": "could be written today",
    "unexplained": "unexplained",
    "both": "core Triton gains by it too",
    "undone": "undoes a loss of the large block",
    "loss": "a loss",
}
"""Of a term. Only rows/ledger.py gives the last: a term below zero is no cause of a gap. It also calls a term
unexplained whose two prices disagree."""
UNDONE = "undone"


def at(name: str, tile: Tile) -> str:
    """What a kernel is called at a tile that is not the ledger's."""
    return f"{name} at {tile.slug}"


def shape(tile: Tile) -> tuple[int, int]:
    """How many queries and keys a tile has."""
    return tile.block_m, tile.block_n


@dataclass(frozen=True)
class Term:
    """One step of the way from a language's best kernel to the flagship; notes/attention/pages/gap.md has its text.

    Two prices, either of which may be missing; the term is their mean:
    `leave_out`: an ablation; the price is the flagship over it. `step`: (kernel with the technique, kernel without);
    "triton" is the best core Triton kernel, "triton, shared" the same assembled by nvcc's ptxas. A step from another
    tile (`at`) to the flagship counts as leaving out. If at_their_tiles lacks such a kernel on a problem, the
    problem lacks the term.

    What bears out the cause: `proofs`, names of proofs in claims/; `orders`, kernels (backend, technique) whose main
    loops show it in machine code; `ttgir`, operations of the best program of the language in the order of its TTGIR
    (core Triton's at the tile TRITONS, Gluon's at SQUARE), and `so` what follows from them; `serialized`, an ablation
    that ptxas cannot compile without serializing its wgmma, so that nothing is left out.

    cause: a key of CAUSES. `part_of`: a term that contains this one, which is not added. The size of an UNDONE one is a
        part of that term's.
    instead_of: a term of several changes. The terms that name it have one change each; they replace it if all of their
        kernels were timed, else it stands alone.
    own, limited: where the language's best kernel has the technique too: the kernels with and without it in that
        language, and two of CUDA. The gain of the first of these over the second is taken out of the term.
    of_tile: the term is about the tile of Gluon's or TLX's kernel. It exists where that tile has the shape of SQUARE
        and the flagship's has not; everything else on the way is then left out at SQUARE.
    """

    name: str
    title: str
    cause: str
    leave_out: str = ""
    step: tuple[str, str] | None = None
    proofs: tuple[str, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    ttgir: tuple[str, ...] = ()
    so: str = ""
    part_of: str = ""
    instead_of: str = ""
    serialized: str = ""
    own: tuple[str, str] | None = None
    limited: tuple[str, str] | None = None
    of_tile: bool = False

    @property
    def is_added(self) -> bool:
        """True if its size is in the sum, by itself or in another term."""
        return not self.part_of or self.cause == UNDONE


TRITON, SHARED, GLUON, TLX = "triton", "triton, shared", "gluon", "tlx@3.8.0"
PLAIN, IN_SECTIONS, ON_INTEGERS = f"{TRITON}, floats", f"{TRITON}, sections", f"{TRITON}, integers"
THEIRS = {FLOATS: PLAIN, SECTIONS: IN_SECTIONS, INTEGERS: ON_INTEGERS}
"""Kernel of core Triton -> what it is called beside the best one."""

TERMS = (
    Term(
        "assembler",
        "nvcc's assembler",
        "assembler",
        step=(SHARED, TRITON),
        orders=((TRITON, FLAGSHIP), (SHARED, FLAGSHIP)),
    ),
    Term(
        "compiler",
        "The same program, written in CUDA",
        "compiler",
        step=(CONFINED, SHARED),
        proofs=("overlap_plain plain",),
        orders=((TRITON, FLAGSHIP), ("cuda", ORDERED)),
        ttgir=(
            *("ttng.init_barrier", "ttng.async_tma_copy_global_to_local", "ttng.wait_barrier", "ttng.inval_barrier"),
            "ttng.warp_group_dot",
        ),
        so="with one stage, which `tune` chose here, a load is waited for as soon as it is issued",
    ),
    Term(
        "waits_at_once",
        "P V awaited before the next step",
        "effort",
        step=(at(ANY_TILE, CAUSAL_TRITONS), VOCABULARY),
        instead_of="large_block",
    ),
    Term(
        "one_block",
        "The flagship's tile, not small blocks",
        "language",
        step=(ANY_TILE, AWAITED),
        proofs=("warps_12", "tile_176 arange", "tile_176 descriptor"),
        instead_of="large_block",
    ),
    Term(
        "own_tile",
        "The flagship's tile, not 128 queries by 128 keys",
        "language",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("warps_12", "tile_176 arange", "tile_176 descriptor"),
        part_of="one_block",
    ),
    Term(
        "third_warpgroup",
        "Three warpgroups instead of two",
        "language",
        step=(FLAGSHIP, at(FLAGSHIP, NARROW)),
        proofs=("warps_12",),
        part_of="own_tile",
    ),
    Term(
        "fewer_keys",
        "80 keys a step instead of 128",
        "compiler",
        step=(at(FLAGSHIP, NARROW), at(FLAGSHIP, SQUARE)),
        proofs=("tile_176 arange", "tile_176 composed"),
        part_of="own_tile",
    ),
    Term(
        "first_rung",
        "The softmax of the ladder's first rung",
        "effort",
        step=(IN_STEP, ANY_TILE),
        instead_of="large_block",
    ),
    Term(
        "buffer_barriers",
        "An mbarrier for each empty buffer",
        "compiler",
        step=(FIRST_RUNG, IN_STEP),
        proofs=("warp_specialize mbarriers",),
        ttgir=(
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait"),
            *("ttng.init_barrier", "ttng.async_tma_copy_global_to_local"),
        ),
        so="a buffer is filled again once all warps have waited for the product that read it",
        instead_of="large_block",
    ),
    Term(
        "producer_consumer",
        "A producer warp, and the registers it frees",
        "compiler",
        step=("producer_consumer", FIRST_RUNG),
        serialized="without_register_split",
        proofs=(
            "warp_specialize 8 warps",
            "warp_specialize host",
            "roles_kept O by the host",
            "roles_kept if",
            "warp_specialize causal",
            "warp_specialize one loop",
            "warp_specialize rows",
        ),
        ttgir=(
            *("ttng.async_tma_copy_global_to_local", "ttng.wait_barrier"),
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait"),
        ),
        so="the warps that multiply load too",
    ),
    Term(
        "register_split",
        "The registers alone",
        "compiler",
        step=(at(FLAGSHIP, SQUARE), at("without_register_split", SQUARE)),
        proofs=("warp_specialize setmaxnreg", "warp_specialize 8 warps"),
        part_of="producer_consumer",
    ),
    Term(
        "overlap",
        "Two products queued",
        "compiler",
        leave_out="without_overlap",
        step=("overlapped_softmax", "producer_consumer"),
        proofs=(
            "overlap_plain plain",
            "overlap_plain rotated",
            "overlap_in_flight d128",
            "next_p overlap",
            "roles_two_blocks two blocks",
        ),
        orders=(
            *((language, at("overlapped_softmax", SQUARE)) for language in ("cuda", GLUON, TRITON)),
            *(("cuda", FLAGSHIP), (GLUON, FLAGSHIP), (TRITON, FLAGSHIP)),
        ),
        ttgir=(
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "math.exp2"),
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "scf.yield"),
        ),
        so="each product is waited for before the arithmetic behind it",
    ),
    Term(
        "turns",
        "Warpgroups take turns at issuing products",
        "language",
        leave_out="without_turns",
        step=("pingpong", "overlapped_softmax"),
        proofs=("lock by inline PTX", "named_barrier asm", "named_barrier debug_barrier"),
    ),
    Term(
        "pinned_maxima",
        "K released after the row maxima",
        "assembler",
        leave_out="without_pinned_maxima",
        step=("pinned_maxima", "pingpong"),
        orders=(
            *(("cuda", FLAGSHIP), ("cuda", "without_pinned_maxima")),
            *(("cuda", "pinned_maxima"), ("cuda", "pingpong")),
        ),
    ),
    Term(
        "persistent",
        "Persistent blocks: one per SM, for all tiles",
        "slower",
        leave_out="without_persistent",
        step=("persistent", "pinned_maxima"),
        proofs=(
            *("tiles from a counter", "tiles_flat loads", "tiles_flat causal", "tiles_flat flatten"),
            *("tiles_flat by hand", "tiles_flat counter"),
        ),
        ttgir=("scf.yield", "ttng.async_tma_copy_local_to_global", "ttng.async_tma_store_wait", "tt.return"),
        so="the best kernel has a block for each tile, because its loop over tiles is slower",
    ),
    Term(
        "own_diagonal",
        "Each warpgroup stops at its own diagonal",
        UNDONE,
        leave_out="without_own_diagonal",
        step=("own_diagonal", "persistent"),
        proofs=("role_branch without asm", "role_branch", "warpgroups_hook roles"),
        part_of="one_block",
    ),
    Term(
        "idle_warpgroups",
        "Warpgroups without rows skip their products",
        UNDONE,
        leave_out="without_idle_warpgroups",
        proofs=("role_branch without asm", "role_branch", "warpgroups_hook roles"),
        part_of="one_block",
    ),
    Term(
        "lazy_rescale",
        "Lazy rescaling",
        "slower",
        leave_out="without_lazy_rescale",
        step=("lazy_rescale_wgmma", "persistent"),
        proofs=(
            *("condition of a block", "elementwise_branch sm_90"),
            *("elementwise_condition", "elementwise_condition selection"),
        ),
        orders=(
            *((TRITON, "persistent"), (TRITON, "lazy_rescale_wgmma")),
            *(("triton_native", "lean_mbarrier_ring"), ("triton_native", "lazy_rescale")),
        ),
    ),
    Term(
        "early_rescale",
        "Rescale between the two products",
        "compiler",
        leave_out="without_early_rescale",
        step=("early_rescale", "lazy_rescale_wgmma"),
        proofs=(
            *("rescale_in_flight if", "rescale_in_flight every step", "rescale_in_flight elementwise"),
            *("rescale_order written", "rescale_order rotated"),
        ),
        ttgir=("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "arith.mulf", "ttng.warp_group_dot"),
        so="O is multiplied behind the wait for Q K^T",
    ),
    Term(
        "integer_max",
        "Three-input integer maxima",
        "unexplained",
        leave_out="without_integer_max",
        step=("integer_max", "persistent"),
        own=(TRITON, PLAIN),
        limited=(WITH_INTEGERS, ORDERED),
        proofs=("maxima of integers",),
        orders=((TRITON, SECTIONS), (TRITON, INTEGERS), (TRITON, FLOATS), (TRITON, FLAGSHIP)),
    ),
    Term(
        "tma_store",
        "O stored by TMA during the next tile",
        "slower",
        leave_out="without_tma_store",
        step=("tma_store", "persistent"),
        proofs=("epilogue descriptor", "stored_later", "stored_later counter", "stored_later while waits"),
        ttgir=("ttng.async_tma_copy_local_to_global", "ttng.async_tma_store_wait", "tt.return"),
        so="the warps that multiplied wait for the store before they end",
    ),
    Term(
        "head_by_head",
        "Tiles head by head, net of small blocks' gain",
        "both",
        leave_out="without_head_by_head",
        step=("head_by_head", "tma_store"),
        own=(PLAIN, IN_SECTIONS),
        limited=(ORDERED, VOCABULARY),
    ),
    Term(
        "large_block",
        "One large block, not small ones",
        "unexplained",
        step=(FIRST_RUNG, VOCABULARY),
    ),
    Term(
        "moved_descriptors",
        "Descriptors advanced by one addition",
        "effort",
        leave_out="without_moved_descriptors",
        part_of="compiler",
    ),
)


LACKING, LAZILY = "without_lazy_rescale_or_integer_max", "without_lazy_rescale"
"""The flagship without what Gluon's kernels lack, and what is left of that where they have maxima of integers."""
LAZY_TITLE = "Lazy rescaling"
"""Of a term of LACKING where LAZILY is left of it."""

GLUON_TERMS = (
    Term(
        "gluon_votes",
        "Lazy rescaling and three-input maxima",
        "unexplained",
        leave_out=LACKING,
        proofs=("condition of a block in Gluon", "maxima of integers in Gluon"),
        orders=((GLUON, "persistent"), (GLUON, "lazy_rescale_wgmma"), (GLUON, "integer_max")),
    ),
    Term(
        "gluon_integer_max",
        "Three-input integer maxima alone",
        "unexplained",
        leave_out="without_integer_max",
        proofs=("maxima of integers in Gluon",),
        part_of="gluon_votes",
    ),
    Term(
        "gluon_lazy_rescale",
        "Lazy rescaling alone",
        "unexplained",
        leave_out="without_lazy_rescale",
        proofs=("condition of a block in Gluon",),
        part_of="gluon_votes",
    ),
    Term(
        "gluon_tile",
        "The flagship's tile, not Gluon's best",
        "unexplained",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("warps_gluon three", "wgmma_shape 176", "wgmma_shape 96 of 128", "tile_176 in Gluon"),
        of_tile=True,
    ),
    Term(
        "gluon_schedule",
        "The same schedule, written in CUDA",
        "unexplained",
        step=(LACKING, GLUON),
        orders=((GLUON, FLAGSHIP), ("cuda", at(LAZILY, SQUARE))),
        ttgir=("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "math.exp2", "ttng.warp_group_dot_wait"),
        so="the softmax lies between the two waits, as in CUDA",
    ),
)
"""The way from the best Gluon kernel to the flagship, with one price each. First the same program in CUDA, at Gluon's
shape of tile; then what that lacks; then the flagship's tile. Each step starts where the one before it ended, so they
leave no remainder."""

TLX_TERMS = (
    Term(
        "tlx_votes",
        "Lazy rescaling and three-input maxima",
        "unexplained",
        leave_out=LACKING,
        proofs=("condition of a block, with TLX", "maxima of integers, with TLX"),
    ),
    Term(
        "tlx_tile",
        "The flagship's tile, not the TLX kernel's",
        "unexplained",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("tlx roles", "tile_176 arange, with TLX", "tile_176 composed, with TLX"),
        of_tile=True,
    ),
    Term(
        "tlx_schedule",
        "The same schedule, written in CUDA",
        "unexplained",
        step=(LACKING, TLX),
        proofs=("flagship in TLX, in flight", "flagship in TLX, turns", "flagship in TLX, stores"),
        orders=((TLX, FLAGSHIP), ("cuda", at(LAZILY, SQUARE))),
    ),
)
"""The way from the TLX kernel, in the same manner. Nothing was predicted of it; its techniques one at a time are
GLUON_TERMS'."""

WAYS = {TRITON: TERMS, GLUON: GLUON_TERMS, TLX: TLX_TERMS}
"""Where a way to the flagship starts -> its terms."""


def at_their_tiles(problem: Problem) -> tuple[tuple[str, Tile] | tuple[str, Tile, str], ...]:
    """Kernels at tiles that are not the flagship's best; core Triton's has its language beside it.

    At head_dim 128 the best kernels of Gluon and TLX have SQUARE's shape. So the flagship without what they lack is
    timed there: without lazy rescaling where there is no mask; with one, without lazy rescaling and integer maxima,
    together and one at a time.
    """
    theirs = CAUSAL_TRITONS if problem.head_dim == 64 and problem.causal else TRITONS
    found = [(name, theirs) for name in (VOCABULARY, ORDERED, WITH_INTEGERS)]
    if theirs.stages > 1:
        found.append((ANY_TILE, theirs))
    found.append((FLAGSHIP, SQUARE))
    if problem.head_dim == 64:
        found.append(("without_register_split", SQUARE))
        return *found, (SECTIONS, theirs, TRITON), (FLOATS, theirs, TRITON)
    less = (LACKING, LAZILY, "without_integer_max") if problem.causal else (LAZILY,)
    core = tuple((name, theirs, TRITON) for name in (SECTIONS, INTEGERS))
    return *found, (FLAGSHIP, NARROW), *((name, SQUARE) for name in less), *core


def kernels() -> tuple[str, ...]:
    """The CUDA kernels that the terms name, those of `leave_out` first; not VOCABULARY, which has a tile of its own."""
    names = {term.leave_out for way in WAYS.values() for term in way}
    ablations = [one.name for one in ABLATIONS if one.name in names]
    ends = [end for term in TERMS if term.is_added for end in term.step or ()]
    own = [end for end in ends if " at " not in end and end not in (TRITON, SHARED, CONFINED, VOCABULARY, AWAITED)]
    return tuple(dict.fromkeys([*ablations, *own]))
