"""Core Triton and Gluon: most proofs here compare a ladder's kernel with its parent."""

from dataclasses import replace

from harness.expressibility.claims import Detector, Proof, claim, forms, in_gluon, in_triton
from harness.operators.attention.claims.cuda import IN_FLIGHT
from harness.operators.attention.claims.twin import Twin, twins

SQUARE = "128x128-s2-w8"
MULTIPLICATIONS = Detector("ptx", r"\bmul\.\S*f32", 150)
MANY_PRODUCTS = Detector("sass", r"\bHMMA", 100)
REGISTER_SOFTMAX = Twin("register_softmax", "triton")
USED_TWICE = Detector("ptx", r"(?<=\}, )(\{ %r\d+, %r\d+ \})(?=, \{[\s\S]*\}, \1, \{)")
"""Two products have the same second operand."""
READ_AHEAD = Detector(
    "sass",
    r"LDSM\S* (R\d+)\b.*(?=(?:(?!\b\1\b)[\s\S])*?HMMA(?:(?!\b\1\b)[\s\S])*?HMMA\S* [^\n]*\b\1\b)",
    least=8,
    in_loop=True,
)
"""Another product comes between an ldmatrix and the first product that reads its fragment."""
PAIRS = Detector("ttgir", r"nvidia_mma<\{versionMajor = 2\b.*warpsPerCTA = \[(?:2, 4|4, 2)\]")
SHUFFLES = Detector("sass", r"SHFL\.BFLY", in_loop=True)


CLAIMS = (
    *(
        claim(
            dialect,
            "direct_rescale",
            "direct",
            "The source computes the new row maximum before the exponentials.",
            Proof(
                f"direct_rescale in {language}",
                "The PTX has fewer multiplications than that of register_softmax.",
                Twin("direct_rescale", dialect),
                REGISTER_SOFTMAX,
                MULTIPLICATIONS,
                seen=False,
                obtained=True,
            ),
            word="new_max",
        )
        for dialect, language in (("triton", "core Triton"), ("gluon", "Gluon"))
    ),
    *(
        claim(
            dialect,
            "large_tile",
            "direct",
            "The number of keys per iteration is a compile-time constant.",
            Proof(
                f"large_tile in {language}",
                "The machine code has more tensor-core instructions: an iteration covers more keys.",
                *twins(dialect, "large_tile", "xor_swizzle"),
                MANY_PRODUCTS,
            ),
            word="import twin",  # another kernel's program: the registry sets its tile
        )
        for dialect, language in (("triton", "core Triton"), ("gluon", "Gluon"))
    ),
    in_triton(
        "split_warp_pairs",
        "hint",
        "The source cannot arrange the warps of a tile. If one product feeds the next, the compiler puts "
        "all warps along the rows. A transposition between the two hides this, and the compiler then "
        "chooses a grid of warps.",
        Proof(
            "grid of warps behind a transposition",
            "Of eight warps, two lie along the keys and four along the queries of the transposed product.",
            Twin("split_warp_pairs", "triton"),
            Twin("direct_rescale", "triton", tile="64x64-s1-w8"),
            PAIRS,
        ),
        word=r"tl\.trans\(tl\.dot",
    ),
    in_gluon(
        "split_warp_pairs",
        "direct",
        "The layout of a product says how many warps lie along the rows and how many along the columns. "
        "The compiler moves reductions and P between the warps.",
        Proof(
            "grid of warps in Gluon",
            "Of eight warps, four lie along the rows and two along the columns.",
            *forms("fragments_gluon", "pairs", "one tile"),
            PAIRS,
        ),
        word=r"\[4, 2\]",
    ),
    in_triton(
        "batched_m_tiles",
        "hint",
        "The number of rows per warp follows from the rows of the tile and the number of warps.",
        Proof(
            "two tiles a warp",
            "With 128 rows and four warps, two mma.sync instructions share each fragment of K and V.",
            *forms("fragments", "two tiles", "one tile"),
            USED_TWICE,
        ),
        word="num_warps",
    ),
    in_gluon(
        "batched_m_tiles",
        "direct",
        "The layout says how many warps lie along the rows, and so how many rows each warp has.",
        Proof(
            "two tiles a warp in Gluon",
            "With 128 rows and four warps, two mma.sync instructions share each fragment of K and V.",
            *forms("fragments_gluon", "two tiles", "one tile"),
            USED_TWICE,
        ),
        word=r"\[4, 1\]",
    ),
    in_triton(
        "fragment_double_buffer",
        "automatic",
        "The machine code reads fragments ahead of the mma.sync that use them. The source does not ask for it.",
        Proof(
            "fragments read ahead",
            "Other mma.sync instructions come between an ldmatrix and the first one that reads its fragment.",
            *forms("fragments", "one tile", "one step"),
            READ_AHEAD,
        ),
    ),
    in_gluon(
        "fragment_double_buffer",
        "direct",
        "A slice of a tile is read where its call is. The PTX keeps this order, but ptxas may reorder the "
        "instructions.",
        Proof(
            "fragments read ahead in Gluon",
            "In the PTX, the next fragments of K are read before the first mma.sync.",
            *forms("fragments_gluon", "ahead", "one tile"),
            Detector("ptx", "(?:ldmatrix ){9}mma", order=r"ldmatrix(?=\.sync\S*\.x4\.shared)|mma(?=\.sync)"),
        ),
        word=r"\.slice\(",
    ),
    in_triton(
        "general_shapes",
        "direct",
        "A load takes a mask and a value for rows that do not exist. The compiler keeps both when it "
        "turns the load into cp.async.",
        Proof(
            "rows that do not exist",
            "The copies take a mask and fill missing rows.",
            *forms("ragged", "masked", "whole"),
            Detector("ttgir", r"async_copy_global_to_local .* mask %\w+ other %\w+"),
        ),
        word=r"tl\.load\(k_ptrs, exists, 0\.0\)",
    ),
    in_gluon(
        "general_shapes",
        "direct",
        "A copy takes a mask and fills missing rows with zeros.",
        Proof(
            "rows that do not exist in Gluon",
            "The copies take a mask and fill missing rows.",
            *forms("ragged_gluon", "masked", "whole"),
            Detector("ptx", r"cp\.async\S* \[[^\]]+\], \[[^\]]+\], 0x10, %r\d+"),
        ),
        word="mask=",
    ),
    in_triton(
        "lean_instructions",
        "direct",
        "The source can fix strides, use a loop without masks and keep a row sum in pieces. The compiler "
        "chooses the instructions.",
        Proof(
            "row sums in pieces",
            "The main loop has fewer shuffles, because those of the row sums come after it.",
            *twins("triton", "lean_instructions", "general_shapes", tile="64x64-s1-w4"),
            replace(SHUFFLES, least=16),
            seen=False,
            obtained=True,
        ),
        word=r"PIECES\)\), 1\)",
    ),
    in_gluon(
        "lean_instructions",
        "direct",
        "A reshape keeps the row sum in as many pieces as a fragment has columns.",
        Proof(
            "row sums in pieces in Gluon",
            "The main loop has no shuffle.",
            *forms("ragged_gluon", "pieces", "whole"),
            SHUFFLES,
            seen=False,
            obtained=True,
        ),
        word=r"\.reshape\(\[64, 8, 8\]\), 1\)",
    ),
    in_gluon(
        "tma_swizzle",
        "direct",
        "The layout of a descriptor sets the width of the swizzle: 128, 64 or 32 bytes.",
        *tuple(
            Proof(
                f"swizzle_tma_gluon {width}",
                f"The box has a swizzle of {width} bytes.",
                *forms("swizzle_tma_gluon", width, other),
                Detector("ttgir", rf"swizzlingByteWidth = {width}\b"),
            )
            for width, other in (("128", "64"), ("64", "32"), ("32", "128"))
        ),
        word=r"NVMMASharedLayout",
    ),
    in_gluon(
        "asymmetric_kv_buffers",
        "direct",
        "The allocation of a tensor sets its number of buffers.",
        Proof(
            "buffers_gluon one of V",
            "V has one buffer, beside the two of K.",
            *forms("buffers_gluon", "one of V", "two of V"),
            Detector("ttgir", r"memdesc<1x64x64"),
        ),
        word="OF_V",
    ),
    in_gluon(
        "softmax_lock",
        "direct",
        "Gluon has no named barrier. A ring of mbarriers, one for each warpgroup, makes a lock or gives "
        "turns. Values that pass through shared memory keep the softmax between its wait and its arrival.",
        Proof(
            "softmax_lock in Gluon",
            "In the PTX, the exponentials follow a wait, with no mma.sync between.",
            *twins("gluon", "softmax_lock", "setmaxnreg_consumers"),
            Detector("ptx", "try_wait ex2", order=r"try_wait(?=\.parity)|\bmma(?=\.sync)|\bex2(?=\.approx)"),
        ),
        Proof(
            "lock by mbarriers in Gluon",
            "In the PTX, the exponentials follow a wait, with no wgmma or shuffle between.",
            *twins("gluon", "exp_lock", "producer_consumer", tile=SQUARE),
            Detector(
                "ptx",
                "try_wait ex2",
                order=r"try_wait(?=\.parity)|commit_group(?=\.sync)|shfl(?=\.sync)|\bex2(?=\.approx)",
            ),
        ),
        Proof(
            "turns by mbarriers in Gluon",
            "After it issues two products, a warpgroup arrives at an mbarrier before it waits for the first product.",
            *twins("gluon", "pingpong", "overlapped_softmax", tile=SQUARE),
            Detector(
                "ptx",
                r"commit_group arrive wait_group\.sync\.aligned\s+1",
                order=r"commit_group(?=\.sync)|arrive(?=\.shared)|wait_group\S+\s+\d",
            ),
        ),
        word="wait_turn",
    ),
    in_gluon(
        "double_buffered_p",
        "direct",
        "The wait for P V also takes the next P, so the next P is converted before that wait.",
        Proof(
            "operand_in_flight_gluon",
            "In the PTX, P is converted between the wait for Q K^T and the wait for P V.",
            *forms("operand_in_flight_gluon", "second set", "one set"),
            Detector(
                "ptx",
                r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
                order=r"wgmma\.wait_group\S+\s+\d|\bcvt(?=\.rn\.bf16)",
            ),
        ),
        word=r"deps=\[o, p\]",
    ),
    in_gluon(
        "flagship",
        "direct",
        "The source writes roles, registers, barriers, both products in flight, the order of tiles and "
        "the store of O. It has no branch for a single warp, and ptxas decides whether one instruction "
        "compares three integers.",
        Proof(
            "flagship in Gluon, in flight",
            "In the PTX, the exponentials come between the wait for Q K^T and the wait for P V.",
            *twins("gluon", "flagship", "producer_consumer", tile=SQUARE),
            IN_FLIGHT,
        ),
        Proof(
            "flagship in Gluon, stores",
            "O leaves by TMA (UTMASTG).",
            *twins("gluon", "flagship", "persistent", tile=SQUARE),
            Detector("sass", r"UTMASTG\S*"),
        ),
        Proof(
            "flagship in Gluon, tiles",
            "The next tile comes from an atomic counter.",
            *twins("gluon", "flagship", "pinned_maxima", tile=SQUARE),
            Detector("ptx", r"\batom\.\S*add\S*"),
        ),
        word=r"warp_specialize",
    ),
)
