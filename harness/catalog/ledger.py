"""The ledger of a gap: which terms lie between the best core Triton kernel and the flagship, how each is measured, what
caused it, and what was expected. Plain data, standard library only; reports.facts.ledger does the sums.

A technique has two prices: what the flagship loses without it, and what the ladder gains with it. Techniques need each
other, so that the two differ; a term is the mean of their logarithms, which is what the Shapley value (Shapley 1953)
is where only the first and the last place of an order are known. What the terms leave is the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.catalog.ablations import ABLATIONS
from harness.catalog.problem import Tile

FLAGSHIP = "flagship"
VOCABULARY = "triton_vocabulary"
TRITONS = Tile(64, 128, 1, 4)
"""What `tune` chose for core Triton nearly everywhere; the vocabulary's."""
SQUARE = Tile(128, 128, 2, 8)
"""Two math warpgroups, and powers of two."""
FIRST_RUNG = "wgmma"
"""Of the ladder, at the flagship's tile."""

CAUSES = {
    "language": "the language has no word",
    "compiler": "the compiler chose otherwise",
    "assembler": "ptxas",
    "effort": "tuning effort",
    "unexplained": "unexplained",
}


@dataclass(frozen=True)
class Term:
    """One step of the way. `leave_out`: the ablation, which the flagship is compared with. `step`: two kernels of which
    the first is compared with the second; "triton" is the best core Triton kernel, "triton, shared" the same by nvcc's
    ptxas. Both are given where both can be measured.

    `cause` is a key of CAUSES; `odd` is the cause at tiles that core Triton cannot say, where it is another one.
    `proofs` are names of harness/expressibility that bear out the cause, `order` a kernel (backend, technique) whose
    machine code does: its main loop's order is shown. `ttgir`: operations of core Triton's best program at the tile
    TRITONS, in the order of its TTGIR. `expected` was written before anything was measured: percent, by
    cell of 4096 tokens (d<head_dim>-<mask>); none where the term was made of others afterwards. `part_of`: a
    term that contains this one, which therefore is not added. `needed`: why nothing is left out though the flagship has
    it, and `serialized` an ablation that ptxas shows it by.
    """

    name: str
    title: str
    cause: str
    is_: str
    could: str
    leave_out: str = ""
    step: tuple[str, str] | None = None
    proofs: tuple[str, ...] = ()
    order: tuple[str, str] | None = None
    ttgir: tuple[str, ...] = ()
    expected: dict[str, float] = field(default_factory=dict, hash=False)
    part_of: str = ""
    odd: str = ""
    needed: str = ""
    serialized: str = ""

    def cause_at(self, tile: Tile) -> str:
        powers_of_two = not any(size & size - 1 for size in (tile.block_m, tile.block_n, tile.warps))
        return self.cause if powers_of_two else self.odd or self.cause


def _expected(d128_full: float, d128_causal: float, d64_full: float, d64_causal: float) -> dict[str, float]:
    return {"d128-full": d128_full, "d128-causal": d128_causal, "d64-full": d64_full, "d64-causal": d64_causal}


TRITON, SHARED, GLUON = "triton", "triton, shared", "gluon"

TERMS = (
    Term(
        "assembler",
        "nvcc's assembler",
        "assembler",
        "Triton's own PTX, assembled by the ptxas of the CUDA toolkit in place of the one that Triton brings.",
        "Bring a newer ptxas; until then TRITON_PTXAS_PATH chooses one.",
        step=(SHARED, TRITON),
        order=("triton", FLAGSHIP),
        expected=_expected(0, 0, 0.5, 0.5),
    ),
    Term(
        "compiler",
        "The same program by hand",
        "compiler",
        "A CUDA kernel that does only what core Triton can say: blocks of equal warps, powers of two, both products "
        "awaited before the softmax, K and V in turn in one buffer. It asks for the next tile as soon as the block has "
        "left the buffer. Where this is a loss, Triton's own code is the better one.",
        "Where it is a gain, issue a load when the buffer's last reader is done, with one stage too.",
        step=(VOCABULARY, SHARED),
        proofs=("overlap_plain plain",),
        order=("triton", FLAGSHIP),
        ttgir=(
            *("ttng.init_barrier", "ttng.async_tma_copy_global_to_local", "ttng.wait_barrier", "ttng.inval_barrier"),
            "ttng.warp_group_dot",
        ),
        expected=_expected(2, 2, 3, 3),
    ),
    Term(
        "one_block",
        "One block of two or three warpgroups",
        "compiler",
        "The tile of the flagship in place of two small blocks, and buffers that each warp hands back by an mbarrier. "
        "By itself it may lose: what it makes room for follows.",
        "Allow tiles and numbers of warps that are no powers of two, and an mbarrier for each buffer.",
        step=(FIRST_RUNG, VOCABULARY),
        proofs=("warp_specialize mbarriers", "warps_12", "tile_176 arange", "tile_176 descriptor"),
        expected=_expected(-3, -5, 5, 2),
        odd="language",
    ),
    Term(
        "producer_consumer",
        "A producer, and its registers",
        "compiler",
        "One warp asks for K and V, and its warpgroup's registers go to those that multiply.",
        "On sm_90 follow warp_specialize=True with eight warps, with descriptors from the host, and with two loops.",
        step=("producer_consumer", FIRST_RUNG),
        needed=(
            "the next tile, the queue of tiles and the second buffer of Q are the producer's work, and without it more "
            "than one technique is gone."
        ),
        serialized="without_register_split",
        proofs=("warp_specialize 8 warps", "warp_specialize host", "warp_specialize causal"),
        expected=_expected(3, 3, -5, -3),
    ),
    Term(
        "overlap",
        "A softmax under the warpgroup's own product",
        "compiler",
        "The next Q K^T is issued with this P V, and the softmax stands between their waits. Core Triton awaits both "
        "products before it, unless one order of statements is found.",
        "Let a product of the loop stay in flight over arithmetic that does not need it.",
        leave_out="without_overlap",
        step=("overlapped_softmax", "producer_consumer"),
        proofs=("overlap_plain plain", "overlap_plain rotated", "overlap_in_flight d128"),
        ttgir=(
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "math.exp2"),
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "scf.yield"),
        ),
        expected=_expected(8, 8, 0, 1),
    ),
    Term(
        "turns",
        "Turns of the warpgroups",
        "language",
        "Named barriers say which warpgroup issues its products next, so that one's softmax comes under another's "
        "products.",
        "A barrier of some warps that the compiler knows of, or a schedule of roles that takes turns.",
        leave_out="without_turns",
        step=("pingpong", "overlapped_softmax"),
        proofs=("lock by inline PTX", "named_barrier asm", "named_barrier debug_barrier"),
        expected=_expected(1, 0.5, 6, 4),
    ),
    Term(
        "pinned_maxima",
        "Row maxima held before the wait",
        "assembler",
        "ptxas moves the wait for P V above arithmetic that nothing ties to a place. In CUDA the release of K hangs on "
        "the maxima, and they stay.",
        "Tie the release of a buffer to the last value that was computed from it.",
        leave_out="without_pinned_maxima",
        step=("pinned_maxima", "pingpong"),
        order=("cuda", "pingpong"),
        expected=_expected(5, 5, 1.5, 1),
    ),
    Term(
        "persistent",
        "One block a multiprocessor, which stays",
        "compiler",
        "Core Triton says the loop over tiles and their counter. Its compiler loads nothing of the next tile under the "
        "end of this one.",
        "Pipeline loads over the outer loop, and give Q a second buffer.",
        leave_out="without_persistent",
        step=("persistent", "pinned_maxima"),
        proofs=("tiles from a counter",),
        expected=_expected(4, 5, 3, 4),
    ),
    Term(
        "own_diagonal",
        "Own diagonals",
        "language",
        "With a causal mask each warpgroup stops at the last tile of keys that one of its 64 rows sees. Core Triton "
        "has no word for a loop of some warps.",
        "Loops whose bounds differ between the warpgroups of a block.",
        leave_out="without_own_diagonal",
        step=("own_diagonal", "persistent"),
        proofs=("role_branch",),
        expected=_expected(0, 2.5, 0, 5),
    ),
    Term(
        "lazy_rescale",
        "Lazy rescaling",
        "compiler",
        "O is multiplied only when a row's max has outgrown the one in use. Core Triton says it for the whole block at "
        "once; its branch then stands between the waits.",
        "A condition for each warp: a vote in place of a reduction over the block.",
        leave_out="without_lazy_rescale",
        step=("lazy_rescale_wgmma", "persistent"),
        proofs=("condition of a block",),
        expected=_expected(1.5, 1.5, 0, 0),
    ),
    Term(
        "early_rescale",
        "The rescale between the products",
        "language",
        "O is multiplied after the next Q K^T is issued. Core Triton has no word for issuing a product.",
        "A product whose result is awaited by a word of its own, as in Gluon.",
        leave_out="without_early_rescale",
        step=("early_rescale", "lazy_rescale_wgmma"),
        proofs=("rescale_order written", "rescale_order rotated", "rescale_order asm"),
        expected=_expected(0.5, 0.5, 0, 0),
    ),
    Term(
        "integer_max",
        "Three-input maxima of integers",
        "effort",
        "Core Triton says it by a bitcast and gets the same instruction. In its fastest program the softmax stands "
        "alone, and there are other things to wait for.",
        "Nothing; it is there to be used once the rest is.",
        leave_out="without_integer_max",
        step=("integer_max", "persistent"),
        proofs=("maxima of integers",),
        expected=_expected(2.5, 2.5, 4, 4),
    ),
    Term(
        "tma_store",
        "O leaves by TMA beside the next tile",
        "compiler",
        "Core Triton stores by TMA as well, and waits for it in the warps that multiply.",
        "Wait for a store where its buffer is next written, and let another warp do it.",
        leave_out="without_tma_store",
        step=("tma_store", "persistent"),
        proofs=("epilogue descriptor",),
        ttgir=("ttng.async_tma_copy_local_to_global", "ttng.async_tma_store_wait", "tt.store"),
        expected=_expected(2, 3, 1, 2),
    ),
    Term(
        "head_by_head",
        "Tiles dealt out head by head",
        "effort",
        "The order of tiles is arithmetic on a number, in every language.",
        "Nothing: a Triton program can do it today.",
        leave_out="without_head_by_head",
        step=("head_by_head", "tma_store"),
        proofs=("order of blocks",),
        expected=_expected(1, 0.5, 2, 0.5),
    ),
    Term(
        "moved_descriptors",
        "Descriptors that are moved on by adding",
        "compiler",
        "Operands are described once a tile, and a step adds to that. Every CUDA kernel here does it, so that it is no "
        "step of this way.",
        "Add to a descriptor in place of building it anew.",
        leave_out="without_moved_descriptors",
        expected=_expected(1, 1, 1, 1),
        part_of="compiler",
    ),
)


GLUON_TERMS = (
    Term(
        "gluon_schedule",
        "The same schedule by hand",
        "compiler",
        "The flagship without what the Gluon kernel lacks: the same roles, turns and order of products, in CUDA.",
        "Schedule the instructions of a softmax among the products that are in flight.",
        step=("without_lazy_rescale_or_integer_max", GLUON),
        order=("gluon", FLAGSHIP),
        expected=_expected(2, 3, 15, 8),
    ),
    Term(
        "gluon_votes",
        "Lazy rescaling and three-input maxima",
        "effort",
        "Gluon says both, the first for all warps of a partition at once, and its flagship has neither. In CUDA each "
        "is a vote and a branch in the softmax.",
        "A condition for each warp: a vote in place of a reduction over the partition.",
        leave_out="without_lazy_rescale_or_integer_max",
        proofs=("condition of a block in Gluon", "maxima of integers in Gluon"),
    ),
    Term(
        "gluon_integer_max",
        "Three-input maxima of integers alone",
        "effort",
        "A bitcast makes integers of scores, as in core Triton.",
        "Nothing; a kernel can.",
        leave_out="without_integer_max",
        proofs=("maxima of integers in Gluon",),
        expected=_expected(2.5, 2.5, 4, 4),
        part_of="gluon_votes",
    ),
    Term(
        "gluon_lazy_rescale",
        "Lazy rescaling alone",
        "effort",
        "In Gluon a condition is of all warps of a partition.",
        "A condition for each warp: a vote in place of a reduction over the partition.",
        leave_out="without_lazy_rescale",
        proofs=("condition of a block in Gluon",),
        expected=_expected(1.5, 1.5, 0, 0),
        part_of="gluon_votes",
    ),
)
"""The way from the best Gluon kernel to the flagship, with one price each: what Gluon's flagship lacks is left out of
CUDA's."""


def kernels() -> tuple[str, ...]:
    """The CUDA kernels that the terms name, ablations before rungs; not the vocabulary, which has tiles of its own."""
    ablations = [one.name for one in ABLATIONS if one.name != VOCABULARY and not one.serialized]
    ends = [end for term in TERMS for end in term.step or ()]
    rungs = [end for end in ends if end not in (TRITON, SHARED, VOCABULARY)]
    return tuple(dict.fromkeys([*ablations, *rungs]))
