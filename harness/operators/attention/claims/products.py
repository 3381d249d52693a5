"""Tensor-core products: which instruction, which shape, and what stays in flight during the softmax."""

from harness.expressibility.claims import Detector, Probe, Proof, forms, in_gluon, in_triton
from harness.operators.attention.claims.twin import Twin, twins, under_pv

NATIVE = Proof(
    "mma_choice native",
    "With four warps, a 64 x 64 x 64 product compiles to wgmma.",
    *forms("mma_choice", "native", "mma_sync"),
    Detector("sass", r"\bHGMMA\S*"),
)
BY_MMA_SYNC = Proof(
    "mma_choice mma_sync",
    "With DISABLE_MMA_V3=1, the same source compiles to mma.sync.",
    *forms("mma_choice", "mma_sync", "native"),
    Detector("sass", r"\bHMMA\S*"),
)
GLUON_WGMMA = Proof(
    "wgmma_shape wgmma",
    "An accumulator with the layout of wgmma compiles to wgmma.",
    *forms("wgmma_shape", "128 of 128", "mma_sync"),
    Detector("ptx", r"m64n128k16"),
)
EXPONENTIALS_IN_FLIGHT = Detector(
    "sass",
    r"HGMMA(?: HGMMA| MUFU\.EX2)*(?: MUFU\.EX2){8}(?: HGMMA| MUFU\.EX2)* WARPGROUP\.DEPBAR",
    in_loop=True,
    order=r"\bHGMMA\b|MUFU\.EX2|WARPGROUP\.DEPBAR",
)
DEALT_OUT = Detector(
    "sass",
    r"HGMMA (?:(?:MUFU\.EX2 )+HGMMA ){4}",
    in_loop=True,
    order=EXPONENTIALS_IN_FLIGHT.order,
)
"""Exponentials stand between five wgmma instructions that nothing waits for in between."""

CLAIMS = (
    in_triton(
        "mma_choice",
        "hint",
        "No argument of tl.dot names the instruction. Architecture, shape and number of warps decide it: "
        "on sm_90 four warps give wgmma and two give mma.sync. The environment variable DISABLE_MMA_V3=1 "
        "gives mma.sync with four warps too.",
        NATIVE,
        Proof(
            "mma_choice two warps",
            "With two warps, the same product compiles to mma.sync.",
            *forms("mma_choice", "two warps", "native"),
            Detector("sass", r"\bHMMA\S*"),
        ),
        BY_MMA_SYNC,
        word="num_warps",
    ),
    in_triton(
        "wide_tile",
        "hint",
        "No tensor can have 176 keys. Three tensors of 128, 32 and 16 keys in one loop compute the same scores, by "
        "instructions that the compiler chooses.",
        Proof(
            "tile_176 composed",
            "Besides wgmma with N = 128 and N = 32, the PTX has wgmma with N = 16: 176 keys per iteration.",
            Probe("tile_176", "composed"),
            Probe("mma_choice", "native"),
            Detector("ptx", r"wgmma\S*\.m64n16k16"),
        ),
        Proof(
            "tile_176 arange",
            "tl.arange refuses a range of 176.",
            *forms("tile_176", "arange", "composed"),
            Detector("words", r"arange's range must be a power of 2"),
        ),
        Proof(
            "tile_176 zeros",
            "tl.zeros refuses 176 elements.",
            *forms("tile_176", "zeros", "composed"),
            Detector("words", r"CompilationError: at [^^]*tl\.zeros\(\(176,\)"),
        ),
        Proof(
            "tile_176 descriptor",
            "A tensor descriptor refuses a box of 176 rows.",
            *forms("tile_176", "descriptor", "composed"),
            Detector("words", r"Shape element 0 must be a power of 2"),
        ),
        word="range",
    ),
    in_gluon(
        "mma_choice",
        "direct",
        "The accumulator's layout names the instruction: mma.sync or wgmma, on the same architecture.",
        Proof(
            "wgmma_shape mma_sync",
            "An accumulator with the layout of mma.sync compiles to mma.sync on sm_90.",
            *forms("wgmma_shape", "mma_sync", "128 of 128"),
            Detector("ptx", r"m16n8k16"),
        ),
        GLUON_WGMMA,
        word=r"NVMMADistributedLayout\(\[2, 0\]",
    ),
    in_gluon(
        "wgmma_width",
        "direct",
        "The width of a wgmma is an argument: a power of two up to 256.",
        Proof(
            "wgmma_shape 64 of 128",
            "A tile of 128 columns is computed by instructions with N = 64.",
            *forms("wgmma_shape", "64 of 128", "128 of 128"),
            Detector("ptx", r"m64n64k16"),
        ),
        Proof(
            "wgmma_shape 256",
            "The instructions have N = 256.",
            *forms("wgmma_shape", "256 of 256", "128 of 128"),
            Detector("ptx", r"m64n256k16"),
        ),
        Proof(
            "wgmma_shape 96",
            "N = 96 fails an assertion of the compiler.",
            *forms("wgmma_shape", "96 of 128", "64 of 128"),
            Detector("words", r"Assertion .*isPowerOf2"),
        ),
        word=r"\[16, WIDTH, 16\]",
    ),
    in_gluon(
        "wide_tile",
        "direct",
        "No tensor can have 176 keys, and no wgmma that width. Three tensors of 128, 32 and 16 keys in "
        "one loop, each with a wgmma of its own width, compute the same scores.",
        Proof(
            "tile_176 in Gluon",
            "Besides wgmma with N = 128 and N = 32, the PTX has wgmma with N = 16: 176 keys per iteration.",
            Probe("tile_176_gluon", "composed"),
            Probe("wgmma_shape", "128 of 128"),
            Detector("ptx", r"wgmma\S*\.m64n16k16"),
        ),
        Proof(
            "wgmma_shape 176",
            "A tile of 176 columns is refused.",
            *forms("wgmma_shape", "176 of 176", "128 of 128"),
            Detector("words", r"shape must have power-of-2"),
        ),
        Proof(
            "wgmma_shape 96 of 128",
            "A wgmma with N = 96 fails an assertion of the compiler.",
            *forms("wgmma_shape", "96 of 128", "128 of 128"),
            Detector("words", r"Assertion .*isPowerOf2"),
        ),
        word=r"\[16, KEYS, 16\]",
    ),
    in_triton(
        "overlapped_softmax",
        "hint",
        "One order of statements begins the next Q K^T before the softmax, and ptxas deals its wgmma instructions out "
        "among the exponentials; another keeps the P V of the step before in flight. In two more usual loops the "
        "compiler waits for Q K^T before the softmax. And ptxas undoes the first order at some tiles, as 256 x 64, "
        "and in the kernel of overlapped_softmax at head_dim 64.",
        *(
            Proof(
                f"overlap_plain {form}",
                f"With {order}, the loop waits until no product is in flight (pendings = 0).",
                *forms("overlap_plain", form, "gemm"),
                Detector("ttgir", r"pendings = 0", within=(r"scf\.for", r"^    [}]")),
            )
            for form, order in (
                ("plain", "Q K^T before its softmax"),
                ("rotated", "the next Q K^T before the softmax"),
            )
        ),
        Proof(
            "overlap_in_flight d128",
            "At head_dim 128, a kernel with the first order, that of scores_in_flight at 64 x 64, has exponentials "
            "between wgmma instructions and the wait for them in its machine code.",
            *twins("triton_native", "scores_in_flight", "lean_mbarrier_ring", tile="64x64-s2-w4", head_dim=128),
            EXPONENTIALS_IN_FLIGHT,
        ),
        Proof(
            "overlap_of_the_twin d128",
            "At head_dim 128, so has the kernel of overlapped_softmax at 128 x 128 with 8 warps.",
            Twin("overlapped_softmax", "triton", "128x128-s2-w8", head_dim=128),
            Twin("lean_mbarrier_ring", "triton_native", "64x64-s2-w4", head_dim=128),
            EXPONENTIALS_IN_FLIGHT,
        ),
        Proof(
            "overlap_of_the_twin dealt out",
            "There, exponentials come between the wgmma instructions of the next Q K^T too.",
            Twin("overlapped_softmax", "triton", "128x128-s2-w8", head_dim=128),
            Twin("lean_mbarrier_ring", "triton_native", "64x64-s2-w4", head_dim=128),
            DEALT_OUT,
        ),
        Proof(
            "overlap_of_the_twin d64",
            "At head_dim 64, ptxas puts that kernel's wgmma instructions behind the exponentials.",
            Twin("overlapped_softmax", "triton", "128x128-s2-w8"),
            Twin("overlapped_softmax", "triton", "128x128-s2-w8", head_dim=128),
            EXPONENTIALS_IN_FLIGHT,
            seen=False,
        ),
        Proof(
            "overlap_in_flight 256 rows",
            "At 256 x 64 and head_dim 128, ptxas puts the wgmma instructions behind the exponentials.",
            Twin("scores_in_flight", "triton_native", "256x64-s2-w8", head_dim=128),
            Twin("scores_in_flight", "triton_native", "64x64-s2-w4", head_dim=128),
            EXPONENTIALS_IN_FLIGHT,
            seen=False,
        ),
        Proof(
            "next_p overlap",
            "With the P V of the step before in flight, the machine code has exponentials between wgmma "
            "instructions and the wait for them.",
            Probe("next_p", "bits"),
            Twin("lean_mbarrier_ring", "triton_native", "64x64-s1-w4"),
            EXPONENTIALS_IN_FLIGHT,
        ),
        word=r"tl\.dot",
    ),
    in_triton(
        "wgmma",
        "hint",
        "On sm_90, tl.dot compiles to wgmma if its shape and the number of warps allow; 64 rows and four warps do.",
        NATIVE,
        BY_MMA_SYNC,
        word=r"tl\.dot",
    ),
    in_gluon(
        "wgmma",
        "direct",
        "warpgroup_mma compiles to wgmma.",
        GLUON_WGMMA,
        word="warpgroup_mma",
    ),
    in_gluon(
        "overlapped_softmax",
        "hint",
        "A wait takes the number of products that may stay in flight, and the PTX keeps the order of the source. ptxas "
        "decides: at head_dim 64 every exponential of overlapped_softmax comes behind the second wait, in the flagship "
        "some come before it.",
        *under_pv("gluon", "Gluon"),
        Proof(
            "overlap_gluon",
            "In the PTX, the exponentials come between the wait for Q K^T and the wait for P V.",
            *forms("roles_gluon", "128", "waits at once"),
            Detector(
                "ptx",
                r"WAIT1 (?:ex2 )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
                order=r"wgmma\.wait_group\S+\s+\d|\bex2(?=\.approx)",
            ),
        ),
        word=r"warpgroup_mma_wait\(1",
    ),
    in_triton(
        "wgmma_width",
        "hint",
        "No argument sets the width: it follows from the tile.",
        Proof(
            "wgmma width of a tile",
            "A tile of 32 columns is computed by instructions with N = 32.",
            Probe("tile_176", "composed"),
            Probe("mma_choice", "native"),
            Detector("ptx", r"wgmma\S*\.m64n32k16"),
        ),
        word=r"tl\.arange\(0, 32\)",
    ),
)
