"""CuTe DSL and cuTile, for sm_90a: seven questions that separate them from Triton. Grades only; nothing is timed."""

from harness.expressibility.claims import VERSIONS, Claim, Detector, Probe, Proof, claim

ASKED = {
    "swizzle": "the swizzle of an operand in shared memory",
    "barriers": "named barriers: barriers of some warps of a block",
    "roles": "code that only some warps run",
    "registers": "registers per thread, by role",
    "waits": "how many products a wait leaves in flight during the exponentials",
    "tiles": "a tile of 176 keys: one wgmma of 176 columns",
    "clusters": "a cluster of two blocks, and TMA loads that write into both",
}
"""Row of the rivals' table -> its idea."""


def _cute(name: str, form: str = "plain", version: str | None = None) -> Probe:
    return Probe(name, form, version, "cute")


def _cutile(name: str, form: str = "plain") -> Probe:
    return Probe(name, form, dialect="cutile")


def _control_in_cute(form: str) -> Probe:
    return _cute("products", form, VERSIONS["cute"][0])


def _direct(asked: str, says: str, word: str, proof: Proof) -> Claim:
    return claim("cute", asked, "direct", says, proof, word=word)


NUMBERED = Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x9, 0x\d+", least=2)
BRANCH = Detector("ptx", r"@%p\d+ bra\b")
MULTICAST = Detector("ptx", r"cp\.async\.bulk\.tensor\S*multicast::cluster\S*")
OF_128_BYTES = Detector("ptx", r"(?<=, )46116862\d{11}")
"""Constants of a wgmma's descriptor. Their two highest bits, 01, mean a swizzle of 128 bytes."""
OF_32_BYTES = Detector("ptx", r"(?<=, )-46116859\d{11}")
"""The same with 11: 32 bytes."""

CUTE = (
    _direct(
        "swizzle",
        "The source composes the layout of a shared-memory tile with a swizzle, or with none.",
        "SmemLayoutAtomKind",
        Proof(
            "cute swizzle",
            "The operands' descriptors have the swizzle that the source asks for: 128 bytes, or none.",
            _cute("products"),
            _cute("products", "unswizzled"),
            OF_128_BYTES,
        ),
    ),
    _direct(
        "barriers",
        "A barrier takes its number and a count of threads. A thread waits at it or only arrives.",
        "barrier_arrive",
        Proof(
            "cute barriers",
            "At barrier 9 of 256 threads, one half of the threads waits and the other half only arrives.",
            _cute("warps", "barriers"),
            _cute("warps"),
            NUMBERED,
        ),
    ),
    _direct(
        "roles",
        "A thread knows its index, and an if statement compiles to a branch.",
        "thread < 128",
        Proof(
            "cute roles", "One warpgroup takes a branch of its own.", _cute("warps", "roles"), _cute("warps"), BRANCH
        ),
    ),
    _direct(
        "registers",
        "Each role gives up or takes registers, and the source sets the number.",
        r"setmaxregister_increase\(232",
        Proof(
            "cute registers",
            "One warpgroup gets 40 registers, the other gets 232.",
            _cute("warps", "registers"),
            _cute("warps", "roles"),
            Detector("sass", r"USETMAXREG\S*", least=2),
        ),
    ),
    _direct(
        "waits",
        "A wait takes the number of products that may stay in flight. The PTX keeps the order of the "
        "source, but ptxas may reorder the instructions.",
        r"wait_group\(1",
        Proof(
            "cute waits",
            "In the PTX, one product is in flight during the exponentials.",
            _cute("products", "wait one"),
            _cute("products"),
            Detector("ptx", r"1 (?:ex2 )+0", order=r"(?<=wait_group\.sync\.aligned \t)\d|\bex2(?=\.)"),
        ),
    ),
    _direct(
        "tiles",
        "A wgmma may have any multiple of 8 columns up to 256, and so may a tile.",
        "176",
        Proof(
            "cute tiles",
            "The PTX has a wgmma with N = 176.",
            _cute("products", "176"),
            _cute("products"),
            Detector("ptx", r"wgmma\.mma_async\S*n176k16"),
        ),
    ),
    _direct(
        "clusters",
        "A launch takes the shape of its clusters. A TMA load takes a mask of blocks.",
        "MulticastOp",
        Proof(
            "cute clusters",
            "A TMA load writes into both blocks of the cluster.",
            _cute("clusters", "two blocks"),
            _cute("clusters", "one block"),
            MULTICAST,
        ),
    ),
)

CUTILE = (
    claim(
        "cutile",
        "swizzle",
        "automatic",
        "The source has no control over shared memory. The compiler swizzles each operand by 128 bytes, "
        "or by fewer if the rows of a tile are shorter.",
        Proof(
            "cutile swizzle",
            "Operands with rows of 128 bytes get a swizzle of 128 bytes, as their descriptors show.",
            _cutile("hints"),
            _control_in_cute("unswizzled"),
            OF_128_BYTES,
        ),
        Proof(
            "cutile swizzle of narrow tiles",
            "An operand with 16 columns gets a swizzle of 32 bytes, as its descriptor shows.",
            _cutile("hints", "narrow"),
            _cutile("hints"),
            OF_32_BYTES,
        ),
    ),
    claim(
        "cutile",
        "barriers",
        "hatch",
        "The source cannot name warps, and so cannot ask for a barrier of some of them. cuTile calls "
        "ptxas as a separate program. A script in its place can add such a barrier to the PTX, but the "
        "compiler does not know about it.",
        Proof(
            "cutile barriers",
            "The machine code has barrier 9 of 128 threads, which the script added to the PTX.",
            _cutile("hints", "barrier"),
            _cutile("hints"),
            Detector("sass", NUMBERED.pattern),
        ),
        word="edit=",
    ),
    claim(
        "cutile",
        "roles",
        "automatic",
        "The compiler splits the warps into roles, even without optimization: some give up their "
        "registers. The source cannot ask for it.",
        Proof(
            "cutile roles",
            "Some warps give up registers (USETMAXREG.DEALLOC); a plain copy kernel has no such warps.",
            _cutile("hints"),
            _cutile("hints", "copy"),
            Detector("sass", r"USETMAXREG\.DEALLOC\S*"),
        ),
        Proof(
            "cutile roles without optimization",
            "Some warps give up registers at optimization level 0 too.",
            _cutile("hints", "not optimized"),
            _cutile("hints", "copy"),
            Detector("sass", r"USETMAXREG\.DEALLOC\S*"),
        ),
    ),
    claim(
        "cutile",
        "registers",
        "hint",
        "With num_worker_warps=8 the compiler lets some warps take more registers. It chooses the number.",
        Proof(
            "cutile registers",
            "Some warps take registers by setmaxnreg, with a number that the source does not have.",
            _cutile("hints", "eight warps"),
            _cutile("hints"),
            Detector("ptx", r"setmaxnreg\.inc\S*\s+\d+"),
        ),
        word="num_worker_warps=8",
    ),
    claim(
        "cutile",
        "waits",
        "hint",
        "The source cannot place a wait, and every wait in the PTX is for all products. With "
        "num_worker_warps=8 ptxas puts exponentials between a product and its wait; with four warps it "
        "does not.",
        Proof(
            "cutile waits",
            "In the main loop, exponentials come between a product and the wait for it.",
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
            "No wait in the PTX leaves a product in flight.",
            _cutile("overlap", "eight warps"),
            _control_in_cute("wait one"),
            Detector("ptx", r"wgmma\.wait_group\S+\s+[1-9]"),
            seen=False,
        ),
        word="num_worker_warps=8",
    ),
    claim(
        "cutile",
        "tiles",
        "inexpressible",
        "The sides of a tile are powers of two. 176 columns take three products of 128, 32 and 16.",
        Proof(
            "cutile tile of 176",
            "A tile of 176 columns is an error.",
            _cutile("tile_176", "176"),
            _cutile("tile_176", "composed"),
            Detector("words", r"Dimension #1 of shape \(128, 176\) is not a power of two"),
        ),
        Proof(
            "cutile tiles joined",
            "A tile joined from 128 and 32 columns is an error too.",
            _cutile("tile_176", "joined"),
            _cutile("tile_176", "composed"),
            Detector("words", r"Result tile shape must be power of 2, got: \[64, 160\]"),
        ),
        Proof(
            "cutile tiles composed",
            "Three products in one loop compile, but no wgmma has N = 176.",
            _cutile("tile_176", "composed"),
            _control_in_cute("176"),
            Detector("ptx", r"wgmma\.mma_async\S*n176k16"),
            seen=False,
        ),
        Proof(
            "cutile tile edited",
            "If N = 176 is edited into the PTX, the accumulator has too few registers for it.",
            _cutile("tile_176", "edited"),
            _cutile("tile_176", "composed"),
            Detector("words", r"Argument vector size mismatch for instruction 'wgmma\.mma_async"),
        ),
    ),
    claim(
        "cutile",
        "clusters",
        "hint",
        "num_ctas=2 asks for clusters of two blocks. The compiler then issues TMA loads for both.",
        Proof(
            "cutile clusters",
            "A TMA load writes into both blocks of the cluster.",
            _cutile("hints", "two blocks"),
            _cutile("hints"),
            MULTICAST,
        ),
        word="num_ctas=2",
    ),
)

CLAIMS = (*CUTE, *CUTILE)
