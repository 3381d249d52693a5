"""The ledger of a gap: which terms lie between the best core Triton kernel and the flagship, how each is measured, what
caused it, and what was expected. Plain data, standard library only; reports.facts.ledger does the sums.

A technique has two prices: what the flagship loses without it, and what the ladder gains with it. Techniques need each
other, so that the two differ; a term is the mean of their logarithms, which is what the Shapley value (Shapley 1953)
is where only the first and the last place of an order are known. What the terms leave is the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.catalog.problem import Problem, Tile
from harness.operators.attention.ablations import ABLATIONS

FLAGSHIP = "flagship"
VOCABULARY, ORDERED, WITH_INTEGERS = "triton_vocabulary", "vocabulary_head_by_head", "vocabulary_with_integers"
"""CUDA kernels limited to what core Triton can express: as its SECTIONS, as its FLOATS, and that with integers."""
CONFINED = "core Triton's program in CUDA"
"""That of them which has what core Triton's best kernel has on a problem."""
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
    "assembler": "ptxas",
    "effort": "could be written today",
    "unexplained": "unexplained",
}


def at(name: str, tile: Tile) -> str:
    """What a kernel is called at a tile that is not the ledger's."""
    return f"{name} at {tile.slug}"


def shape(tile: Tile) -> tuple[int, int]:
    """How many queries and keys a tile has."""
    return tile.block_m, tile.block_n


@dataclass(frozen=True)
class Term:
    """One step of the way. `leave_out`: the ablation, which the flagship is compared with. `step`: two kernels of which
    the first is compared with the second; "triton" is the best core Triton kernel, "triton, shared" the same by nvcc's
    ptxas. Both are given where both can be measured. A step from another tile (`at`) to the flagship leaves out too.

    `cause` is a key of CAUSES; `odd` is the cause at tiles that core Triton cannot express, where it is another one.
    `proofs` are names of harness/expressibility that bear out the cause, `orders` kernels (backend, technique) whose
    machine code does: the order of their main loops is shown. `ttgir`: operations of the language's best program, in
    the order of its TTGIR, and `so` what follows from it; core Triton's is at the tile TRITONS, Gluon's at SQUARE.
    `ptx`: what core Triton's PTX shows. `expected` was written before the term was measured: percent, by cell of 4096
    tokens (d<head_dim>-<mask>); none where the term was made of others afterwards. `part_of`: a term that contains this
    one, which therefore is not added. `head_dim`: the only one that has the term. `needed`: why nothing is left out
    though the flagship has it, and `serialized` an ablation that ptxas shows it by. `could` is what follows where the
    term is a gain, `otherwise` what follows where it is a loss; without it `could` holds for both.

    "effort" is the cause only where no kernel of the language loses by the technique (rows.twins, which finds the
    ladder's kernels itself). `twins`: further ones, as (backend, kernel with the technique, kernel before it). `own`:
    kernels of the language the way starts from, with the technique and without, where its best one has it. `limited`:
    the same of CUDA kernels limited to what that language can express; there what it gains is taken out of the term, so
    that what is left is what the flagship gains more, or less; `more` is the cause where it gains more, if that is
    another one. `alike`: pairs of kernels limited to what core Triton can express, with the technique and without.
    Where its best kernel has none of it, the cause holds only where it gains less than it is worth in the first pair
    that has an interval. `of_tile`: whether the term is about the tile of Gluon's or TLX's kernel; it is there where
    that has the shape of SQUARE, and the flagship's has another. All else that leads from that kernel to the flagship
    is then left out at SQUARE.
    """

    name: str
    title: str
    cause: str
    is_: str
    could: str
    leave_out: str = ""
    step: tuple[str, str] | None = None
    proofs: tuple[str, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    ttgir: tuple[str, ...] = ()
    so: str = ""
    ptx: str = ""
    expected: dict[str, float] = field(default_factory=dict, hash=False)
    part_of: str = ""
    odd: str = ""
    needed: str = ""
    serialized: str = ""
    head_dim: int | None = None
    otherwise: str = ""
    twins: tuple[tuple[str, str, str], ...] = ()
    own: tuple[str, str] | None = None
    more: str = ""
    limited: tuple[str, str] | None = None
    alike: tuple[tuple[str, str], ...] = ()
    of_tile: bool = False

    def cause_at(self, tile: Tile) -> str:
        powers_of_two = not any(size & size - 1 for size in (tile.block_m, tile.block_n, tile.warps))
        return self.cause if powers_of_two else self.odd or self.cause


def _expected(d128_full: float, d128_causal: float, d64_full: float, d64_causal: float) -> dict[str, float]:
    return {"d128-full": d128_full, "d128-causal": d128_causal, "d64-full": d64_full, "d64-causal": d64_causal}


TRITON, SHARED, GLUON, TLX = "triton", "triton, shared", "gluon", "tlx@3.8.0"
PLAIN, IN_SECTIONS, ON_INTEGERS = f"{TRITON}, floats", f"{TRITON}, sections", f"{TRITON}, integers"
THEIRS = {FLOATS: PLAIN, SECTIONS: IN_SECTIONS, INTEGERS: ON_INTEGERS}
"""Kernel of core Triton -> what it is called beside the best one."""

TERMS = (
    Term(
        "assembler",
        "nvcc's assembler",
        "assembler",
        "Triton's own PTX, assembled by the ptxas of the CUDA toolkit instead of the one that Triton ships.",
        "Ship a newer ptxas; until then TRITON_PTXAS_PATH selects one.",
        otherwise="Nothing: the one that Triton ships does better.",
        step=(SHARED, TRITON),
        orders=((TRITON, FLAGSHIP), (SHARED, FLAGSHIP)),
        expected=_expected(0, 0, 0.5, 0.5),
    ),
    Term(
        "compiler",
        "The same program, written in CUDA",
        "compiler",
        "A CUDA kernel limited to what core Triton can express: all warps do the same work, sizes are powers of two, "
        "both products finish before the softmax begins, and with a single stage K and V share one buffer, which is "
        "refilled as soon as the block has read it. It has the order of tiles of core Triton's best kernel, and its "
        "maxima of integers where that has them.",
        "Issue a load as soon as the last reader of its buffer is done. With two stages the compiler issues the loads "
        "of the next step at the end of a step: it waits for K at once, and for V after the softmax.",
        otherwise="Nothing: Triton's own code is the better one.",
        step=(CONFINED, SHARED),
        proofs=("overlap_plain plain",),
        orders=((TRITON, FLAGSHIP), ("cuda", CONFINED)),
        ttgir=(
            *("ttng.init_barrier", "ttng.async_tma_copy_global_to_local", "ttng.wait_barrier", "ttng.inval_barrier"),
            "ttng.warp_group_dot",
        ),
        so="with one stage, which `tune` chose here, a load is waited for as soon as it is issued",
        expected=_expected(2, 2, 3, 3),
    ),
    Term(
        "one_block",
        "One large block per SM, not several small ones",
        "compiler",
        "The flagship's tile, of three warpgroups, replaces three or four small blocks per SM, and each warp "
        "hands buffers back through an mbarrier. By itself this can be a loss: it makes room for the terms that build "
        "on it.",
        "Allow tiles and warp counts that are not powers of two, and give each buffer an mbarrier.",
        step=(FIRST_RUNG, VOCABULARY),
        proofs=("warp_specialize mbarriers", "warps_12", "tile_176 arange", "tile_176 descriptor"),
        ttgir=(
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait"),
            *("ttng.init_barrier", "ttng.async_tma_copy_global_to_local"),
        ),
        so="a buffer is filled again once all warps have waited for the product that read it",
        expected=_expected(-3, -5, 5, 2),
        odd="language",
    ),
    Term(
        "own_tile",
        "The flagship's tile, not 128 queries by 128 keys",
        "language",
        "The flagship itself at two tiles. Its own has 192 queries, of three warpgroups; at head_dim 128 it also has "
        "fewer keys, so that the registers of a third warpgroup suffice.",
        "Allow tiles and warp counts that are not powers of two.",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("warps_12", "tile_176 arange", "tile_176 descriptor"),
        part_of="one_block",
    ),
    Term(
        "third_warpgroup",
        "Three warpgroups instead of two",
        "language",
        "The flagship with as many keys and stages, and 128 queries of two warpgroups instead of 192 of three.",
        "Allow 12 warps.",
        step=(FLAGSHIP, at(FLAGSHIP, NARROW)),
        proofs=("warps_12",),
        part_of="own_tile",
        head_dim=128,
    ),
    Term(
        "fewer_keys",
        "80 keys a step instead of 128",
        "compiler",
        "The flagship with two warpgroups, at two widths. By itself this can be a loss: it makes room for the third "
        "warpgroup. Core Triton can compose such a width of several tensors, by instructions that its compiler "
        "chooses.",
        "Allow tiles whose sizes are not powers of two.",
        step=(at(FLAGSHIP, NARROW), at(FLAGSHIP, SQUARE)),
        proofs=("tile_176 arange", "tile_176 composed"),
        part_of="own_tile",
        head_dim=128,
    ),
    Term(
        "producer_consumer",
        "A producer warp, and the registers it frees",
        "compiler",
        "One warp loads K and V. Its warpgroup gives most of its registers to the warps that multiply. Core Triton's "
        "own kernel with these roles gains by them at the tile where the compiler makes them, but at these head "
        "dimensions it is not faster than small blocks without roles.",
        "On sm_90, honour warp_specialize=True with eight warps, with descriptors of Q and O made on the host, with an "
        "if in the loop, and with the two loops of a causal mask. With one loop that masks every tile it is honoured "
        "already. There, shift the second "
        "consumer's row numbers once: where they share a value with a descriptor's coordinate, they are shifted twice.",
        step=("producer_consumer", FIRST_RUNG),
        needed=(
            "The producer also fetches the next tile, reads the queue of tiles and fills Q's second buffer, so the "
            "flagship without it would lack several techniques at once."
        ),
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
        expected=_expected(3, 3, -5, -3),
    ),
    Term(
        "register_split",
        "The registers alone",
        "compiler",
        "The flagship at 128 queries by 128 keys, over the same with equally many registers for every warp. Only at "
        "head_dim 64 do those suffice.",
        "Give the registers of warps that only load to those that multiply, also with eight warps.",
        step=(at(FLAGSHIP, SQUARE), at("without_register_split", SQUARE)),
        proofs=("warp_specialize setmaxnreg", "warp_specialize 8 warps"),
        part_of="producer_consumer",
        head_dim=64,
    ),
    Term(
        "overlap",
        "Softmax overlaps the same warps' products",
        "compiler",
        "The next Q K^T is issued together with the current P V, and the softmax runs between the two waits. In the "
        "usual loops core Triton waits for both products before the softmax. One order of statements keeps the next Q "
        "K^T in flight, another the P V before, none both; and with two row blocks per consumer ptxas moves a wait "
        "behind the softmax. Runs of tune found the first of these orders slower in the small blocks that are core "
        "Triton's best at head_dim 128. At 128 queries by 128 keys it gains, but a producer warp gains more there, and "
        "the compiler makes none for that loop.",
        "Leave a product in flight across arithmetic that does not need its result, and let warp_specialize accept "
        "that loop.",
        leave_out="without_overlap",
        step=("overlapped_softmax", "producer_consumer"),
        proofs=(
            "overlap_plain plain",
            "overlap_plain rotated",
            "overlap_in_flight d128",
            "next_p overlap",
            "roles_two_blocks two blocks",
        ),
        ttgir=(
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "math.exp2"),
            *("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "scf.yield"),
        ),
        so="each product is waited for before the arithmetic behind it",
        expected=_expected(8, 8, 0, 1),
    ),
    Term(
        "turns",
        "Warpgroups take turns at issuing products",
        "language",
        "Named barriers decide which warpgroup issues its products next, so that one warpgroup's softmax runs while "
        "another's products do.",
        "Offer a barrier for some of the warps that the compiler understands, or let roles take turns.",
        leave_out="without_turns",
        step=("pingpong", "overlapped_softmax"),
        proofs=("lock by inline PTX", "named_barrier asm", "named_barrier debug_barrier"),
        expected=_expected(1, 0.5, 6, 4),
    ),
    Term(
        "pinned_maxima",
        "K released after the row maxima",
        "assembler",
        "ptxas moves the wait for P V ahead of arithmetic that nothing holds in place. In the CUDA kernel the release "
        "of K depends on the row maxima. So all maxima come before that wait, and more of the exponentials too. "
        "Without it K is released after the first few maxima, and nearly all exponentials come after the wait. In the "
        "ladder's kernel of head_dim 64 half of the maxima do so too.",
        "Make the release of a buffer depend on the last value computed from it.",
        leave_out="without_pinned_maxima",
        step=("pinned_maxima", "pingpong"),
        orders=(
            *(("cuda", FLAGSHIP), ("cuda", "without_pinned_maxima")),
            *(("cuda", "pinned_maxima"), ("cuda", "pingpong")),
        ),
        expected=_expected(5, 5, 1.5, 1),
    ),
    Term(
        "persistent",
        "Persistent blocks: one per SM, for all tiles",
        "compiler",
        "Core Triton can express the loop over tiles with their counter, but in nested loops its compiler loads "
        "nothing of the next tile before the current one ends. In a loop by tl.range(flatten=True) K and V are loaded "
        "ahead, if all tiles have as many steps, so not with a causal mask; and every product must finish before O is "
        "stored. One loop over the steps of all tiles, written by hand, has neither fault and can have a counter, but "
        "branches in every step. No kernel here has it, and what it would gain is not known.",
        "Pipeline loads across nested loops, whatever bounds the inner one, and give Q a second buffer.",
        leave_out="without_persistent",
        step=("persistent", "pinned_maxima"),
        proofs=(
            *("tiles from a counter", "tiles_flat loads", "tiles_flat causal", "tiles_flat flatten"),
            *("tiles_flat by hand", "tiles_flat counter"),
        ),
        ttgir=("scf.yield", "ttng.async_tma_copy_local_to_global", "ttng.async_tma_store_wait", "tt.return"),
        so="the best kernel has a block for each tile, because its loop over tiles is slower",
        expected=_expected(4, 5, 3, 4),
    ),
    Term(
        "own_diagonal",
        "Each warpgroup stops at its own diagonal",
        "language",
        "With a causal mask each warpgroup stops at the last tile of keys that any of its 64 rows can see. Core "
        "Triton has no words for a loop of products that only some warps run. Its best kernels need none: their blocks "
        "have 64 rows and stop there by themselves. So this term takes back a loss that comes with the large block.",
        "Allow loops whose bounds differ between the warpgroups of a block.",
        leave_out="without_own_diagonal",
        step=("own_diagonal", "persistent"),
        proofs=("role_branch without asm", "role_branch", "warpgroups_hook roles"),
        expected=_expected(0, 2.5, 0, 5),
    ),
    Term(
        "idle_warpgroups",
        "A warpgroup without a query multiplies nothing",
        "language",
        "No power of two is a multiple of 192, the queries of the flagship's tile. The last tile of a head has 64 of "
        "them at these lengths, and two of its three warpgroups have none. They hand on their turns and buffers "
        "instead of multiplying zeros. With a causal mask that tile is the longest of its head. Core Triton's blocks "
        "of 64 queries divide these lengths and have no such loss.",
        "Offer a branch around products that only some warps of a block take.",
        leave_out="without_idle_warpgroups",
        proofs=("role_branch without asm", "role_branch", "warpgroups_hook roles"),
        expected=_expected(1, 3, 1, 3),
    ),
    Term(
        "lazy_rescale",
        "Lazy rescaling",
        "compiler",
        "O is rescaled only when a row maximum has outgrown the one in use; each warp decides for its own rows. In "
        "core Triton an if statement decides for the whole block, by a reduction through shared memory in every step. "
        "With wgmma, every core Triton kernel here that has this if is slower than the one without it. In one, the "
        "softmax no longer overlaps with a product; in another, far more bytes spill. With mma.sync some are a little "
        "faster. Core Triton can state a condition for each element too, in tl.map_elementwise: its compiler makes a "
        "branch of each thread of it if the body costs enough, and else computes both results and selects one. In a "
        "screening, of which no rows are recorded, core Triton's flagship with such a branch was faster on none of 11 "
        "problems.",
        "Make a branch of a condition that all lanes of a warp agree on: a vote instead of a reduction over the block.",
        leave_out="without_lazy_rescale",
        step=("lazy_rescale_wgmma", "persistent"),
        twins=(("triton_native", "lazy_rescale", "lean_mbarrier_ring"),),
        proofs=(
            *("condition of a block", "elementwise_branch sm_90"),
            *("elementwise_condition", "elementwise_condition selection"),
        ),
        orders=(
            *((TRITON, "persistent"), (TRITON, "lazy_rescale_wgmma")),
            *(("triton_native", "lean_mbarrier_ring"), ("triton_native", "lazy_rescale")),
        ),
        expected=_expected(1.5, 1.5, 0, 0),
    ),
    Term(
        "early_rescale",
        "Rescale between the two products",
        "compiler",
        "O is rescaled once the next Q K^T has been issued. In core Triton the compiler places the wait for a product. "
        "In the order of overlapped_softmax it multiplies O while the next Q K^T is in flight, also with a condition "
        "in tl.map_elementwise. But with a plain if around the rescale, and between Q K^T and P V of one step, it "
        "waits first.",
        "Wait for a product only before its result is read, also where a branch comes before that.",
        leave_out="without_early_rescale",
        step=("early_rescale", "lazy_rescale_wgmma"),
        proofs=(
            *("rescale_in_flight if", "rescale_in_flight every step", "rescale_in_flight elementwise"),
            *("rescale_order written", "rescale_order rotated"),
        ),
        ttgir=("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "arith.mulf", "ttng.warp_group_dot"),
        so="O is multiplied behind the wait for Q K^T",
        expected=_expected(0.5, 0.5, 0, 0),
    ),
    Term(
        "integer_max",
        "Three-input integer maxima",
        "compiler",
        "Core Triton gets the same instruction through a bitcast of the scores, and needs no vote: once no row "
        "maximum of the block is negative, negative scores cannot raise one. At head_dim 64 its best kernel has such "
        "maxima. There the term is what the flagship gains by them more, or less, than a CUDA kernel limited to what "
        "core Triton can express: in the flagship the softmax overlaps with products of the same warps. Where the best "
        "kernel has none, core Triton's kernel with them says whether they pay, or, where that was not timed often "
        "enough, that CUDA kernel. If they gain less there than in the flagship, the schedule is the cause.",
        "Where the best kernel has none, leave a product in flight across the softmax.",
        otherwise="Nothing. They are written.",
        leave_out="without_integer_max",
        step=("integer_max", "persistent"),
        own=(TRITON, PLAIN),
        limited=(WITH_INTEGERS, ORDERED),
        alike=((ON_INTEGERS, IN_SECTIONS), (WITH_INTEGERS, ORDERED)),
        proofs=("maxima of integers",),
        orders=((TRITON, SECTIONS), (TRITON, INTEGERS), (TRITON, FLOATS), (TRITON, FLAGSHIP)),
        expected=_expected(2.5, 2.5, 4, 4),
    ),
    Term(
        "tma_store",
        "O stored by TMA during the next tile",
        "compiler",
        "Core Triton stores by TMA too, but in its best kernel, which has a block for each tile, and in a while loop "
        "over tiles, the warps that multiply wait for the store. In a loop by tl.range with two stages the compiler "
        "waits only before the next store. The kernel tma_store has such a loop. It gains in short sequences at "
        "head_dim 128 without a mask, and loses on the problems of this page. Its tiles are dealt out in advance, with "
        "a causal mask unevenly. Such a loop can take them from a counter too, which no kernel here does.",
        "Wait for the store in another warp than those that multiply, and in a while loop as late as in a tl.range "
        "loop. Triton 3.9 does the second.",
        leave_out="without_tma_store",
        step=("tma_store", "persistent"),
        proofs=("epilogue descriptor", "stored_later", "stored_later counter", "stored_later while waits"),
        ttgir=("ttng.async_tma_copy_local_to_global", "ttng.async_tma_store_wait", "tt.return"),
        so="the warps that multiplied wait for the store before they end",
        expected=_expected(2, 3, 1, 2),
    ),
    Term(
        "head_by_head",
        "The order of tiles, in one large block",
        "language",
        "The order of tiles is arithmetic on the tile's index, which every language can express, and core Triton's "
        "best kernel has it. So the term is what the flagship gains by it more, or less, than a CUDA kernel limited to "
        "what core Triton can express. That kernel has blocks of 64 queries, which read K and V from the L2 cache "
        "three times as often as the flagship's 192. At head_dim 128 without a mask, an order in which blocks read "
        "the same keys at the same time is worth more to them. So the cause given is that of the block's size. Where "
        "the flagship gains more, as at head_dim 64 without a mask, the reason is not known.",
        "Nothing for the order itself. It is written.",
        leave_out="without_head_by_head",
        step=("head_by_head", "tma_store"),
        own=(PLAIN, IN_SECTIONS),
        more="unexplained",
        limited=(ORDERED, VOCABULARY),
        proofs=("order of blocks", "warps_12"),
        expected=_expected(1, 0.5, 2, 0.5),
    ),
    Term(
        "moved_descriptors",
        "Descriptors advanced by one addition",
        "effort",
        "The kernel builds the descriptors of its operands once per tile and adds a constant for each product. Every "
        "CUDA kernel here does this, so it is not a term of its own, and core Triton's compiler does no worse.",
        "Nothing. It does so today.",
        ptx="No descriptor is computed in the main loop where the tile has one stage. With two stages, all but the "
        "first of a buffer are sums of that one and a constant.",
        leave_out="without_moved_descriptors",
        expected=_expected(1, 1, 1, 1),
        part_of="compiler",
    ),
)


LACKING, LAZILY = "without_lazy_rescale_or_integer_max", "without_lazy_rescale"
"""The flagship without what Gluon's kernels lack, and what is left of that where they have maxima of integers."""

GLUON_TERMS = (
    Term(
        "gluon_votes",
        "Lazy rescaling and three-input maxima",
        "unexplained",
        "Gluon can express both. An if statement rescales lazily for all warps of a partition at once; one in "
        "gl.map_elementwise can for each thread, which no kernel here does. Its flagship never rescales lazily, "
        "because the kernel that does is slower: in machine code the vote adds barriers and shuffles to every step. It "
        "has maxima of integers where they pay, and then only lazy rescaling is in this term. Where Gluon's best tile "
        "has 128 queries by 128 keys, both are left out of the flagship at such a tile, not at its own: what they gain "
        "at one tile they need not gain at another. Whether lazy rescaling loses only by the vote is not known.",
        "Offer a condition per warp: a vote instead of a reduction over the partition.",
        leave_out=LACKING,
        proofs=("condition of a block in Gluon", "maxima of integers in Gluon"),
        orders=((GLUON, "persistent"), (GLUON, "lazy_rescale_wgmma"), (GLUON, "integer_max")),
    ),
    Term(
        "gluon_integer_max",
        "Three-input integer maxima alone",
        "unexplained",
        "A bitcast turns scores into integers, as in core Triton. The term is there where Gluon's kernel is the faster "
        "one without them.",
        "Nothing that is known: they are written, and lose.",
        leave_out="without_integer_max",
        proofs=("maxima of integers in Gluon",),
        expected=_expected(2.5, 2.5, 4, 4),
        part_of="gluon_votes",
    ),
    Term(
        "gluon_lazy_rescale",
        "Lazy rescaling alone",
        "unexplained",
        "In Gluon the condition of an if statement holds for all warps of a partition at once.",
        "Offer a condition per warp: a vote instead of a reduction over the partition.",
        leave_out="without_lazy_rescale",
        proofs=("condition of a block in Gluon",),
        expected=_expected(1.5, 1.5, 0, 0),
        part_of="gluon_votes",
    ),
    Term(
        "gluon_tile",
        "The flagship's tile, not Gluon's best",
        "unexplained",
        "The flagship itself at two tiles: its own, and 128 queries by 128 keys. The term is there where that is the "
        "shape of Gluon's best tile. What the flagship's techniques gain at its own tile and not at the other is in "
        "this term. Gluon can express three warpgroups. At head_dim 128 the flagship has 80 keys, and neither a "
        "tensor nor a wgmma of Gluon's can have that width. Tensors of 64 and 16 keys can stand in for it, each with "
        "a wgmma of its own. No kernel here does that, and what it would cost is not known. What Gluon's own kernel "
        "gains or loses by the flagship's shape stands below, where that was timed. Why it loses there is not known.",
        "Allow tensors and products of any width that is a multiple of 16.",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("warps_gluon three", "wgmma_shape 176", "wgmma_shape 96 of 128", "tile_176 in Gluon"),
        of_tile=True,
    ),
    Term(
        "gluon_schedule",
        "The same schedule, written in CUDA",
        "unexplained",
        "The flagship without the techniques that the Gluon kernel lacks there, and at a tile of the same shape: the "
        "same roles, turns and order of products, in CUDA. Gluon puts a barrier of the warpgroup before each hand-over "
        "of a buffer, where each warp hands over for itself in CUDA. With a causal mask the two also deal out their "
        "tiles in different orders, which is our choice. What each of these costs is not known.",
        "Let each warp hand over a buffer for itself.",
        step=(LACKING, GLUON),
        orders=((GLUON, FLAGSHIP), ("cuda", LACKING)),
        ttgir=("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "math.exp2", "ttng.warp_group_dot_wait"),
        so="the softmax lies between the two waits, as in CUDA",
        expected=_expected(2, 3, 15, 8),
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
        "TLX can express both. An if statement rescales lazily for all warps of a task at once; one in "
        "tl.map_elementwise can for each thread. Its flagship never rescales lazily, and no kernel in TLX does. In "
        "Gluon, which has the same schedule, the kernel that does is slower. The flagship has maxima of integers where "
        "they pay, and then only lazy rescaling is in this term. Where the TLX kernel's best tile has 128 queries by "
        "128 keys, both are left out of CUDA's flagship at such a tile, not at its own.",
        "Offer a condition per warp: a vote instead of a reduction over the task.",
        leave_out=LACKING,
        proofs=("condition of a block, with TLX", "maxima of integers, with TLX"),
    ),
    Term(
        "tlx_tile",
        "The flagship's tile, not the TLX kernel's",
        "unexplained",
        "The flagship itself at two tiles: its own, and 128 queries by 128 keys. The term is there where that is the "
        "shape of the TLX kernel's best tile. What the flagship's techniques gain at its own tile and not at the "
        "other is in this term. TLX can express three warpgroups. At head_dim 128 the flagship has 80 keys, and a "
        "tensor of that width is refused, as in core Triton. Narrower ones can stand in for it, by instructions that "
        "the compiler chooses. No kernel here does that, and what it would cost is not known.",
        "Allow tensors whose sizes are not powers of two.",
        step=(FLAGSHIP, at(FLAGSHIP, SQUARE)),
        proofs=("tlx roles", "tile_176 arange, with TLX", "tile_176 composed, with TLX"),
        of_tile=True,
    ),
    Term(
        "tlx_schedule",
        "The same schedule, written in CUDA",
        "unexplained",
        "The flagship without the techniques that the TLX kernel lacks there, and at a tile of as many queries, over "
        "that kernel. TLX puts a barrier of the warpgroup before each hand-over of a buffer, as Gluon does, where each "
        "warp hands over for itself in CUDA. The plugin demands as many warps of the producer as the first task has, "
        "four instead of one. With a causal mask the two also deal out their tiles in different orders, which is our "
        "choice. What each of these costs is not known.",
        "Choose the layout of what a task writes to shared memory for that task's own number of warps, so that a "
        "producer can be one warp.",
        step=(LACKING, TLX),
        proofs=("flagship in TLX, in flight", "flagship in TLX, turns", "flagship in TLX, stores"),
        orders=((TLX, FLAGSHIP), ("cuda", LACKING)),
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
    found.append((FLAGSHIP, SQUARE))
    if problem.head_dim == 64:
        found.append(("without_register_split", SQUARE))
        return *found, (SECTIONS, theirs, TRITON), (FLOATS, theirs, TRITON)
    less = (LACKING, LAZILY, "without_integer_max") if problem.causal else (LAZILY,)
    core = tuple((name, theirs, TRITON) for name in (SECTIONS, INTEGERS))
    return *found, (FLAGSHIP, NARROW), *((name, SQUARE) for name in less), *core


def kernels() -> tuple[str, ...]:
    """The CUDA kernels that the terms name, ablations before rungs; not the vocabulary, which has tiles of its own."""
    names = {term.name for term in TERMS}
    ablations = [one.name for one in ABLATIONS if one.lacks and names.issuperset(one.lacks) and not one.serialized]
    ends = [end for term in TERMS if not term.part_of for end in term.step or ()]
    rungs = [end for end in ends if end not in (TRITON, SHARED, VOCABULARY, CONFINED)]
    return tuple(dict.fromkeys([*ablations, *rungs]))
