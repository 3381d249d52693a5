"""Claims about the gradients' five products and the additions to dQ.

What attention asks as well is claimed there: the bulk copy that adds (tma_reduce), flags and their order of memory
(semaphores), roles and their registers in a kernel of two products.
"""

from functools import partial

from harness.expressibility.claims import Claim, Detector, Probe, Proof, by_pair, forms, in_gluon, in_triton, inherited
from harness.operators.attention_backward.claims.twin import Twin

WAITS = r"ttng\.warp_group_dot(?:_wait)?|math\.exp2"
NO_WAIT_BEFORE_EXP2 = Detector("ttgir", r"warp_group_dot math\.exp2", order=WAITS)
EXPONENTIALS_IN_FLIGHT = Detector(
    "sass",
    r"HGMMA(?: HGMMA| MUFU\.EX2)*(?: MUFU\.EX2){8}(?: HGMMA| MUFU\.EX2)* WARPGROUP\.DEPBAR",
    in_loop=True,
    order=r"\bHGMMA\b|MUFU\.EX2|WARPGROUP\.DEPBAR",
)
UNDER_DP = Detector(
    "ptx",
    r"WAIT1 (?:ex2 )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
    order=r"wgmma\.wait_group\S+\s+\d|\bex2(?=\.approx)",
)
"""The exponentials come between the wait for S and the wait for dP."""
STRAIGHT_FROM_EXP2 = Detector(
    "ttgir",
    r"math\.exp2 ttng\.warp_group_dot ttng\.warp_group_dot",
    order=r"math\.exp2|ttg\.local_alloc|ttng\.warp_group_dot(?!_)",
)
"""Two products follow the exponentials, and no operand of theirs was put into shared memory on the way."""
FROM_REGISTERS = r"wgmma\.mma_async\S* \{[^}\n]*\}, ?\{"
PARTITION_OF_ONE = Detector("ttgir", r"partition\d?\(.*num_warps\(1\)")
ROLES = Detector("facts", r"warps (?:12|16)")
ABORTS = Detector("words", r"Unexpected asyncTaskIds")
FOUR = Detector("ptx", r"\b(?:atom|red)\.global\S*\.v4\.f32")
IN_TURN = Detector(
    "ptx", r"acquire (?:add )+release", order=r"(?<=gpu\.)(?:acquire|release)|(?<=relaxed\.)add(?=\.v4\.f32)"
)
"""One operation acquires, the additions follow, another operation releases."""
ADDED = Detector("ptx", r"cp\.reduce\.async\.bulk\S*")
BEFORE_THE_NEXT = Detector("ttgir", r"async_tma_reduce scf\.yield", order=r"async_tma_(?:reduce|store_wait)|scf\.yield")
"""An iteration ends behind a bulk addition without a wait for it."""
WRITTEN = Detector("ptx", r"cp\.async\.bulk\.wait_group\s+0")
"""A wait until copies in bulk have written; that of `.read` is until they have read."""

EARLY, LATE = ("3.6.0", "3.7.1"), ("3.8.0", "3.9.0")
_loop = partial(Probe, "gradients")


def _in_cuda(technique: str, says: str, subject: str, control: str, detector: Detector) -> Claim:
    return by_pair(technique, "cuda", says, Twin(subject, "cuda"), Twin(control, "cuda"), detector)


IGNORED = Proof(
    "gradients roles of 8 warps",
    "With eight warps the compiler ignores the request: it adds no warps.",
    _loop("roles"),
    Probe("warp_specialize", "90"),
    ROLES,
    seen=False,
)
FAILS = Proof(
    "gradients roles of 4 warps",
    "With four warps the compiler aborts.",
    *forms("gradients", "roles of 4 warps", "4 warps"),
    ABORTS,
)
DROPPED = Proof(
    "gradients roles dropped",
    "With roles the program has no atomic operation any more: dQ is never added.",
    *forms("gradients", "roles and atomics", "atomics"),
    FOUR,
    seen=False,
)
HOOKED = Proof(
    "reducing_hook",
    "In the IR that the hook edits, a role of one warp waits for the product and has the additions.",
    *forms("reducing_hook", "hook", "plain"),
    Detector(
        "ttgir",
        r"num_warps\(1\) wait_barrier atomic_rmw warp_return",
        order=r"num_warps\(1\)|(?<=ttng\.)wait_barrier|(?<=tt\.)atomic_rmw|(?<=ttg\.)warp_return",
    ),
)
RUNS_ON = Proof(
    "gradients bulk",
    "An iteration ends without a wait for its addition, which runs under the products of the next.",
    _loop("plain"),
    Probe("additions", "bulk"),
    BEFORE_THE_NEXT,
)
BY_ATOMICS = Proof(
    "additions ordered",
    "The additions come between an operation that acquires and one that releases.",
    *forms("additions", "ordered", "atomic"),
    IN_TURN,
)
GLUON_ROLE = Proof(
    "additions_gluon atomic",
    "A partition of one warp has the additions.",
    *forms("additions_gluon", "atomic", "four"),
    PARTITION_OF_ONE,
)
GLUON_BULK = Proof(
    "additions_gluon bulk",
    "The PTX has a bulk copy that adds (cp.reduce).",
    *forms("additions_gluon", "bulk", "atomic"),
    ADDED,
)
GLUON_REFUSED = Proof(
    "additions_gluon refused",
    "The module has no async_atomic_add.",
    *forms("additions_gluon", "bulk", "atomic"),
    Detector("words", r"has no attribute 'async_atomic_add'"),
)
GLUON_IN_TURN = Proof(
    "additions_gluon ordered",
    "The additions come between an operation that acquires and one that releases.",
    *forms("additions_gluon", "ordered", "four"),
    IN_TURN,
)
IN_A_TASK = Proof(
    "additions_tlx task",
    "A task of one warp has the additions.",
    *forms("additions_tlx", "read", "no tasks", dialect="tlx"),
    PARTITION_OF_ONE,
)
SEMAPHORE = "A loop waits for a flag with acquire, atomic operations add, and behind a barrier another releases."

_OF_TRITON = (
    in_triton(
        "left_operands",
        "automatic",
        "If scores have a row for each key (S^T = K Q^T), P and dS stay in the registers that dV and dK take their "
        "left operands from. With a row for each query they pass through shared memory.",
        Proof(
            "left_operands",
            "dV's and dK's products follow the exponentials with nothing put into shared memory between.",
            Twin("transposed_scores", "triton"),
            Twin("tma_ring", "triton"),
            STRAIGHT_FROM_EXP2,
        ),
    ),
    in_triton(
        "gradients_in_flight",
        "hint",
        "There is no wait in the language, only an order of statements. Exponentials that are written before dP are "
        "dealt out among its products by ptxas; behind dP, nothing is left in flight. S of the next step stays in "
        "flight if everything that reads it comes behind the wait for dP of that step.",
        Proof(
            "gradients under dP",
            "In the machine code, exponentials come between a product and the wait for it. In the control they "
            "are written behind dP.",
            _loop("plain"),
            Twin("bulk_reduce", "triton"),
            EXPONENTIALS_IN_FLIGHT,
        ),
        Proof(
            "gradients rotated",
            "No wait stands between S of the next step and the exponentials.",
            *forms("gradients", "rotated", "plain"),
            NO_WAIT_BEFORE_EXP2,
        ),
        Proof(
            "gradients next scores",
            "If S of the next step is only asked for first, it is waited for right before the exponentials.",
            *forms("gradients", "next scores", "rotated"),
            NO_WAIT_BEFORE_EXP2,
            seen=False,
        ),
        word='FORM == "rotated"',
    ),
    in_triton(
        "backward_roles",
        "hint",
        "With four warps and 64 keys a block, warp_specialize=True adds warps that load and a second warpgroup that "
        "multiplies, but the compiler drops dQ and its atomic addition without a word. With 128 keys it aborts, and "
        "with eight warps it ignores the request.",
        Proof(
            "gradients roles",
            "num_warps=4 launches 12 warps.",
            *forms("gradients", "roles and atomics", "atomics"),
            ROLES,
        ),
        DROPPED,
        FAILS,
        IGNORED,
        fault="wrong",
        word="warp_specialize=",
    ),
    in_triton(
        "reducing_warp",
        "hatch",
        "Roles are the compiler's, and it makes none that adds: with four warps it aborts, or drops the addition; with "
        "eight it ignores the request. So the warps that multiply store dQ, and one of their threads adds it. A hook "
        "on the compiler's stages can hand a product to a role of one warp that adds it. That compiles; no kernel here "
        "has run with it.",
        FAILS,
        IGNORED,
        DROPPED,
        HOOKED,
        word="add_stages_inspection_hook",
    ),
    in_triton(
        "bulk_additions",
        "direct",
        "A tensor descriptor adds a tile (atomic_add). In a pipelined loop the compiler waits for it only before the "
        "next tile is stored to the same buffer; in any other it waits at once.",
        Proof(
            "bulk_additions",
            "The PTX has a bulk copy that adds (cp.reduce).",
            Twin("bulk_reduce", "triton"),
            Twin("transposed_scores", "triton"),
            ADDED,
        ),
        RUNS_ON,
        word=r"\.atomic_add\(\[",
    ),
    in_triton(
        "vector_atomics",
        "automatic",
        "An atomic addition of a tile whose rows are contiguous takes four numbers at a time. Up to 3.8 it also "
        "returns what was there (atom), which nothing asked for; 3.9 has red.",
        Proof(
            "vector_atomics",
            "An atomic operation adds four numbers (v4.f32).",
            *forms("additions", "atomic", "strided"),
            FOUR,
        ),
    ),
    in_triton(
        "ordered_additions",
        "direct",
        f"{SEMAPHORE} A bulk copy cannot take part: the compiler waits until it has read the tile, not until the sums "
        "are written.",
        BY_ATOMICS,
        Proof(
            "additions read",
            "No wait is for what a bulk copy writes.",
            Probe("additions", "ordered bulk"),
            Twin("deterministic", "cuda"),
            WRITTEN,
            seen=False,
        ),
        versions=EARLY,
        word=r'sem="release"',
    ),
    in_triton(
        "ordered_additions",
        "direct",
        f"{SEMAPHORE} A bulk copy can take part outside a pipelined loop, where the compiler waits until the sums are "
        "written; in one it waits until the tile was read.",
        BY_ATOMICS,
        Proof(
            "additions written",
            "The wait behind the bulk copy is until it has written, and a release follows it.",
            *forms("additions", "ordered bulk", "bulk"),
            Detector(
                "ptx",
                r"cp\.reduce wait_group\s+0 release",
                order=r"cp\.reduce(?=\.async)|(?<=async\.bulk\.)wait_group\S*\s+\d|(?<=gpu\.)release",
            ),
        ),
        versions=LATE,
        word=r'sem="release"',
    ),
)

_OF_TLX = (
    by_pair(
        "reducing_warp",
        "tlx",
        "A task has as many warps as it asks for: here one, which only adds.",
        IN_A_TASK.subject,
        IN_A_TASK.control,
        IN_A_TASK.detector,
        r"async_task\(num_warps=1",
    ),
    by_pair(
        "backward_roles",
        "tlx",
        "Each task has its own code, warps and registers.",
        *forms("additions_tlx", "written", "no tasks", dialect="tlx"),
        Detector("ptx", r"setmaxnreg\S+\s+24\b"),
        r"registers=24",
    ),
    by_pair(
        "gradients_in_flight",
        "tlx",
        "In a while loop a wait takes the number of products that may stay in flight.",
        *forms("tlx", "wait one", "wait all", dialect="tlx"),
        Detector("ptx", r"wgmma\.wait_group\S+\s+1"),
        "async_dot_wait",
    ),
    by_pair(
        "ordered_additions",
        "tlx",
        "A wait for bulk copies says whether it is until they have written, so that a flag may follow.",
        *forms("additions_tlx", "written", "read", dialect="tlx"),
        WRITTEN,
        "read_only=",
    ),
)

_OF_GLUON = (
    by_pair(
        "left_operands",
        "gluon",
        "A product takes its left operand in the layout of registers that the source converts it to.",
        *forms("gradients_gluon", "registers", "shared"),
        Detector("ptx", FROM_REGISTERS),
        "DotOperandLayout",
    ),
    by_pair(
        "gradients_in_flight",
        "gluon",
        "A wait says how many products may be in flight: the exponentials come between the one for S and the one for "
        "dP.",
        *forms("gradients_gluon", "registers", "waits at once"),
        UNDER_DP,
        r"warpgroup_mma_wait\(1",
    ),
    by_pair(
        "backward_roles",
        "gluon",
        "Each partition has its own code, warps and registers.",
        *forms("additions_gluon", "atomic", "pairs"),
        Detector("ptx", r"setmaxnreg\S+\s+24\b"),
        r"gl\.warp_specialize",
    ),
    in_gluon(
        "reducing_warp",
        "direct",
        "A partition has as many warps as the source asks for: here one, which only adds.",
        GLUON_ROLE,
        word=r"gl\.warp_specialize",
    ),
    in_gluon(
        "bulk_additions",
        "hatch",
        "There is no call for it. Inline PTX can issue one from shared memory that it declares: it cannot name the "
        "kernel's buffers.",
        Proof(
            "bulk_additions by asm in Gluon",
            "The PTX has a bulk copy that adds (cp.reduce).",
            *forms("reduce_gluon", "asm", "store"),
            ADDED,
        ),
        GLUON_REFUSED,
        versions=EARLY,
        word="inline_asm_elementwise",
    ),
    in_gluon(
        "bulk_additions",
        "direct",
        "A call adds a tile of shared memory, and its wait is another call.",
        GLUON_BULK,
        versions=LATE,
        word="async_atomic_add",
    ),
    by_pair(
        "vector_atomics",
        "gluon",
        "A layout with four numbers in a row for each thread.",
        *forms("additions_gluon", "four", "pairs"),
        FOUR,
        "BlockedLayout",
    ),
    in_gluon("ordered_additions", "direct", SEMAPHORE, GLUON_IN_TURN, versions=EARLY, word=r'sem="release"'),
    in_gluon(
        "ordered_additions",
        "direct",
        f"{SEMAPHORE} Bulk copies can take part: a wait says whether it is until they have written.",
        GLUON_IN_TURN,
        Proof(
            "additions_gluon written",
            "The wait is until the bulk copy has written.",
            *forms("additions_gluon", "written", "bulk"),
            WRITTEN,
        ),
        versions=LATE,
        word=r'sem="release"|read_only=False',
    ),
)

_OF_CUDA = (
    _in_cuda(
        "left_operands",
        "dV's and dK's products take their left operands from registers, as a wgmma of that form says. In the control "
        "only dQ's do.",
        "transposed_scores",
        "tma_ring",
        Detector("ptx", FROM_REGISTERS, least=8),
    ),
    _in_cuda(
        "gradients_in_flight",
        "A wait says how many groups may be in flight: the exponentials come between the one for S and the one for dP.",
        "overlapped",
        "bulk_reduce",
        UNDER_DP,
    ),
    _in_cuda(
        "backward_roles",
        "A branch decides who loads, and setmaxnreg who has the registers.",
        "producer_consumer",
        "transposed_scores",
        Detector("ptx", r"setmaxnreg\S*"),
    ),
    _in_cuda(
        "reducing_warp",
        "The bulk copy that adds is in the branch of the warps that gave up their registers.",
        "bulk_reduce",
        "producer_consumer",
        Detector(
            "ptx",
            r"setmaxnreg\.dec (?:cp\.reduce )+setmaxnreg\.inc",
            order=r"setmaxnreg\.(?:dec|inc)|cp\.reduce(?=\.async)",
        ),
    ),
    _in_cuda(
        "bulk_additions", "One instruction adds 16 KB of shared memory.", "bulk_reduce", "producer_consumer", ADDED
    ),
    _in_cuda(
        "vector_atomics",
        "One instruction adds four numbers.",
        "vector_atomics",
        "one_kernel",
        Detector("sass", r"RED\S*F32x4\S*"),
    ),
    _in_cuda(
        "ordered_additions",
        "Behind a wait until the bulk copy has written the flag is released.",
        "deterministic",
        "mask_apart",
        Detector(
            "ptx",
            r"wait_group\s+0 red\.release\.gpu",
            order=r"(?<=async\.bulk\.)wait_group\S*\s+\d|red\.release\.gpu",
        ),
    ),
)

CLAIMS = (
    *_OF_TRITON,
    *_OF_TLX,
    *inherited(_OF_TRITON, {claim.technique for claim in _OF_TLX}),
    *_OF_GLUON,
    *_OF_CUDA,
)
"""Of the matrix."""
OF_RIVALS: tuple[Claim, ...] = ()
ASKED: dict[str, str] = {}

EXTRA = {
    "left_operands": "P and dS multiplied from the registers in which they were computed",
    "gradients_in_flight": "a product in flight under the exponentials of attention's backward pass",
    "backward_roles": "roles for warps around the five products of attention's backward pass",
    "reducing_warp": "a warp that only adds to global memory what others computed",
    "bulk_additions": "a tile of dQ added by a bulk copy, under the products of the next step",
    "vector_atomics": "atomic additions of 16 bytes",
    "ordered_additions": "blocks that add to a tile of dQ in a fixed order: a flag for each tile",
}
"""Technique without a rung -> its idea."""
