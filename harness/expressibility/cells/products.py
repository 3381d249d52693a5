"""Tensor-core products: which instruction, of which shape, and what is in flight over the softmax."""

from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

NATIVE = Proof(
    "mma_choice native",
    "64 x 64 x 64 by four warps becomes wgmma",
    Probe("mma_choice", "native"),
    Probe("mma_choice", "mma_sync"),
    Detector("sass", r"\bHGMMA\S*"),
)
BY_MMA_SYNC = Proof(
    "mma_choice mma_sync",
    "with DISABLE_MMA_V3=1 the same source becomes mma.sync",
    Probe("mma_choice", "mma_sync"),
    Probe("mma_choice", "native"),
    Detector("sass", r"\bHMMA\S*"),
)
GLUON_WGMMA = Proof(
    "wgmma_shape wgmma",
    "wgmma there too",
    Probe("wgmma_shape", "128 of 128"),
    Probe("wgmma_shape", "mma_sync"),
    Detector("ptx", r"m64n128k16"),
)

CLAIMS = (
    Claim(
        "mma_choice",
        "triton",
        "hint",
        "tl.dot takes no instruction: the architecture, the shape and the number of warps decide. On sm_90 two warps "
        "make it mma.sync; four do where the environment variable DISABLE_MMA_V3 is 1.",
        (
            NATIVE,
            Proof(
                "mma_choice two warps",
                "by two warps the same product becomes mma.sync",
                Probe("mma_choice", "two warps"),
                Probe("mma_choice", "native"),
                Detector("sass", r"\bHMMA\S*"),
            ),
            BY_MMA_SYNC,
        ),
        word="num_warps",
    ),
    Claim(
        "wide_tile",
        "triton",
        "hint",
        "No tensor of 176 keys; three of 128, 32 and 16 in one loop do the same products.",
        (
            Proof(
                "tile_176 composed",
                "wgmma of N = 16 beside those of 128 and 32: 176 keys a step",
                Probe("tile_176", "composed"),
                Probe("mma_choice", "native"),
                Detector("ptx", r"wgmma\S*\.m64n16k16"),
            ),
            Proof(
                "tile_176 arange",
                "a range of 176 is refused",
                Probe("tile_176", "arange"),
                Probe("tile_176", "composed"),
                Detector("words", r"arange's range must be a power of 2"),
            ),
            Proof(
                "tile_176 descriptor",
                "a box of 176 rows is refused",
                Probe("tile_176", "descriptor"),
                Probe("tile_176", "composed"),
                Detector("words", r"Shape element 0 must be a power of 2"),
            ),
        ),
        word="range",
    ),
    Claim(
        "mma_choice",
        "gluon",
        "direct",
        "The layout of the accumulator names the instruction: mma.sync and wgmma on the same architecture.",
        (
            Proof(
                "wgmma_shape mma_sync",
                "mma.sync on sm_90, without a variable",
                Probe("wgmma_shape", "mma_sync"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("ptx", r"m16n8k16"),
            ),
            GLUON_WGMMA,
        ),
        word=r"NVMMADistributedLayout\(\[2, 0\]",
    ),
    Claim(
        "wgmma_width",
        "gluon",
        "direct",
        "The width of a wgmma is an argument: powers of two up to 256.",
        (
            Proof(
                "wgmma_shape 64 of 128",
                "a tile of 128 columns in instructions of 64",
                Probe("wgmma_shape", "64 of 128"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("ptx", r"m64n64k16"),
            ),
            Proof(
                "wgmma_shape 256",
                "instructions of 256 columns",
                Probe("wgmma_shape", "256 of 256"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("ptx", r"m64n256k16"),
            ),
            Proof(
                "wgmma_shape 96",
                "96 ends the compiler in an assertion",
                Probe("wgmma_shape", "96 of 128"),
                Probe("wgmma_shape", "64 of 128"),
                Detector("words", r"Assertion .*isPowerOf2"),
            ),
        ),
        word=r"\[16, WIDTH, 16\]",
    ),
    Claim(
        "wide_tile",
        "gluon",
        "direct",
        "No tensor of 176 keys and no wgmma of that width; three of 128, 32 and 16 in one loop, each with a wgmma of "
        "its own width, do the same products.",
        (
            Proof(
                "tile_176 in Gluon",
                "wgmma of 16 columns beside those of 128 and 32: 176 keys a step",
                Probe("tile_176_gluon", "composed"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("ptx", r"wgmma\S*\.m64n16k16"),
            ),
            Proof(
                "wgmma_shape 176",
                "a tile of 176 columns is refused",
                Probe("wgmma_shape", "176 of 176"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("words", r"shape must have power-of-2"),
            ),
            Proof(
                "wgmma_shape 96 of 128",
                "a wgmma of 96 columns ends the compiler in an assertion",
                Probe("wgmma_shape", "96 of 128"),
                Probe("wgmma_shape", "128 of 128"),
                Detector("words", r"Assertion .*isPowerOf2"),
            ),
        ),
        word=r"\[16, KEYS, 16\]",
    ),
    Claim(
        "overlapped_softmax",
        "triton",
        "hint",
        "One order of the statements keeps the next Q K^T in flight over the whole softmax; in the loops that people "
        "write it is awaited before.",
        (
            *(
                Proof(
                    f"overlap_plain {form}",
                    "before the exponentials every product is awaited",
                    Probe("overlap_plain", form),
                    Probe("overlap_plain", "gemm"),
                    Detector("ttgir", r"pendings = 0", within=(r"scf\.for", r"^    [}]")),
                )
                for form in ("plain", "rotated")
            ),
            *(
                Proof(
                    f"overlap_in_flight d{head_dim}",
                    "in the machine code the exponentials stand before the wait for the products issued before them",
                    Twin("scores_in_flight", "triton_native", head_dim, tile),
                    Twin("lean_mbarrier_ring", "triton_native", head_dim, tile),
                    Detector(
                        "sass",
                        r"HGMMA(?: HGMMA| MUFU\.EX2)*(?: MUFU\.EX2){8}(?: HGMMA| MUFU\.EX2)* WARPGROUP\.DEPBAR",
                        in_loop=True,
                        order=r"\bHGMMA\b|MUFU\.EX2|WARPGROUP\.DEPBAR",
                    ),
                )
                for head_dim, tile in ((128, "64x64-s2-w4"), (64, "64x64-s1-w4"))
            ),
        ),
        word=r"tl\.dot",
    ),
    Claim(
        "wgmma",
        "triton",
        "hint",
        "tl.dot becomes wgmma on sm_90 where 64 rows and four warps allow.",
        (NATIVE, BY_MMA_SYNC),
        word=r"tl\.dot",
    ),
    Claim(
        "wgmma",
        "gluon",
        "direct",
        "warpgroup_mma is wgmma.",
        (GLUON_WGMMA,),
        word="warpgroup_mma",
    ),
    Claim(
        "overlapped_softmax",
        "gluon",
        "direct",
        "A wait takes the number of products that may stay in flight. That is what the PTX says; ptxas orders anew.",
        (
            Proof(
                "overlap_gluon",
                "in PTX the exponentials stand between the wait for Q K^T and that for P V",
                Probe("roles_gluon", "128"),
                Probe("roles_gluon", "waits at once"),
                Detector(
                    "ptx",
                    r"WAIT1 (?:ex2 )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
                    order=r"wgmma\.wait_group\S+\s+\d|\bex2(?=\.approx)",
                ),
            ),
        ),
        word=r"warpgroup_mma_wait\(1",
    ),
    Claim(
        "wgmma_width",
        "triton",
        "hint",
        "No argument for it: the width follows the tile.",
        (
            Proof(
                "wgmma width of a tile",
                "a tile of 32 columns is multiplied in instructions of 32",
                Probe("tile_176", "composed"),
                Probe("mma_choice", "native"),
                Detector("ptx", r"wgmma\S*\.m64n32k16"),
            ),
        ),
        word=r"tl\.arange\(0, 32\)",
    ),
)
