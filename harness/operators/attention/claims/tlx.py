"""TLX: its own extensions, and core Triton's claims compiled again with the plugin loaded."""

from dataclasses import replace
from functools import partial

from harness.expressibility.claims import Claim, Detector, Probe, Proof, forms, in_tlx, with_plugin
from harness.operators.attention.claims.copies import LEFT_IN_FLIGHT, MULTICAST
from harness.operators.attention.claims.hopper import (
    COUNTER,
    IN_FLIGHT_IN_A_ROLE,
    NEXT_P,
    ONE_BY_ONE,
    RESCALED_BETWEEN,
    TILE,
)
from harness.operators.attention.claims.plain import condition
from harness.operators.attention.claims.twin import UNDER_PV, Twin

_tlx = partial(Probe, "tlx", dialect="tlx")


def _claim(technique: str, grade: str, says: str, word: str, *proofs: Proof, fault: str | None = None) -> Claim:
    return in_tlx(technique, grade, says, *proofs, fault=fault, word=word)


ROLES = Proof(
    "tlx roles",
    "The default task has four warps, two replicas have four each, and the producer has one: 16 warps are launched.",
    *forms("tlx", "roles", "plain", dialect="tlx"),
    Detector("facts", r"warps 16"),
)
REGISTERS = Proof(
    "tlx registers",
    "One task gets 232 registers, the other gets 24.",
    *forms("tlx", "roles", "plain", dialect="tlx"),
    Detector("ptx", r"setmaxnreg\S+\s+(?:232|24)\b"),
)
NAMED = Proof(
    "tlx named barriers",
    "The warps arrive at barrier 9 and wait at barrier 10.",
    *forms("tlx", "barriers", "plain", dialect="tlx"),
    Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x[9a], 0x100"),
)
FLAGSHIP = Twin("flagship", "tlx", head_dim=128, tile=TILE, dialect="tlx")
TURNS = Detector(
    "ptx",
    r"commit_group commit_group arrive wait_group\.sync\.aligned\s+1",
    order=r"commit_group(?=\.sync)|(?<=bar\.)arrive|wait_group\S+\s+\d",
)
OWN = (
    _claim(
        "named_barriers", "direct", "A barrier takes its number and a count of threads.", "named_barrier_wait", NAMED
    ),
    _claim(
        "softmax_lock",
        "direct",
        "TLX has named barriers, for some warps of a block. Two of them make a lock.",
        "named_barrier_wait",
        replace(NAMED, name="tlx lock"),
    ),
    _claim("role_branch", "direct", "Only the warps of a task run its code.", r"async_task\(", ROLES),
    _claim("warp_specialized", "direct", "Each task has its own warps and registers.", r"async_task\(", ROLES),
    _claim(
        "lazy_consumers",
        "direct",
        "Each task has its own warps, and an if statement in a task decides for all of them.",
        r"async_task\(|if tl\.max",
        ROLES,
        with_plugin(condition()),
    ),
    _claim("three_warpgroups", "direct", "A kernel has as many tasks as the source writes.", r"async_task\(", ROLES),
    _claim("setmaxnreg_consumers", "direct", "A task takes a number of registers.", r"registers=232", REGISTERS),
    _claim(
        "mbarrier_ring",
        "direct",
        "Calls allocate mbarriers, wait for them and arrive at them.",
        "barrier_arrive",
        Proof(
            "tlx mbarriers",
            "A task arrives at an mbarrier.",
            *forms("tlx", "roles", "plain", dialect="tlx"),
            Detector("ptx", r"mbarrier\.arrive\S*"),
        ),
    ),
    _claim(
        "overlapped_softmax",
        "hint",
        "In a while loop, a wait takes the number of products that may stay in flight. In a for loop, "
        "stock Triton's pipeliner waits for each product right after its issue. ptxas decides how much of the softmax "
        "stays between two waits.",
        "async_dot_wait",
        Proof(
            "tlx wait, machine code",
            "In the machine code of the flagship some exponentials come between the wait for Q K^T and that for P V.",
            FLAGSHIP,
            _tlx("wait all"),
            UNDER_PV,
        ),
        Proof(
            "tlx wait",
            "A wait leaves one product in flight.",
            *forms("tlx", "wait one", "wait all", dialect="tlx"),
            Detector("ptx", r"wgmma\.wait_group\S+\s+1"),
        ),
        Proof(
            "tlx wait in a for",
            "In a for loop, a wait for all products follows each product.",
            *forms("tlx_products", "for", "free", dialect="tlx"),
            Detector(
                "ptx", r"commit_group wait_group\S+\s+0", order=r"commit_group(?=\.sync)|wait_group\S+\s+\d", least=2
            ),
            obtained=False,
        ),
    ),
    _claim(
        "flagship",
        "direct",
        "The source writes roles, registers, turns by named barriers, both products in flight, the order "
        "of tiles and the store of O. It has no branch for a single warp, and ptxas decides whether one "
        "instruction compares three integers.",
        r"async_task\(",
        *(
            Proof(f"flagship in TLX, {what}", shows, FLAGSHIP, control, detector)
            for what, shows, control, detector in (
                (
                    "in flight",
                    "In a role, the exponentials come while P V is in flight.",
                    _tlx("roles"),
                    IN_FLIGHT_IN_A_ROLE,
                ),
                (
                    "turns",
                    "A warpgroup arrives at a barrier before it waits for the first of two products.",
                    _tlx("roles"),
                    TURNS,
                ),
                ("stores", "O leaves by TMA (UTMASTG).", _tlx("roles"), Detector("sass", r"UTMASTG\S*")),
                ("tiles", "The next tile comes from an atomic counter.", _tlx("roles"), COUNTER),
            )
        ),
    ),
    _claim(
        "early_rescale",
        "direct",
        "In a while loop, a product is issued where its call is, and waited for where its wait is.",
        "async_dot",
        Proof(
            "tlx early",
            "In the PTX, O is rescaled after Q K^T is issued and before P V is issued.",
            *forms("tlx_products", "early", "free", dialect="tlx"),
            RESCALED_BETWEEN,
        ),
    ),
    _claim(
        "cluster_multicast",
        "direct",
        "A load takes a list of target blocks. But in a cluster the tile in shared memory does not "
        "compile, because its layout covers one block only. Without a cluster the argument is ignored.",
        "multicast_targets",
        Proof(
            "tlx multicast",
            "With two blocks the compiler ends with an error.",
            *forms("tlx_clusters", "two blocks", "one block", dialect="tlx"),
            Detector("words", r"Layout has 1 CTAs per CGA, but the context requires 2"),
        ),
        Proof(
            "tlx multicast of one block",
            "With one block the load is an ordinary TMA load.",
            Probe("tlx_clusters", "one block", dialect="tlx"),
            Probe("multicast_gluon", "multicast", version="3.9.0"),
            MULTICAST,
            seen=False,
        ),
        fault="fails",
    ),
    _claim(
        "held_overlap",
        "direct",
        "A wait for an mbarrier takes the phase as a value, which may depend on the row sums.",
        r"barrier_wait\(empty",
        Proof(
            "tlx held",
            "A wait that depends on the row sums comes between the exponentials and the wait for P V.",
            *forms("tlx_products", "held", "free", dialect="tlx"),
            Detector(
                "ptx",
                r"ex2 setp\.lt\.f32 try_wait wait_group\.sync\.aligned\s+0",
                order=r"\bex2(?=\.approx)|setp\.lt\.f32|try_wait(?=\.parity)|wait_group\S+\s+\d",
            ),
        ),
    ),
    _claim(
        "pinned_maxima",
        "direct",
        "An if statement on the row maxima may guard an arrival at an mbarrier: one scalar for the whole warpgroup.",
        r"if top == top",
        Proof(
            "tlx pinned",
            "A comparison of the row maxima decides whether to arrive.",
            *forms("tlx_products", "pinned", "free", dialect="tlx"),
            Detector("ptx", r"setp\.nan\.f32"),
        ),
    ),
    _claim(
        "double_buffered_p",
        "hint",
        "The source can convert the next P before it waits for P V. But the wait takes one value and "
        "cannot take P too, and ptxas then waits after every wgmma. The loop of core Triton that carries the bits of P "
        "compiles here too.",
        "second set|bitcast=True",
        replace(
            NEXT_P,
            name="next_p, with TLX",
            subject=Probe("next_p", "bits", dialect="tlx"),
            control=Probe("next_p", "values", dialect="tlx"),
        ),
        Proof(
            "tlx second set",
            "In the PTX, P is converted between the wait for Q K^T and the wait for P V.",
            *forms("tlx_products", "second set", "free", dialect="tlx"),
            Detector(
                "ptx",
                r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wait_group\.sync\.aligned\s+"),
                order=r"wait_group\S+\s+\d|\bcvt(?=\.rn\.f16)",
            ),
        ),
        Proof(
            "tlx second set serialized",
            "In the machine code, a wait follows every wgmma.",
            *forms("tlx_products", "second set", "free", dialect="tlx"),
            ONE_BY_ONE,
            obtained=False,
        ),
    ),
    _claim(
        "cp_async_pipeline",
        "direct",
        "Copies, groups and waits are calls. Which groups a wait is for follows from their tokens, which it takes too: "
        "the number that it takes is ignored.",
        "async_load_wait_group",
        Proof(
            "tlx_waits token",
            "A wait for the token of K leaves the copy of V in flight (cp.async.wait_group 1).",
            *forms("tlx_waits", "1 token", "0", dialect="tlx"),
            LEFT_IN_FLIGHT,
        ),
        Proof(
            "tlx_waits number",
            "A wait that takes the number 1 and no token leaves no copy in flight.",
            *forms("tlx_waits", "1", "0 token", dialect="tlx"),
            LEFT_IN_FLIGHT,
            seen=False,
        ),
    ),
    _claim(
        "shared_memory_reuse",
        "direct",
        "A tile may be placed on the bytes of another tile.",
        "reuse=",
        Proof(
            "tlx reuse",
            "Two tiles of 8192 bytes occupy 8192 bytes.",
            *forms("tlx", "reuse", "apart", dialect="tlx"),
            Detector("facts", r"shared 8192"),
        ),
    ),
    _claim(
        "padded_rows",
        "direct",
        "A padded layout is an argument.",
        "padded_shared_layout_encoding",
        Proof(
            "tlx padded",
            "The tile has a padded layout.",
            *forms("tlx_layouts", "padded", "plain", dialect="tlx"),
            Detector("ttgir", r"padded_shared<"),
        ),
    ),
    _claim(
        "xor_swizzle",
        "direct",
        "Any XOR layout, given by its basis vectors, is an argument.",
        "shared_linear_layout_encoding",
        Proof(
            "tlx xor",
            "The tile has the XOR layout that the source spells out.",
            *forms("tlx_layouts", "xor", "plain", dialect="tlx"),
            Detector("ttgir", r"\[1, 8\], \[2, 16\], \[4, 32\]"),
        ),
    ),
    _claim(
        "unswizzled_rows",
        "direct",
        "A layout without any XOR, given by its basis vectors, is an argument. swizzled_layout(0, 0, 0) "
        "is accepted and ignored.",
        "shared_linear_layout_encoding",
        Proof(
            "tlx plain",
            "The tile has the layout without XOR that the source spells out.",
            *forms("tlx_layouts", "plain", "xor", dialect="tlx"),
            Detector("ttgir", r"\[1, 0\], \[2, 0\], \[4, 0\]"),
        ),
        Proof(
            "tlx none asked",
            "swizzled_layout(0, 0, 0) becomes a swizzle of 128 bytes.",
            *forms("tlx_layouts", "none asked", "plain", dialect="tlx"),
            Detector("ttgir", r"swizzlingByteWidth = 128"),
            obtained=False,
        ),
    ),
)
