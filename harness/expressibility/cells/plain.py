"""What every language here says in its own words: arithmetic, order of blocks, widths of accesses, conditions."""

from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

PRODUCTS = Detector("sass", r"\bH?G?MMA\S*|\bHMMA\S*")
SIXTEEN_BYTES = Detector("sass", r"\bLDG\.E\.128")
LDMATRIX = Detector("sass", r"\bLDSM\S*")
LDMATRIX_X4 = Detector("ptx", r"ldmatrix\S*\.x4\S*")
BRANCH = Detector("ptx", r"@%p\d+ bra\b")
ORDER = Detector("ptx", r"%nctaid\.x")
MULTIPLICATIONS = Detector("sass", r"\bFMUL\b")
BY_HAND = {
    "conditional_rescale": "O is rescaled under an `if`; one condition for the whole block, not for a warp.",
    "lazy_rescale": "The bound is a number in an `if`; one condition for the whole block, not for a warp.",
    "lazy_consumers": "The same `if` in a kernel with roles; one condition for the whole block.",
    "lazy_scores_in_flight": "The same `if` beside scores in flight; one condition for the whole block.",
}
ORDERED = {
    "l2_grid_order": "Which block takes which tile is arithmetic on its index.",
    "longest_first": "The heaviest tile first: arithmetic on the block's index.",
}


def _words(dialect: str) -> tuple[Claim, ...]:
    """The claims that core Triton and Gluon have in common, each by its own probe."""
    probe, language = ("words", "tl") if dialect == "triton" else ("words_gluon", "gl")
    of = "" if dialect == "triton" else " in Gluon"
    scalar = "shapes" if dialect == "triton" else "scalar"
    return (
        Claim(
            "scalar",
            dialect,
            "direct",
            "A sum of products over a third dimension: no product of tensor cores.",
            (
                Proof(
                    f"scalar{of}",
                    "fp32 FMA alone",
                    Probe(probe, scalar),
                    Probe("mma_choice", "native"),
                    PRODUCTS,
                    seen=False,
                    obtained=True,
                ),
            ),
            word=rf"{language}\.sum",
        ),
        Claim(
            "exp2_softmax",
            dialect,
            "direct",
            "exp2 of a product less a number: one FFMA and one MUFU.EX2; exp multiplies once more.",
            (
                Proof(
                    f"exp2{of}",
                    "no multiplication beside the FFMA",
                    Probe(probe, "exp2"),
                    Probe(probe, "exp"),
                    MULTIPLICATIONS,
                    seen=False,
                    obtained=True,
                ),
            ),
            word=rf"{language}\.exp2",
        ),
        *(
            Claim(
                technique,
                dialect,
                "direct",
                says,
                (
                    Proof(
                        f"condition of a block{of}",
                        "a branch on one scalar",
                        Probe(probe, "condition"),
                        Probe(probe, "plain"),
                        BRANCH,
                    ),
                ),
                word=rf"if {language}\.max",
            )
            for technique, says in BY_HAND.items()
        ),
        *(
            Claim(
                technique,
                dialect,
                "direct",
                says,
                (
                    Proof(
                        f"order of blocks{of}",
                        "the tile is counted from the number of blocks",
                        Probe(probe, "order"),
                        Probe(probe, "plain"),
                        ORDER,
                    ),
                ),
                word=rf"{language}\.program_id",
            )
            for technique, says in ORDERED.items()
        ),
    )


CLAIMS = (
    *_words("triton"),
    *_words("gluon"),
    Claim(
        "vectorized_loads",
        "triton",
        "automatic",
        "Loads are as wide as alignment and order allow; nothing in the source says how wide.",
        (
            Proof(
                "loads of 16 bytes",
                "16 bytes a lane where the pointers are known to be aligned",
                Probe("words", "plain"),
                Probe("words", "unaligned"),
                SIXTEEN_BYTES,
            ),
        ),
    ),
    Claim(
        "vectorized_loads",
        "gluon",
        "direct",
        "The layout of the loaded tensor says how many elements a lane has side by side.",
        (
            Proof(
                "loads of 16 bytes in Gluon",
                "four floats a lane: 16 bytes",
                Probe("words_gluon", "plain"),
                Probe("words_gluon", "narrow"),
                SIXTEEN_BYTES,
            ),
        ),
        word=r"BlockedLayout\(\[EACH\]",
    ),
    Claim(
        "wmma",
        "triton",
        "hatch",
        "tl.dot never becomes wmma. Inline PTX assembles, without a word on which element is where.",
        (
            Proof(
                "wmma by inline PTX",
                "wmma.mma is in the PTX",
                Probe("mma_asm", "wmma"),
                Probe("mma_asm", "plain"),
                Detector("ptx", r"wmma\.mma\S*"),
            ),
            *(
                Proof(
                    f"wmma {form}",
                    "tl.dot becomes another instruction",
                    Probe("mma_choice", form),
                    Probe("mma_asm", "wmma"),
                    Detector("ptx", r"\bwmma\.mma\S*"),
                    seen=False,
                )
                for form in ("native", "mma_sync")
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "wmma",
        "gluon",
        "hatch",
        "No layout is wmma's. Inline PTX assembles, without a word on which element is where.",
        (
            Proof(
                "wmma by inline PTX in Gluon",
                "wmma.mma is in the PTX",
                Probe("wmma_gluon", "asm"),
                Probe("wmma_gluon", "plain"),
                Detector("ptx", r"wmma\.mma\S*"),
            ),
            Proof(
                "wmma mma_v2",
                "mma_v2 is mma.sync",
                Probe("wmma_gluon", "mma_v2"),
                Probe("wmma_gluon", "asm"),
                Detector("ptx", r"\bwmma\.mma\S*"),
                seen=False,
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "mma_ldmatrix",
        "triton",
        "automatic",
        "Operands of mma.sync are read by ldmatrix, whatever the source says.",
        tuple(
            Proof(
                f"ldmatrix {form}",
                "ldmatrix reads the operands",
                Probe("cp_async_order", form),
                Probe("words", "plain"),
                LDMATRIX,
            )
            for form in ("plain", "rotated", "branched")
        ),
    ),
    Claim(
        "mma_ldmatrix",
        "gluon",
        "hint",
        "The layouts of the tile and of the operand are asked for; whether ldmatrix reads it follows from them.",
        (
            Proof(
                "ldmatrix in Gluon",
                "a swizzled tile is read by ldmatrix",
                Probe("swizzle_gluon", "swizzled"),
                Probe("words_gluon", "plain"),
                LDMATRIX,
            ),
            Proof(
                "no ldmatrix in Gluon",
                "a padded tile is read 2 bytes at a time",
                Probe("swizzle_gluon", "padded"),
                Probe("swizzle_gluon", "swizzled"),
                Detector("sass", r"LDS\.U16"),
                obtained=False,
            ),
        ),
        word="DotOperandLayout",
    ),
    Claim(
        "ldmatrix_x4",
        "triton",
        "automatic",
        "ldmatrix of four matrices, unasked.",
        (
            Proof(
                "ldmatrix x4",
                "four matrices at a time",
                Probe("cp_async_order", "plain"),
                Probe("words", "plain"),
                LDMATRIX_X4,
            ),
        ),
    ),
    Claim(
        "ldmatrix_x4",
        "gluon",
        "automatic",
        "Where ldmatrix reads, it reads four matrices.",
        (
            Proof(
                "ldmatrix x4 in Gluon",
                "four matrices at a time",
                Probe("swizzle_gluon", "swizzled"),
                Probe("words_gluon", "plain"),
                LDMATRIX_X4,
            ),
        ),
    ),
    Claim(
        "register_softmax",
        "triton",
        "automatic",
        "P goes from the accumulator of one product to the operand of the next in registers, unasked.",
        tuple(
            Proof(
                f"P in registers {form}",
                "nothing of the loop is stored to shared memory",
                Probe("cp_async_order", form),
                Probe("buffers_per_tensor", "opaque"),
                Detector("ttgir", r"ttg\.local_(?:alloc|store)", within=(r"scf\.for", r"^    [}]")),
                seen=False,
                obtained=True,
            )
            for form in ("plain", "rotated")
        ),
    ),
    Claim(
        "tma_loads",
        "triton",
        "direct",
        "The load of a descriptor is a TMA load.",
        (
            Proof(
                "TMA load",
                "TMA loads in place of loads by each lane",
                Probe("warp_specialize", "90 off"),
                Probe("overlap_plain", "plain"),
                Detector("sass", r"UTMALDG\S*"),
            ),
        ),
        word=r"tl\.make_tensor_descriptor",
    ),
    Claim(
        "tma_loads",
        "gluon",
        "direct",
        "A TMA load takes its descriptor, its place in shared memory and its mbarrier.",
        (
            Proof(
                "TMA load in Gluon",
                "TMA loads",
                Probe("roles_gluon", "no roles"),
                Probe("warps_gluon", "one"),
                Detector("sass", r"UTMALDG\S*"),
            ),
        ),
        word=r"load_async\(",
    ),
    Claim(
        "softmax_lock",
        "triton",
        "hatch",
        "A lock between halves of a block needs a barrier of some warps: inline PTX has one. The half that is done "
        "cannot multiply meanwhile: before P V the compiler has a barrier of the whole block.",
        (
            Proof(
                "locked exponentials",
                "all exponentials of a step stand between the waits at barriers 9 and 10 and the arrival",
                Twin("softmax_lock", "hatch"),
                Twin("softmax_lock", "triton"),
                Detector(
                    "sass", "0x9 0xa (?:EX2 ){60,}ARV 0x0", in_loop=True, order=r"EX2|(?<=BLOCKING )0x\w+|(?<=BAR\.)ARV"
                ),
            ),
            Proof(
                "a barrier behind the lock",
                "in the PTX a barrier of the whole block stands between the exponentials and the next product",
                Twin("softmax_lock", "hatch"),
                Twin("softmax_lock", "cuda"),
                Detector("ptx", r"ex2 (?:bar\.sync\s+0 )+mma", order=r"\bex2(?=\.)|bar\.sync\s+0|\bmma(?=\.sync)"),
                obtained=False,
            ),
            Proof(
                "lock by inline PTX",
                "one half awaits barrier 9, the other reaches it, between two products of the loop",
                Probe("named_barrier", "asm"),
                Probe("named_barrier", "plain"),
                Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x9, 0x100", in_loop=True),
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "register_softmax",
        "gluon",
        "direct",
        "The layout of P is that of an operand in registers, and convert_layout goes there.",
        (
            Proof(
                "P in registers in Gluon",
                "the product with V takes its first operand from registers",
                Probe("roles_gluon", "64"),
                Probe("warps_gluon", "one"),
                Detector("ptx", r"wgmma\.mma_async\S* \{[^}\n]*\}, ?\{"),
            ),
        ),
        word="DotOperandLayout",
    ),
    Claim(
        "staged_epilogue",
        "gluon",
        "direct",
        "convert_layout to rows before the store: through shared memory, 16 bytes a lane.",
        (
            Proof(
                "epilogue in Gluon staged",
                "the tile passes through shared memory",
                Probe("swizzle_gluon", "swizzled cp_async"),
                Probe("words_gluon", "plain"),
                Detector("sass", r"\bSTS\S*"),
            ),
        ),
        word="convert_layout",
    ),
)
