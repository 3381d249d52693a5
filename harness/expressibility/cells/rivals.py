"""CuTe DSL and cuTile, for sm_90a: seven questions that tell them from Triton. Grades alone; nothing is timed."""

from harness.expressibility.claims import VERSIONS, Claim, Detector, Probe, Proof

ASKED = {
    "swizzle": "the swizzle of an operand in shared memory",
    "barriers": "barriers of some warps of a block, by number",
    "roles": "code of some warps alone",
    "registers": "registers of a thread by its role",
    "waits": "how many products a wait leaves in flight under the exponentials",
    "tiles": "a tile of 176 keys: one wgmma of 176 columns",
    "clusters": "a cluster of two blocks, and TMA loads that write into both",
}
"""Row of the rivals' table -> its idea."""

PACKAGES = {
    "cute": (
        *(f"nvidia-cutlass-dsl{part}==4.8.1" for part in ("", "-libs-base", "-libs-core", "-libs-cu12")),
        *("cuda-bindings==13.5.0", "cuda-pathfinder==1.9.0", "protobuf==7.36.2", "typing-extensions==4.16.0"),
    ),
    "cutile": (
        "cuda-tile==1.7.0",
        *(f"nvidia-{part}==13.5.37" for part in ("cuda-tileiras", "cuda-nvcc", "nvvm")),  # Tile IR to PTX to SASS
        "typing-extensions==4.16.0",
    ),
}
"""Rival -> all that it needs to compile without a GPU."""


def _cute(name: str, form: str = "plain", version: str | None = None) -> Probe:
    return Probe(name, form, version, "cute")


def _cutile(name: str, form: str = "plain") -> Probe:
    return Probe(name, form, dialect="cutile")


def _control_in_cute(form: str) -> Probe:
    return _cute("products", form, VERSIONS["cute"][0])


def _direct(asked: str, says: str, word: str, proof: Proof) -> Claim:
    return Claim(asked, "cute", "direct", says, (proof,), word=word)


NUMBERED = Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x9, 0x\d+", least=2)
BRANCH = Detector("ptx", r"@%p\d+ bra\b")
MULTICAST = Detector("ptx", r"cp\.async\.bulk\.tensor\S*multicast::cluster\S*")
OF_128_BYTES = Detector("ptx", r"(?<=, )46116862\d{11}")
"""Constants of a wgmma's descriptor whose two highest bits, 01, say a swizzle of 128 bytes."""
OF_32_BYTES = Detector("ptx", r"(?<=, )-46116859\d{11}")
"""The same with 11: 32 bytes."""

CUTE = (
    _direct(
        "swizzle",
        "The layout of a tile in shared memory is composed with a swizzle, or with none.",
        "SmemLayoutAtomKind",
        Proof(
            "cute swizzle",
            "the descriptors of the operands say a swizzle of 128 bytes, or none, as the source does",
            _cute("products"),
            _cute("products", "unswizzled"),
            OF_128_BYTES,
        ),
    ),
    _direct(
        "barriers",
        "A barrier has a number and a count of threads; it is awaited or only reached.",
        "barrier_arrive",
        Proof(
            "cute barriers",
            "barrier 9 of 256 threads, awaited by one half and reached by the other",
            _cute("warps", "barriers"),
            _cute("warps"),
            NUMBERED,
        ),
    ),
    _direct(
        "roles",
        "A thread knows its index, and `if` is a branch.",
        "thread < 128",
        Proof("cute roles", "a branch of one warpgroup", _cute("warps", "roles"), _cute("warps"), BRANCH),
    ),
    _direct(
        "registers",
        "Each role gives back registers or takes some, by number.",
        r"setmaxregister_increase\(232",
        Proof(
            "cute registers",
            "40 registers for one warpgroup, 232 for the other",
            _cute("warps", "registers"),
            _cute("warps", "roles"),
            Detector("sass", r"USETMAXREG\S*", least=2),
        ),
    ),
    _direct(
        "waits",
        "A wait takes the number of products that may stay in flight. That is what the PTX says; ptxas orders anew.",
        r"wait_group\(1",
        Proof(
            "cute waits",
            "one product is in flight under the exponentials",
            _cute("products", "wait one"),
            _cute("products"),
            Detector("ptx", r"1 (?:ex2 )+0", order=r"(?<=wait_group\.sync\.aligned \t)\d|\bex2(?=\.)"),
        ),
    ),
    _direct(
        "tiles",
        "A wgmma has any multiple of 8 columns up to 256, and so has a tile.",
        "176",
        Proof(
            "cute tiles",
            "wgmma of 176 columns",
            _cute("products", "176"),
            _cute("products"),
            Detector("ptx", r"wgmma\.mma_async\S*n176k16"),
        ),
    ),
    _direct(
        "clusters",
        "A launch takes the shape of its clusters; a TMA load takes a mask of blocks.",
        "MulticastOp",
        Proof(
            "cute clusters",
            "a TMA load for two blocks",
            _cute("clusters", "two blocks"),
            _cute("clusters", "one block"),
            MULTICAST,
        ),
    ),
)

CUTILE = (
    Claim(
        "swizzle",
        "cutile",
        "automatic",
        "There is no word for shared memory. The compiler swizzles each operand by 128 bytes, or by fewer where the "
        "rows of a tile are shorter.",
        (
            Proof(
                "cutile swizzle",
                "operands of 64 columns: the descriptors say a swizzle of 128 bytes",
                _cutile("hints"),
                _control_in_cute("unswizzled"),
                OF_128_BYTES,
            ),
            Proof(
                "cutile swizzle of narrow tiles",
                "an operand of 16 columns: its descriptor says a swizzle of 32 bytes",
                _cutile("hints", "narrow"),
                _cutile("hints"),
                OF_32_BYTES,
            ),
        ),
    ),
    Claim(
        "barriers",
        "cutile",
        "hatch",
        "There is no word for a warp, so none for a barrier of some. The assembler of PTX is a program of its own: one "
        "that edits the text first can add such a barrier, and nothing else knows of it.",
        (
            Proof(
                "cutile barriers",
                "barrier 9 of 128 threads, added to the PTX",
                _cutile("hints", "barrier"),
                _cutile("hints"),
                Detector("sass", NUMBERED.pattern),
            ),
        ),
        word="edit=",
    ),
    Claim(
        "roles",
        "cutile",
        "automatic",
        "The compiler gives copies and stores warps of their own, also where optimization is off; there is no word for "
        "it.",
        (
            Proof(
                "cutile roles",
                "warps beside those that multiply give their registers back",
                _cutile("hints"),
                _cutile("hints", "copy"),
                Detector("sass", r"USETMAXREG\.DEALLOC\S*"),
            ),
            Proof(
                "cutile roles without optimization",
                "the same at opt_level=0",
                _cutile("hints", "not optimized"),
                _cutile("hints", "copy"),
                Detector("sass", r"USETMAXREG\.DEALLOC\S*"),
            ),
        ),
    ),
    Claim(
        "registers",
        "cutile",
        "hint",
        "With num_worker_warps=8 the compiler gives the warps that multiply more registers; the number is its own.",
        (
            Proof(
                "cutile registers",
                "232 registers for the warps that multiply, which nobody wrote",
                _cutile("hints", "eight warps"),
                _cutile("hints"),
                Detector("ptx", r"setmaxnreg\.inc\S*\s+\d+"),
            ),
        ),
        word="num_worker_warps=8",
    ),
    Claim(
        "waits",
        "cutile",
        "hint",
        "There is no word for a wait, and in the PTX each waits for all. With num_worker_warps=8 the assembler puts "
        "exponentials between a product and its wait, with four warps it does not.",
        (
            Proof(
                "cutile waits",
                "in the loop exponentials stand between a product and its wait",
                _cutile("overlap", "eight warps"),
                _cutile("overlap", "four warps"),
                Detector(
                    "sass",
                    r"HGMMA MUFU\.EX2 (?:HGMMA |MUFU\.EX2 )*WARPGROUP",
                    in_loop=True,
                    order=r"\bHGMMA\b|MUFU\.EX2|\bWARPGROUP(?=\.DEPBAR)",
                ),
            ),
            Proof(
                "cutile waits for all",
                "no wait in the PTX leaves a product in flight",
                _cutile("overlap", "eight warps"),
                _control_in_cute("wait one"),
                Detector("ptx", r"wgmma\.wait_group\S+\s+[1-9]"),
                seen=False,
            ),
        ),
        word="num_worker_warps=8",
    ),
    Claim(
        "tiles",
        "cutile",
        "inexpressible",
        "The sides of a tile are powers of two. 176 columns are three products of 128, 32 and 16.",
        (
            Proof(
                "cutile tile of 176",
                "a tile of 176 columns is an error",
                _cutile("tile_176", "176"),
                _cutile("tile_176", "composed"),
                Detector("words", r"Dimension #1 of shape \(128, 176\) is not a power of two"),
            ),
            Proof(
                "cutile tiles joined",
                "so is one joined of 128 and 32",
                _cutile("tile_176", "joined"),
                _cutile("tile_176", "composed"),
                Detector("words", r"Result tile shape must be power of 2, got: \[64, 160\]"),
            ),
            Proof(
                "cutile tiles composed",
                "three products in one loop: none of 176 columns",
                _cutile("tile_176", "composed"),
                _control_in_cute("176"),
                Detector("ptx", r"wgmma\.mma_async\S*n176k16"),
                seen=False,
            ),
            Proof(
                "cutile tile edited",
                "176 written into the PTX: the accumulator has too few registers for it",
                _cutile("tile_176", "edited"),
                _cutile("tile_176", "composed"),
                Detector("words", r"Argument vector size mismatch for instruction 'wgmma\.mma_async"),
            ),
        ),
    ),
    Claim(
        "clusters",
        "cutile",
        "hint",
        "num_ctas=2 asks for clusters of two blocks; the compiler then loads for both.",
        (
            Proof(
                "cutile clusters",
                "TMA loads for two blocks",
                _cutile("hints", "two blocks"),
                _cutile("hints"),
                MULTICAST,
            ),
        ),
        word="num_ctas=2",
    ),
)

CLAIMS = (*CUTE, *CUTILE)
