"""TLX: its own words, and for everything else those of core Triton, compiled with the plugin loaded."""

from collections.abc import Iterable
from dataclasses import replace

from harness.expressibility.cells.copies import MULTICAST
from harness.expressibility.cells.hopper import COUNTER, IN_FLIGHT_IN_A_ROLE, ONE_BY_ONE, RESCALED_BETWEEN, TILE
from harness.expressibility.claims import Claim, Detector, Probe, Program, Proof, Twin

VERSION = "3.8.0"


def _tlx(form: str) -> Probe:
    return Probe("tlx", form, dialect="tlx")


def _layout(form: str) -> Probe:
    return Probe("tlx_layouts", form, dialect="tlx")


def _product(form: str) -> Probe:
    return Probe("tlx_products", form, dialect="tlx")


def _claim(technique: str, grade: str, says: str, word: str, *proofs: Proof, fault: str | None = None) -> Claim:
    return Claim(technique, "tlx", grade, says, proofs, fault=fault, word=word)


ROLES = Proof(
    "tlx roles",
    "a producer warp, two groups of four by `replicate`, four more: sixteen warps are launched",
    _tlx("roles"),
    _tlx("plain"),
    Detector("facts", r"warps 16"),
)
REGISTERS = Proof(
    "tlx registers",
    "232 registers for one task, 24 for the other",
    _tlx("roles"),
    _tlx("plain"),
    Detector("ptx", r"setmaxnreg\S+\s+(?:232|24)\b"),
)
NAMED = Proof(
    "tlx named barriers",
    "barrier 9 is reached, barrier 10 awaited",
    _tlx("barriers"),
    _tlx("plain"),
    Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x[9a], 0x100"),
)
FLAGSHIP = Twin("flagship", "tlx", head_dim=128, tile=TILE, dialect="tlx")
TURNS = Detector(
    "ptx",
    r"commit_group commit_group arrive wait_group\.sync\.aligned\s+1",
    order=r"commit_group(?=\.sync)|(?<=bar\.)arrive|wait_group\S+\s+\d",
)
OWN = (
    _claim("named_barriers", "direct", "A barrier has a number and a count of threads.", "named_barrier_wait", NAMED),
    _claim(
        "softmax_lock",
        "direct",
        "A barrier of some warps has a word: a lock is two of them.",
        "named_barrier_wait",
        replace(NAMED, name="tlx lock"),
    ),
    _claim("role_branch", "direct", "A task is code of its warps alone.", r"async_task\(", ROLES),
    _claim("warp_specialized", "direct", "Tasks have their warps and registers.", r"async_task\(", ROLES),
    _claim("three_warpgroups", "direct", "Tasks are as many as are written.", r"async_task\(", ROLES),
    _claim("setmaxnreg_consumers", "direct", "A task takes a number of registers.", r"registers=232", REGISTERS),
    _claim(
        "mbarrier_ring",
        "direct",
        "mbarriers are allocated, awaited and reached by calls.",
        "barrier_arrive",
        Proof(
            "tlx mbarriers",
            "a task arrives on an mbarrier",
            _tlx("roles"),
            _tlx("plain"),
            Detector("ptx", r"mbarrier\.arrive\S*"),
        ),
    ),
    _claim(
        "overlapped_softmax",
        "direct",
        "A wait takes the number of products that may stay in flight, in a loop by `while`. In a loop by `for` the "
        "pipeliner of the stock Triton awaits each product at once.",
        "async_dot_wait",
        Proof(
            "tlx wait",
            "one product stays in flight over the exponentials",
            _tlx("wait one"),
            _tlx("wait all"),
            Detector("ptx", r"wgmma\.wait_group\S+\s+1"),
        ),
        Proof(
            "tlx wait in a for",
            "in a loop by `for` a wait for all follows each product",
            _product("for"),
            _product("free"),
            Detector(
                "ptx", r"commit_group wait_group\S+\s+0", order=r"commit_group(?=\.sync)|wait_group\S+\s+\d", least=2
            ),
            obtained=False,
        ),
    ),
    _claim(
        "flagship",
        "direct",
        "Roles, registers, turns by named barriers, both products in flight, the order of tiles and the store of O are "
        "all said. What is not: a branch of one warp, and three integers in one maximum, which is the assembler's "
        "choice.",
        r"async_task\(",
        *(
            Proof(f"flagship in TLX, {what}", shows, FLAGSHIP, control, detector)
            for what, shows, control, detector in (
                ("in flight", "in a role the exponentials stand under P V", _tlx("roles"), IN_FLIGHT_IN_A_ROLE),
                ("turns", "a barrier is reached before the first of two products is awaited", _tlx("roles"), TURNS),
                ("stores", "O leaves by TMA", _tlx("roles"), Detector("sass", r"UTMASTG\S*")),
                ("tiles", "the next tile from a counter", _tlx("roles"), COUNTER),
            )
        ),
    ),
    _claim(
        "early_rescale",
        "direct",
        "A product is issued where its call stands, in a loop by `while`, and awaited where its wait does.",
        "async_dot",
        Proof(
            "tlx early",
            "in the PTX the multiplications stand between issuing Q K^T and P V",
            _product("early"),
            _product("free"),
            RESCALED_BETWEEN,
        ),
    ),
    _claim(
        "cluster_multicast",
        "direct",
        "A load takes the blocks that it is for, but in a cluster no tile in shared memory compiles: its layout knows "
        "one block. With one block the argument is ignored.",
        "multicast_targets",
        Proof(
            "tlx multicast",
            "with two blocks the compiler ends in an error",
            Probe("tlx_clusters", "two blocks", dialect="tlx"),
            Probe("tlx_clusters", "one block", dialect="tlx"),
            Detector("words", r"Layout has 1 CTAs per CGA, but the context requires 2"),
        ),
        Proof(
            "tlx multicast of one block",
            "with one block it is a load like any other",
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
        "A wait for an mbarrier takes the phase as a value, which may hang on a comparison of sums.",
        r"barrier_wait\(empty",
        Proof(
            "tlx held",
            "a wait that hangs on the sums stands between the exponentials and the wait for P V",
            _product("held"),
            _product("free"),
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
        "An arrival on an mbarrier may stand under an `if` on the maxima: on one scalar of a whole group.",
        r"if top == top",
        Proof(
            "tlx pinned",
            "a comparison of the maxima decides on the arrival",
            _product("pinned"),
            _product("free"),
            Detector("ptx", r"setp\.nan\.f32"),
        ),
    ),
    _claim(
        "double_buffered_p",
        "hint",
        "The next P is converted before the wait for P V where the source says so. The wait takes one value and not P: "
        "the assembler then awaits every product by itself.",
        "second set",
        Proof(
            "tlx second set",
            "in the PTX P is converted between the wait for Q K^T and that for P V",
            _product("second set"),
            _product("free"),
            Detector(
                "ptx",
                r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wait_group\.sync\.aligned\s+"),
                order=r"wait_group\S+\s+\d|\bcvt(?=\.rn\.f16)",
            ),
        ),
        Proof(
            "tlx second set serialized",
            "in the machine code a wait follows each product",
            _product("second set"),
            _product("free"),
            ONE_BY_ONE,
            obtained=False,
        ),
    ),
    _claim(
        "shared_memory_reuse",
        "direct",
        "A tile may lie on another's bytes.",
        "reuse=",
        Proof(
            "tlx reuse",
            "two tiles of 8192 bytes in 8192 bytes",
            _tlx("reuse"),
            _tlx("apart"),
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
            "rows 16 bytes further apart",
            _layout("padded"),
            _layout("plain"),
            Detector("ttgir", r"padded_shared<"),
        ),
    ),
    _claim(
        "xor_swizzle",
        "direct",
        "Any exclusive or by its bases is an argument.",
        "shared_linear_layout_encoding",
        Proof(
            "tlx xor",
            "an exclusive or of one's own",
            _layout("xor"),
            _layout("plain"),
            Detector("ttgir", r"\[1, 8\], \[2, 16\], \[4, 32\]"),
        ),
    ),
    _claim(
        "unswizzled_rows",
        "direct",
        "The identity by its bases is an argument; swizzled_layout(0, 0, 0) is accepted and ignored.",
        "shared_linear_layout_encoding",
        Proof(
            "tlx plain",
            "rows as they come",
            _layout("plain"),
            _layout("xor"),
            Detector("ttgir", r"\[1, 0\], \[2, 0\], \[4, 0\]"),
        ),
        Proof(
            "tlx none asked",
            "swizzled_layout(0, 0, 0) becomes a swizzle of 128 bytes",
            _layout("none asked"),
            _layout("plain"),
            Detector("ttgir", r"swizzlingByteWidth = 128"),
            obtained=False,
        ),
    ),
)


def inherited(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """TLX has every word of core Triton: its claims for this release, compiled with the plugin, where it has no own.

    What core Triton cannot say is no claim about TLX: that takes attempts in its own words.
    """
    own = {claim.technique for claim in OWN}
    of_triton = (claim for claim in claims if claim.dialect == "triton" and VERSION in claim.holds_for)
    return tuple(
        replace(claim, dialect="tlx", versions=(), proofs=tuple(_with_plugin(proof) for proof in claim.proofs))
        for claim in of_triton
        if claim.technique not in own and claim.grade != "inexpressible"
    )


def _with_plugin(proof: Proof) -> Proof:
    return replace(
        proof, name=f"{proof.name}, with TLX", subject=_loaded(proof.subject), control=_loaded(proof.control)
    )


def _loaded(program: Program) -> Program:
    return replace(program, dialect="tlx") if isinstance(program, Probe | Twin) and program.version is None else program
