"""What every language here can write directly: arithmetic, order of blocks, widths of accesses, conditions."""

from harness.expressibility.claims import Claim, Detector, Probe, Proof, claim, forms, in_gluon, in_triton
from harness.operators.attention.claims.hopper import WAITS_FOR_AN_IF
from harness.operators.attention.claims.twin import Twin

PRODUCTS = Detector("sass", r"\bHG?MMA\S*")
SIXTEEN_BYTES = Detector("sass", r"\bLDG\.E\.128")
LDMATRIX = Detector("sass", r"\bLDSM\S*")
LDMATRIX_X4 = Detector("ptx", r"ldmatrix\S*\.x4\S*")
BRANCH = Detector("ptx", r"@%p\d+ bra\b")
BRANCH_OF_A_THREAD = Detector("sass", r"\bFMUL\b", 16, within=(r"\bBSSY\b", r"\bBSYNC\b"))
"""Multiplications that some threads of a warp may skip."""
ELEMENTWISE = Proof(
    "elementwise_condition",
    "With a single multiplication in tl.map_elementwise, its if becomes a choice between two results, not a branch.",
    Probe("elementwise_condition", "elementwise"),
    Probe("words", "condition"),
    BRANCH,
    seen=False,
)
IEEE = Proof(
    "scalar ieee",
    'Neither has it for tl.dot of fp32 with input_precision="ieee".',
    *forms("mma_choice", "ieee", "native"),
    PRODUCTS,
    seen=False,
)
SELECTED = Proof(
    "elementwise_condition selection",
    "The PTX selects between the two results (selp).",
    *forms("elementwise_condition", "elementwise", "plain"),
    Detector("ptx", r"\bselp\S*"),
    obtained=False,
)
PACKED = tuple(
    Proof(
        f"elementwise_branch sm_{arch}",
        f"On sm_{arch}, with 16 packed elements and their exponentials in its body, the if is a branch of each thread: "
        "the multiplications of O are between BSSY and BSYNC.",
        *forms("elementwise_branch", f"packed {arch}", f"plain {arch}"),
        BRANCH_OF_A_THREAD,
        obtained=False,
    )
    for arch in (80, 90)
)
IN_GLUON = (
    Proof(
        "elementwise_gluon packed",
        "With 16 packed elements and their exponentials in its body, the if is a branch of each thread: the "
        "multiplications are between BSSY and BSYNC.",
        *forms("elementwise_gluon", "packed", "plain"),
        BRANCH_OF_A_THREAD,
        obtained=False,
    ),
    Proof(
        "elementwise_gluon single",
        "With a single multiplication in gl.map_elementwise, its if becomes a choice between two results, and no "
        "branch.",
        *forms("elementwise_gluon", "single", "packed"),
        BRANCH,
        seen=False,
    ),
)
ORDER = Detector("ptx", r"%nctaid\.x")
MULTIPLICATIONS = Detector("sass", r"\bFMUL\b")
NEEDS_ONLY = "needs only the if statement of lazy_rescale"
BY_HAND = {
    "conditional_rescale": "An if statement guards the rescale of O",
    "lazy_rescale": "An if statement compares the rise of the row maxima with a bound",
    "lazy_consumers": f"A kernel with roles {NEEDS_ONLY}",
    "lazy_scores_in_flight": f"A kernel with scores in flight {NEEDS_ONLY}",
}
TO_CORE_TRITON = {
    "lazy_scores_in_flight": " With wgmma the compiler waits for the scores before such an if, so that they are not in "
    "flight during the softmax."
}
"""Technique -> what the compiler of core Triton does with that if."""
WHO_DECIDES = (
    "This if decides for {all}. An if in {language}.map_elementwise becomes a branch of each thread if its body costs "
    "enough (exp2 of 16 packed elements); a single multiplication becomes a choice."
)
ORDERED = {
    "l2_grid_order": "The kernel computes which tile it takes from the block index, so the source chooses the order.",
    "longest_first": "The kernel computes which tile it takes from the block index, so the heaviest tile can come "
    "first.",
}


def condition(probe: str = "words", of: str = "") -> Proof:
    """That an if statement of the language decides for all warps that run it."""
    return Proof(
        f"condition of a block{of}",
        "The PTX has a branch on one scalar.",
        *forms(probe, "condition", "plain"),
        BRANCH,
    )


def _words(dialect: str) -> tuple[Claim, ...]:
    """The claims that core Triton and Gluon have in common, each by its own probe."""
    probe, language = ("words", "tl") if dialect == "triton" else ("words_gluon", "gl")
    every = "the whole thread block" if dialect == "triton" else "all warps that run the same function"
    who = WHO_DECIDES.format(all=every, language=language)
    of = "" if dialect == "triton" else " in Gluon"
    scalar = "shapes" if dialect == "triton" else "scalar"
    further = TO_CORE_TRITON if dialect == "triton" else {}
    return (
        claim(
            dialect,
            "scalar",
            "direct",
            "The source sums elementwise products over a third dimension, so the compiler uses no tensor cores.",
            Proof(
                f"scalar{of}",
                "The machine code has no tensor-core instruction.",
                Probe(probe, scalar),
                Probe("mma_choice", "native"),
                PRODUCTS,
                seen=False,
                obtained=True,
            ),
            *((IEEE,) if dialect == "triton" else ()),
            word=rf"{language}\.sum",
        ),
        claim(
            dialect,
            "exp2_softmax",
            "direct",
            "exp2 is MUFU.EX2; exp needs one more multiplication. With the option enable_fp_fusion, which every launch "
            f"here sets, x * scale - shift before it is one FFMA. Without it, {language}.fma is one.",
            Proof(
                f"exp2{of}",
                "The machine code with exp2 has no separate multiplication (FMUL); with exp it has.",
                *forms(probe, "exp2", "exp"),
                MULTIPLICATIONS,
                seen=False,
                obtained=True,
            ),
            word=rf"{language}\.exp2",
        ),
        *(
            claim(
                dialect,
                technique,
                "direct",
                f"{says}. {who}{further.get(technique, '')}",
                condition(probe, of),
                *((*PACKED, ELEMENTWISE, SELECTED) if dialect == "triton" else IN_GLUON),
                *((WAITS_FOR_AN_IF,) if technique in further else ()),
                word=rf"if {language}\.max",
            )
            for technique, says in BY_HAND.items()
            if (technique, dialect) != ("lazy_consumers", "triton")  # see roles.py
        ),
        *(
            claim(
                dialect,
                technique,
                "direct",
                says,
                Proof(
                    f"order of blocks{of}",
                    "The kernel counts its tile back from the number of blocks (%nctaid.x).",
                    *forms(probe, "order", "plain"),
                    ORDER,
                ),
                word=rf"{language}\.program_id",
            )
            for technique, says in ORDERED.items()
        ),
    )


CLAIMS = (
    *_words("triton"),
    *_words("gluon"),
    in_triton(
        "vectorized_loads",
        "hint",
        "The compiler makes loads as wide as the known alignment and contiguity allow. tl.multiple_of and "
        "tl.max_contiguous state both: the first widens a load, the second narrows it.",
        Proof(
            "loads of 16 bytes",
            "Each lane loads 16 bytes at once if the pointers are known to be aligned.",
            *forms("words", "plain", "unaligned"),
            SIXTEEN_BYTES,
            obtained=False,
        ),
        Proof(
            "loads widened",
            "tl.multiple_of(pointers, 16) makes each lane load 16 bytes at once.",
            *forms("load_width", "multiple_of", "unaligned"),
            SIXTEEN_BYTES,
        ),
        Proof(
            "loads narrowed",
            "With tl.max_contiguous(index, 2), each lane loads only 8 bytes at once.",
            *forms("load_width", "max_contiguous", "aligned"),
            Detector("sass", r"\bLDG\.E\.64"),
        ),
        word=r"multiple_of|max_contiguous",
    ),
    in_gluon(
        "vectorized_loads",
        "direct",
        "The layout of the loaded tensor says how many adjacent elements each lane holds.",
        Proof(
            "loads of 16 bytes in Gluon",
            "With four floats per lane, each lane loads 16 bytes at once.",
            *forms("words_gluon", "plain", "narrow"),
            SIXTEEN_BYTES,
        ),
        word=r"BlockedLayout\(\[EACH\]",
    ),
    in_triton(
        "wmma",
        "hatch",
        "tl.dot compiles to mma.sync or wgmma, not to wmma. Inline PTX can issue wmma, but PTX does not "
        "define which lane holds which element.",
        Proof(
            "wmma by inline PTX",
            "The PTX has wmma.mma.",
            *forms("mma_asm", "wmma", "plain"),
            Detector("ptx", r"wmma\.mma\S*"),
        ),
        *(
            Proof(
                f"wmma {form}",
                shows,
                Probe("mma_choice", form),
                Probe("mma_asm", "wmma"),
                Detector("ptx", r"\bwmma\.mma\S*"),
                seen=False,
            )
            for form, shows in (
                ("native", "tl.dot does not compile to wmma."),
                ("mma_sync", "tl.dot does not compile to wmma with DISABLE_MMA_V3=1 either."),
            )
        ),
        word="inline_asm_elementwise",
    ),
    in_gluon(
        "wmma",
        "hatch",
        "Gluon has no layout for wmma. Inline PTX can issue wmma, but PTX does not define which lane "
        "holds which element.",
        Proof(
            "wmma by inline PTX in Gluon",
            "The PTX has wmma.mma.",
            *forms("wmma_gluon", "asm", "plain"),
            Detector("ptx", r"wmma\.mma\S*"),
        ),
        Proof(
            "wmma mma_v2",
            "mma_v2 compiles to mma.sync, not to wmma.",
            *forms("wmma_gluon", "mma_v2", "asm"),
            Detector("ptx", r"\bwmma\.mma\S*"),
            seen=False,
        ),
        word="inline_asm_elementwise",
    ),
    in_triton(
        "mma_ldmatrix",
        "automatic",
        "The compiler reads the operands of mma.sync with ldmatrix. The source does not ask for it.",
        *tuple(
            Proof(
                f"ldmatrix {form}",
                f"ldmatrix reads the operands of the {form} loop (LDSM).",
                Probe("cp_async_order", form),
                Probe("words", "plain"),
                LDMATRIX,
            )
            for form in ("plain", "rotated", "branched")
        ),
    ),
    in_gluon(
        "mma_ldmatrix",
        "hint",
        "The source sets the layouts of the tile and of the operand. From them the compiler decides "
        "whether ldmatrix reads the tile.",
        Proof(
            "ldmatrix in Gluon",
            "ldmatrix reads a swizzled tile (LDSM).",
            Probe("swizzle_gluon", "swizzled"),
            Probe("words_gluon", "plain"),
            LDMATRIX,
        ),
        Proof(
            "no ldmatrix in Gluon",
            "A padded tile is read 2 bytes at a time (LDS.U16).",
            *forms("swizzle_gluon", "padded", "swizzled"),
            Detector("sass", r"LDS\.U16"),
            obtained=False,
        ),
        word="DotOperandLayout",
    ),
    in_triton(
        "ldmatrix_x4",
        "automatic",
        "The compiler makes ldmatrix load four matrices at a time. The source does not ask for it.",
        Proof(
            "ldmatrix x4",
            "ldmatrix loads four matrices at a time (.x4).",
            Probe("cp_async_order", "plain"),
            Probe("words", "plain"),
            LDMATRIX_X4,
        ),
    ),
    in_gluon(
        "ldmatrix_x4",
        "automatic",
        "When the compiler uses ldmatrix, it loads four matrices at a time.",
        Proof(
            "ldmatrix x4 in Gluon",
            "ldmatrix loads four matrices at a time (.x4).",
            Probe("swizzle_gluon", "swizzled"),
            Probe("words_gluon", "plain"),
            LDMATRIX_X4,
        ),
    ),
    in_triton(
        "register_softmax",
        "automatic",
        "The compiler keeps P in registers: the result of Q K^T becomes the operand of P V. The source "
        "does not ask for it.",
        *tuple(
            Proof(
                f"P in registers {form}",
                f"The {form} loop stores nothing to shared memory.",
                Probe("cp_async_order", form),
                Probe("buffers_per_tensor", "opaque"),
                Detector("ttgir", r"ttg\.local_(?:alloc|store)", within=(r"scf\.for", r"^    [}]")),
                seen=False,
                obtained=True,
            )
            for form in ("plain", "rotated")
        ),
    ),
    in_triton(
        "tma_loads",
        "direct",
        "Loading from a tensor descriptor compiles to a TMA load.",
        Proof(
            "TMA load",
            "The machine code has TMA loads (UTMALDG).",
            Probe("warp_specialize", "90 off"),
            Probe("overlap_plain", "plain"),
            Detector("sass", r"UTMALDG\S*"),
        ),
        word=r"tl\.make_tensor_descriptor",
    ),
    in_gluon(
        "tma_loads",
        "direct",
        "The source issues each TMA load with its descriptor, its shared-memory buffer and its mbarrier.",
        Proof(
            "TMA load in Gluon",
            "The machine code has TMA loads (UTMALDG).",
            Probe("roles_gluon", "no roles"),
            Probe("warps_gluon", "one"),
            Detector("sass", r"UTMALDG\S*"),
        ),
        word=r"load_async\(",
    ),
    in_triton(
        "softmax_lock",
        "hatch",
        "A lock between two halves of a block needs a barrier for some of its warps. Core Triton has "
        "none; inline PTX does. The half that leaves the lock cannot start P V alone, because the "
        "compiler puts a barrier of the whole block before P V.",
        Proof(
            "locked exponentials",
            "All exponentials of an iteration come after the waits at barriers 9 and 10 and before the arrival.",
            Twin("softmax_lock", "hatch"),
            Twin("softmax_lock", "triton"),
            Detector(
                "sass", "0x9 0xa (?:EX2 ){60,}ARV 0x0", in_loop=True, order=r"EX2|(?<=BLOCKING )0x\w+|(?<=BAR\.)ARV"
            ),
        ),
        Proof(
            "a barrier behind the lock",
            "In the PTX, barriers of the whole block come between the exponentials and P V.",
            Twin("softmax_lock", "hatch"),
            Twin("softmax_lock", "cuda"),
            Detector("ptx", r"ex2 (?:bar\.sync\s+0 )+mma", order=r"\bex2(?=\.)|bar\.sync\s+0|\bmma(?=\.sync)"),
            obtained=False,
        ),
        Proof(
            "lock by inline PTX",
            "In the main loop, one half of the warps waits at barrier 9 and the other half only arrives there.",
            *forms("named_barrier", "asm", "plain"),
            Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x9, 0x100", in_loop=True),
        ),
        word="inline_asm_elementwise",
    ),
    in_gluon(
        "register_softmax",
        "direct",
        "convert_layout gives P the layout of an operand in registers.",
        Proof(
            "P in registers in Gluon",
            "P V reads its first operand from registers.",
            Probe("roles_gluon", "64"),
            Probe("warps_gluon", "one"),
            Detector("ptx", r"wgmma\.mma_async\S* \{[^}\n]*\}, ?\{"),
        ),
        word="DotOperandLayout",
    ),
    in_gluon(
        "staged_epilogue",
        "direct",
        "The source converts O to a layout of rows before the store. The conversion goes through shared memory.",
        Proof(
            "epilogue in Gluon staged",
            "The tile passes through shared memory (STS).",
            Probe("swizzle_gluon", "swizzled cp_async"),
            Probe("words_gluon", "plain"),
            Detector("sass", r"\bSTS\S*"),
        ),
        word="convert_layout",
    ),
)
