"""What a kernel of a ladder says beside its parent, in core Triton and Gluon: the proof is the pair of them."""

from dataclasses import replace

from harness.expressibility.cells.cuda import IN_FLIGHT
from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

SQUARE = "128x128-s2-w8"
MULTIPLICATIONS = Detector("ptx", r"\bmul\.\S*f32", 150)
MANY_PRODUCTS = Detector("sass", r"\bHMMA", 100)
REGISTER_SOFTMAX = Twin("register_softmax", "triton")
USED_TWICE = Detector("ptx", r"(?<=\}, )(\{ %r\d+, %r\d+ \})(?=, \{[\s\S]*\}, \1, \{)")
"""A product whose second operand is that of another one too."""
READ_AHEAD = Detector(
    "sass",
    r"LDSM\S* (R\d+)\b.*(?=(?:(?!\b\1\b)[\s\S])*?HMMA(?:(?!\b\1\b)[\s\S])*?HMMA\S* [^\n]*\b\1\b)",
    least=8,
    in_loop=True,
)
"""Between an ldmatrix and the first product that reads it stands another product."""
PAIRS = Detector("ttgir", r"nvidia_mma<\{versionMajor = 2\b.*warpsPerCTA = \[(?:2, 4|4, 2)\]")
SHUFFLES = Detector("sass", r"SHFL\.BFLY", in_loop=True)


def _fragments(form: str) -> Probe:
    return Probe("fragments", form)


def _fragments_in_gluon(form: str) -> Probe:
    return Probe("fragments_gluon", form)


def _ragged_in_gluon(form: str) -> Probe:
    return Probe("ragged_gluon", form)


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
        "split_warp_pairs",
        "triton",
        "hint",
        "No word for how warps lie. All of them lie along the rows where one product feeds the next; behind a "
        "transposition the compiler does not see that, and takes a grid.",
        (
            Proof(
                "grid of warps behind a transposition",
                "of eight warps two lie along the keys, four along the queries of the transposed product",
                Twin("split_warp_pairs", "triton"),
                Twin("direct_rescale", "triton", tile="64x64-s1-w8"),
                PAIRS,
            ),
        ),
        word=r"tl\.trans\(tl\.dot",
    ),
    Claim(
        "split_warp_pairs",
        "gluon",
        "direct",
        "The layout of a product says how many warps lie along the rows and how many along the columns; reductions and "
        "P cross over through shared memory by themselves.",
        (
            Proof(
                "grid of warps in Gluon",
                "of eight warps four lie along the rows and two along the columns",
                _fragments_in_gluon("pairs"),
                _fragments_in_gluon("one tile"),
                PAIRS,
            ),
        ),
        word=r"\[4, 2\]",
    ),
    Claim(
        "batched_m_tiles",
        "triton",
        "hint",
        "The rows of a warp follow from those of the block and its number of warps.",
        (
            Proof(
                "two tiles a warp",
                "128 rows by four warps: two products share each fragment of K and V",
                _fragments("two tiles"),
                _fragments("one tile"),
                USED_TWICE,
            ),
        ),
        word="num_warps",
    ),
    Claim(
        "batched_m_tiles",
        "gluon",
        "direct",
        "The layout says how many warps lie along the rows, and so how many rows each has.",
        (
            Proof(
                "two tiles a warp in Gluon",
                "128 rows by four warps: two products share each fragment of K and V",
                _fragments_in_gluon("two tiles"),
                _fragments_in_gluon("one tile"),
                USED_TWICE,
            ),
        ),
        word=r"\[4, 1\]",
    ),
    Claim(
        "fragment_double_buffer",
        "triton",
        "automatic",
        "In the PTX all fragments of a tile are read before its first product; the assembler spreads them among the "
        "products, ahead of those that read them. No word for either.",
        (
            Proof(
                "fragments read ahead",
                "between an ldmatrix and its product stand other products",
                _fragments("one tile"),
                _fragments("one step"),
                READ_AHEAD,
            ),
        ),
    ),
    Claim(
        "fragment_double_buffer",
        "gluon",
        "direct",
        "A part of a tile is read where its call stands. That is what the PTX says; the assembler orders anew.",
        (
            Proof(
                "fragments read ahead in Gluon",
                "in the PTX the next fragments of K are read before the first product",
                _fragments_in_gluon("ahead"),
                _fragments_in_gluon("one tile"),
                Detector("ptx", "(?:ldmatrix ){9}mma", order=r"ldmatrix(?=\.sync\S*\.x4\.shared)|mma(?=\.sync)"),
            ),
        ),
        word=r"\.slice\(",
    ),
    Claim(
        "general_shapes",
        "triton",
        "direct",
        "A load takes a mask and what stands for the rows that do not exist; a copy past the registers keeps both.",
        (
            Proof(
                "rows that do not exist",
                "copies that fill what does not exist with zeros",
                Probe("ragged", "masked"),
                Probe("ragged", "whole"),
                Detector("ttgir", r"async_copy_global_to_local .* mask %\w+ other %\w+"),
            ),
        ),
        word=r"tl\.load\(k_ptrs, exists, 0\.0\)",
    ),
    Claim(
        "general_shapes",
        "gluon",
        "direct",
        "A copy takes a mask, and fills with zeros.",
        (
            Proof(
                "rows that do not exist in Gluon",
                "copies that fill what does not exist with zeros",
                _ragged_in_gluon("masked"),
                _ragged_in_gluon("whole"),
                Detector("ptx", r"cp\.async\S* \[[^\]]+\], \[[^\]]+\], 0x10, %r\d+"),
            ),
        ),
        word="mask=",
    ),
    Claim(
        "lean_instructions",
        "triton",
        "direct",
        "Constant strides, a loop without masks and a row sum in pieces are said; which instructions that takes is the "
        "compiler's.",
        (
            Proof(
                "row sums in pieces",
                "half of the shuffles: those of the sums come after the loop",
                Twin("lean_instructions", "triton", tile="64x64-s1-w4"),
                Twin("general_shapes", "triton", tile="64x64-s1-w4"),
                replace(SHUFFLES, least=16),
                seen=False,
                obtained=True,
            ),
        ),
        word=r"PIECES\)\), 1\)",
    ),
    Claim(
        "lean_instructions",
        "gluon",
        "direct",
        "A row sum stays in pieces by a reshape, as many as a fragment has columns.",
        (
            Proof(
                "row sums in pieces in Gluon",
                "no shuffle in the loop",
                _ragged_in_gluon("pieces"),
                _ragged_in_gluon("whole"),
                SHUFFLES,
                seen=False,
                obtained=True,
            ),
        ),
        word=r"\.reshape\(\[64, 8, 8\]\), 1\)",
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
