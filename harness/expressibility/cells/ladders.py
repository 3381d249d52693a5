"""What a kernel of a ladder says beside its parent, in core Triton and Gluon: the proof is the pair of them."""

from harness.expressibility.cells.cuda import IN_FLIGHT
from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

SQUARE = "128x128-s2-w8"
MULTIPLICATIONS = Detector("ptx", r"\bmul\.\S*f32", 150)
MANY_PRODUCTS = Detector("sass", r"\bHMMA", 100)
REGISTER_SOFTMAX = Twin("register_softmax", "triton")

CLAIMS = (
    *(
        Claim(
            "direct_rescale",
            dialect,
            "direct",
            "The new maximum before the exponentials: the order of two statements.",
            (
                Proof(
                    f"direct_rescale in {language}",
                    "fewer multiplications",
                    Twin("direct_rescale", dialect),
                    REGISTER_SOFTMAX,
                    MULTIPLICATIONS,
                    seen=False,
                    obtained=True,
                ),
            ),
            word="new_max",
        )
        for dialect, language in (("triton", "core Triton"), ("gluon", "Gluon"))
    ),
    *(
        Claim(
            "large_tile",
            dialect,
            "direct",
            "The keys of a step are a constant of the program.",
            (
                Proof(
                    f"large_tile in {language}",
                    "twice the products a step",
                    Twin("large_tile", dialect),
                    Twin("xor_swizzle", dialect),
                    MANY_PRODUCTS,
                ),
            ),
            word="the tile only",
        )
        for dialect, language in (("triton", "core Triton"), ("gluon", "Gluon"))
    ),
    Claim(
        "tma_swizzle",
        "gluon",
        "direct",
        "The layout of a descriptor names the width of the swizzle: 128, 64 or 32 bytes.",
        tuple(
            Proof(
                f"swizzle_tma_gluon {width}",
                f"a swizzle over {width} bytes",
                Probe("swizzle_tma_gluon", width),
                Probe("swizzle_tma_gluon", other),
                Detector("ttgir", rf"swizzlingByteWidth = {width}\b"),
            )
            for width, other in (("128", "64"), ("64", "32"), ("32", "128"))
        ),
        word=r"NVMMASharedLayout",
    ),
    Claim(
        "asymmetric_kv_buffers",
        "gluon",
        "direct",
        "How many buffers a tensor has is a number of its allocation.",
        (
            Proof(
                "buffers_gluon one of V",
                "one buffer of V beside two of K",
                Probe("buffers_gluon", "one of V"),
                Probe("buffers_gluon", "two of V"),
                Detector("ttgir", r"memdesc<1x64x64"),
            ),
        ),
        word="OF_V",
    ),
    Claim(
        "softmax_lock",
        "gluon",
        "direct",
        "No word for a barrier of some warps by number; a ring of mbarriers, one for each group, is a lock or a turn. "
        "What is to stand inside hangs on it by values that pass through shared memory.",
        (
            Proof(
                "softmax_lock in Gluon",
                "behind a wait the exponentials follow, and no product between",
                Twin("softmax_lock", "gluon"),
                Twin("setmaxnreg_consumers", "gluon"),
                Detector("ptx", "try_wait ex2", order=r"try_wait(?=\.parity)|\bmma(?=\.sync)|\bex2(?=\.approx)"),
            ),
            Proof(
                "lock by mbarriers in Gluon",
                "behind a wait the exponentials follow, and no product or shuffle between",
                Twin("exp_lock", "gluon", tile=SQUARE),
                Twin("producer_consumer", "gluon", tile=SQUARE),
                Detector(
                    "ptx",
                    "try_wait ex2",
                    order=r"try_wait(?=\.parity)|commit_group(?=\.sync)|shfl(?=\.sync)|\bex2(?=\.approx)",
                ),
            ),
            Proof(
                "turns by mbarriers in Gluon",
                "behind two products an mbarrier is reached before the first is awaited",
                Twin("pingpong", "gluon", tile=SQUARE),
                Twin("overlapped_softmax", "gluon", tile=SQUARE),
                Detector(
                    "ptx",
                    r"commit_group arrive wait_group\.sync\.aligned\s+1",
                    order=r"commit_group(?=\.sync)|arrive(?=\.shared)|wait_group\S+\s+\d",
                ),
            ),
        ),
        word="wait_turn",
    ),
    Claim(
        "double_buffered_p",
        "gluon",
        "direct",
        "The wait for P V takes the next P too, which is an operand before it.",
        (
            Proof(
                "operand_in_flight_gluon",
                "in PTX P is converted between the wait for Q K^T and that for P V",
                Probe("operand_in_flight_gluon", "second set"),
                Probe("operand_in_flight_gluon", "one set"),
                Detector(
                    "ptx",
                    r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
                    order=r"wgmma\.wait_group\S+\s+\d|\bcvt(?=\.rn\.bf16)",
                ),
            ),
        ),
        word=r"deps=\[o, p\]",
    ),
    Claim(
        "flagship",
        "gluon",
        "direct",
        "Roles, registers, barriers, both products in flight, the order of tiles and the store of O are all said. What "
        "is not: a branch of one warp, and three integers in one maximum, which is the assembler's choice.",
        (
            Proof(
                "flagship in Gluon, in flight",
                "the exponentials stand between the wait for Q K^T and that for P V",
                Twin("flagship", "gluon", tile=SQUARE),
                Twin("producer_consumer", "gluon", tile=SQUARE),
                IN_FLIGHT,
            ),
            Proof(
                "flagship in Gluon, stores",
                "O leaves by TMA",
                Twin("flagship", "gluon", tile=SQUARE),
                Twin("persistent", "gluon", tile=SQUARE),
                Detector("sass", r"UTMASTG\S*"),
            ),
            Proof(
                "flagship in Gluon, tiles",
                "the next tile from a counter",
                Twin("flagship", "gluon", tile=SQUARE),
                Twin("pinned_maxima", "gluon", tile=SQUARE),
                Detector("ptx", r"\batom\.\S*add\S*"),
            ),
        ),
        word=r"warp_specialize",
    ),
)
