"""Warps with roles: who loads, who multiplies, with how many registers, and how they wait."""

from harness.expressibility.claims import Detector, Probe, Proof, forms, in_gluon, in_triton
from harness.operators.attention.claims.twin import Twin, twins

NUMBERED = Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x[4-9a-f], 0x\w+")
SETMAXNREG = Detector("sass", r"USETMAXREG\S*")
SIXTEEN = Detector("facts", r"warps 16")
ROLES = Detector("facts", r"warps (?:12|16)")
EMPTY_WAITS = Detector("ptx", r"mbarrier\.arrive\.(?!expect)\S*")
CODE_OF_SOME_WARPS = (
    Proof(
        "roles_gluon code",
        "In the IR, each worker is a partition of its own.",
        *forms("roles_gluon", "64", "no roles"),
        Detector("ttgir", r"partition\d?\(.*num_warps\(\d\)"),
    ),
)
SHIFTED_TWICE = Detector(
    "ttgir",
    r"start = 64 : i32\} .*\n.*= tt\.splat (%\w+) (?=(?:.*\n)+?.*async_tma_copy_local_to_global %\w+\[\1,)",
)
"""A range of rows that starts at 64, and is added to O's coordinate, which has these 64 already."""
PASS_FAILED = Detector("words", r"PassManager::run failed")


def off(form: str) -> Probe:
    return Probe("warp_specialize", f"{form} off")


WITHOUT_AN_IF = Proof(
    "roles_kept if",
    "With lazy_rescale's if in the loop the compiler ignores the request: it adds no warps.",
    *forms("roles_kept", "if", "plain"),
    ROLES,
    seen=False,
)
OF_ONE_FUNCTION = Proof(
    "role_barrier_gluon",
    "A barrier in one of two functions has 128 of the 256 threads.",
    *forms("role_barrier_gluon", "barrier", "plain"),
    Detector("ptx", r"bar\.sync\s+\d+, 128"),
    obtained=False,
)

ROLES_OF_THE_COMPILER = (
    Proof(
        "warp_specialize",
        "num_warps=4 launches 12 warps: the compiler has added warps for the roles.",
        Probe("warp_specialize", "90"),
        off("90"),
        ROLES,
    ),
    Proof(
        "warp_specialize 8 warps",
        "With eight warps the compiler ignores the request: it adds no warps.",
        *forms("warp_specialize", "90 8 warps", "90"),
        ROLES,
        seen=False,
    ),
    Proof(
        "warp_specialize host",
        "With descriptors from the host the compiler fails.",
        Probe("warp_specialize", "90 host"),
        off("90 host"),
        PASS_FAILED,
    ),
    Proof(
        "roles_kept K and V by the host",
        "With the descriptors of K and V alone from the host it adds the warps.",
        *forms("roles_kept", "K and V by the host", "if"),
        ROLES,
    ),
    Proof(
        "roles_kept O by the host",
        "With O's alone it fails.",
        *forms("roles_kept", "O by the host", "plain"),
        PASS_FAILED,
    ),
    WITHOUT_AN_IF,
    Proof(
        "warp_specialize causal",
        "With the two loops of a causal mask the compiler fails.",
        Probe("warp_specialize", "90 causal"),
        off("90 causal"),
        PASS_FAILED,
    ),
    Proof(
        "warp_specialize one loop",
        "With one loop that masks every iteration the compiler adds the warps.",
        Probe("warp_specialize", "90 causal in one loop"),
        off("90 causal in one loop"),
        ROLES,
    ),
    Proof(
        "warp_specialize rows",
        "If one value is both the first row and O's coordinate, the second consumer's rows get 64 twice: its "
        "range of rows starts at 64, and the value that is added to the range already has 64 more than the "
        "first row, because O's coordinate needs them.",
        *forms("warp_specialize", "90 causal in one loop", "90 causal in one loop, rows apart"),
        SHIFTED_TWICE,
    ),
    Proof(
        "warp_specialize rows of the twin",
        "The twin makes its row numbers from a value of their own, and its second consumer adds 64 once.",
        Twin("producer_consumer", "triton", tile="128x128-s2-w8"),
        Probe("warp_specialize", "90 causal in one loop"),
        SHIFTED_TWICE,
        seen=False,
    ),
    Proof(
        "warp_specialize 3 stages",
        "With three stages it compiles too: K and V have three buffers each.",
        *forms("warp_specialize", "90 3 stages", "90"),
        Detector("ttgir", r"memdesc<3x64x128", least=2),
    ),
    Proof(
        "warp_specialize 64 rows",
        "With 64 rows both consumers compute the same rows: the IR has Q K^T of all 64 rows twice.",
        Probe("warp_specialize", "90 64 rows"),
        off("90 64 rows"),
        Detector("ttgir", r"warp_group_dot .*tensor<64x64xf32", least=2),
    ),
)
SAID_OF_ROLES = (
    "tl.range(warp_specialize=True) asks for a producer and consumers. On sm_90 the compiler obeys if the kernel "
    "makes the descriptor of Q itself, and O's if it has one, and has four warps and one loop over keys without an "
    "if. In the other forms tried it ignores the request or fails. Where it obeys, it miscounts the second consumer's "
    "rows if one value is both the tile's first row and a descriptor's coordinate. The w8 of a tile counts the warps "
    "of the two consumers: such a kernel is launched with num_warps=4."
)
PRODUCER_CONSUMER = Twin("producer_consumer", "triton", tile="128x128-s2-w8")
INVALIDATED = r"mbarrier\.inval"

CLAIMS = (
    in_triton(
        "warp_specialized",
        "hint",
        f"{SAID_OF_ROLES} The kernel invalidates none of its barriers, whose memory may hold K later.",
        *ROLES_OF_THE_COMPILER,
        Proof(
            "warp_specialize none invalidated",
            "No barrier is invalidated; without roles all are.",
            PRODUCER_CONSUMER,
            Twin("wgmma", "triton", tile="128x128-s2-w8"),
            Detector("ptx", INVALIDATED),
            seen=False,
        ),
        gates="warp_specialize_stages",
        versions=("3.6.0", "3.7.1"),
        word="warp_specialize=",
    ),
    in_triton(
        "warp_specialized",
        "hint",
        f"{SAID_OF_ROLES} The kernel invalidates all of its barriers in the end.",
        *ROLES_OF_THE_COMPILER,
        Proof(
            "warp_specialize all invalidated",
            "28 barriers are invalidated; without roles there are 5.",
            PRODUCER_CONSUMER,
            Twin("wgmma", "triton", tile="128x128-s2-w8"),
            Detector("ptx", INVALIDATED, least=28),
        ),
        gates="warp_specialize_stages",
        versions=("3.8.0", "3.9.0"),
        word="warp_specialize=",
    ),
    in_triton(
        "lazy_consumers",
        "hint",
        "Roles and the condition of lazy_rescale exclude each other in the forms tried: the compiler ignores the "
        "request for roles, also with the condition in tl.map_elementwise.",
        WITHOUT_AN_IF,
        Proof(
            "roles_kept elementwise",
            "With the condition in tl.map_elementwise it adds no warps either.",
            *forms("roles_kept", "elementwise", "plain"),
            ROLES,
            seen=False,
        ),
        fault="dropped",
        word="warp_specialize=",
    ),
    in_gluon(
        "warp_specialized",
        "direct",
        "gl.warp_specialize takes functions, each with its number of warps and registers.",
        Proof(
            "warp_specialized in Gluon",
            "Eight consumer warps, one producer warp and three idle warps: 12 warps are launched.",
            *twins("gluon", "warp_specialized", "mbarrier_ring"),
            ROLES,
        ),
        Proof(
            "roles_gluon",
            "Four consumer warps, one producer warp and seven idle warps: 12 warps are launched.",
            *forms("roles_gluon", "64", "no roles"),
            ROLES,
        ),
        word=r"gl\.warp_specialize",
    ),
    in_triton(
        "warp_specialized_sm120",
        "hint",
        "The compiler obeys warp_specialize=True on sm_120 too, with mma.sync.",
        Proof(
            "warp_specialize sm_120",
            "num_warps=4 launches eight warps.",
            Probe("warp_specialize", "120 host"),
            off("120 host"),
            Detector("facts", r"warps 8"),
        ),
        versions=("3.6.0", "3.9.0"),
        word="warp_specialize=",
    ),
    in_triton(
        "warp_specialized_sm120",
        "hint",
        "warp_specialize=True makes the compiler fail on sm_120.",
        Proof(
            "warp_specialize sm_120 fails",
            "The compiler ends with an error or a failed assertion.",
            Probe("warp_specialize", "120 host"),
            off("120 host"),
            Detector("words", r"PassManager::run failed|Assertion .*failed|the process ended"),
        ),
        fault="fails",
        versions=("3.7.1", "3.8.0"),
        word="warp_specialize=",
    ),
    in_gluon(
        "warp_specialized_sm120",
        "direct",
        "gl.warp_specialize takes functions on sm_120 too; they use mma.sync.",
        Proof(
            "roles_sm120_gluon",
            "Four consumer warps, one producer warp and three idle warps: eight warps are launched.",
            *forms("roles_sm120_gluon", "roles", "no roles"),
            Detector("facts", r"warps 8"),
        ),
        word=r"gl\.warp_specialize",
    ),
    in_triton(
        "setmaxnreg_consumers",
        "hint",
        "With warp_specialize=True the compiler adds setmaxnreg and chooses the numbers. The option maxnreg moves "
        "them: below 168, its default here, no role gets 232. It cannot give each role a number of its own. Inline PTX "
        "with setmaxnreg reaches the machine code only if maxnreg is set.",
        Proof(
            "warp_specialize setmaxnreg",
            "The roles give up and take registers (USETMAXREG).",
            Probe("warp_specialize", "90"),
            off("90"),
            SETMAXNREG,
        ),
        *(
            Proof(
                f"warp_specialize maxnreg {limit}",
                f"With maxnreg={limit} no role gets 232 registers.",
                *forms("warp_specialize", f"90 maxnreg {limit}", "90"),
                Detector("ptx", r"setmaxnreg\.inc\S+\s+232"),
                seen=False,
            )
            for limit in (96, 160)
        ),
        Proof(
            "warp_specialize maxnreg 200",
            "With maxnreg=200 other numbers are in the code: 136 and 168 instead of 40 and 120.",
            *forms("warp_specialize", "90 maxnreg 200", "90"),
            Detector("ptx", r"setmaxnreg\.dec\S+\s+(?:136|168)\b", least=2),
        ),
        Proof(
            "warp_specialize maxnreg 200 consumers",
            "With maxnreg=200 the consumers get 232 registers, as without it.",
            *forms("warp_specialize", "90 maxnreg 200", "90 maxnreg 160"),
            Detector("ptx", r"setmaxnreg\.inc\S+\s+232"),
        ),
        Proof(
            "setmaxnreg_asm",
            "Inline PTX asks for setmaxnreg, but the machine code has none.",
            Probe("setmaxnreg_asm", "asm"),
            Probe("roles_gluon", "64"),
            SETMAXNREG,
            seen=False,
        ),
        Proof(
            "setmaxnreg_asm maxnreg",
            "With maxnreg=168 the machine code has setmaxnreg, but its warps have no code of their own.",
            *forms("setmaxnreg_asm", "asm maxnreg", "asm"),
            SETMAXNREG,
            obtained=False,
        ),
        word="warp_specialize=",
    ),
    in_gluon(
        "setmaxnreg_consumers",
        "direct",
        "gl.warp_specialize takes a number of registers for each worker.",
        Proof(
            "setmaxnreg_consumers in Gluon",
            "Each of the two consumer warpgroups gets 240 registers.",
            *twins("gluon", "setmaxnreg_consumers", "mbarrier_ring"),
            Detector("ptx", r"setmaxnreg\S+\s+240\b"),
        ),
        Proof(
            "roles_gluon setmaxnreg",
            "Consumers get 232 registers and the producer gets 24.",
            *forms("roles_gluon", "64", "no roles"),
            Detector("ptx", r"setmaxnreg\S+\s+(?:232|24)\b"),
        ),
        word=r"\[2[34][02], 24\]",
    ),
    in_triton(
        "mbarrier_ring",
        "hint",
        "The compiler adds the mbarriers that say when a buffer is full. It adds those that say when one "
        "is empty only with warp_specialize=True.",
        Proof(
            "warp_specialize mbarriers",
            "With roles, consumers arrive at empty mbarriers.",
            Probe("warp_specialize", "90"),
            off("90"),
            EMPTY_WAITS,
        ),
        Proof(
            "tma_loop mbarriers",
            "Without roles, a load still completes on an mbarrier.",
            off("90"),
            Probe("overlap_plain", "plain"),
            Detector("ptx", r"mbarrier\.try_wait\S*"),
        ),
        word="warp_specialize=",
    ),
    in_gluon(
        "mbarrier_ring",
        "direct",
        "Calls allocate and initialize mbarriers, wait for them and arrive at them. One thread arrives, "
        "and before that the compiler synchronizes all warps that run the same function, so they cannot "
        "drift apart.",
        Proof(
            "mbarrier_ring in Gluon",
            "The kernel arrives at empty mbarriers.",
            *twins("gluon", "mbarrier_ring", "tma_swizzle"),
            EMPTY_WAITS,
        ),
        Proof(
            "mbarrier_ring in Gluon, barriers",
            "The main loop has block barriers (BAR.SYNC), where the CUDA kernel has none.",
            Twin("mbarrier_ring", "gluon"),
            Twin("mbarrier_ring", "cuda"),
            Detector("sass", r"BAR\.SYNC\S*", 4, in_loop=True),
            obtained=False,
        ),
        Proof(
            "roles_gluon mbarriers",
            "Consumers arrive at empty mbarriers.",
            Probe("roles_gluon", "64"),
            Probe("warps_gluon", "one"),
            EMPTY_WAITS,
        ),
        word=r"mbarrier\.arrive|wg\.arrive",
    ),
    in_triton(
        "role_branch",
        "hatch",
        "The source can give some warps elementwise code of their own: an if in tl.map_elementwise over an index "
        "becomes a branch of each thread. A load may be in it, but a store is refused, and the barriers that a tl.dot "
        "and its sum bring are of the whole block. A scalar thread index from inline PTX makes a branch around any "
        "code, but a barrier or tl.dot inside it would deadlock. A hook on the compiler's stages can make roles of the "
        "kernel's body, and in them both are safe.",
        Proof(
            "role_branch",
            "The PTX has a real branch, with the load on one side.",
            *forms("role_branch", "branch", "masked"),
            Detector("ptx", r"@%p\d+ bra\b"),
        ),
        Proof(
            "elementwise_role",
            "With an if in tl.map_elementwise over an index, the exponentials are behind a branch of each thread: "
            "between BSSY and BSYNC.",
            *forms("elementwise_role", "exponentials", "plain"),
            Detector("sass", r"MUFU\.EX2", 16, within=(r"\bBSSY\b", r"\bBSYNC\b")),
            obtained=False,
        ),
        Proof(
            "elementwise_role load",
            "A load may be behind that branch.",
            *forms("elementwise_role", "load", "exponentials"),
            Detector("ptx", r"bra ld\.global BB", order=r"\bbra\b|ld\.global|(?<=\$L__)BB\d+_\d+(?=:)"),
            obtained=False,
        ),
        Proof(
            "role_branch without asm",
            "Without inline PTX or a hook, a store behind such a branch is refused.",
            *forms("elementwise_role", "store", "load"),
            Detector("words", r"Stores are not supported inside map_elementwise"),
        ),
        Proof(
            "elementwise_role product",
            "With a tl.dot and a sum behind that branch, there are barriers of the whole block (bar.sync 0) too, "
            "to which the other warps do not come.",
            *forms("elementwise_role", "product", "exponentials"),
            Detector(
                "ptx",
                r"bra (?:mma\.sync |bar\.sync\s+0 )*bar\.sync\s+0 (?:mma\.sync |bar\.sync\s+0 )*BB",
                order=r"\bbra\b|mma\.sync|bar\.sync\s+0\b|(?<=\$L__)BB\d+_\d+(?=:)",
            ),
            obtained=False,
        ),
        Proof(
            "warpgroups_hook roles",
            "In the IR that the hook edits, the kernel's body is the code of roles with four warps each.",
            *forms("warpgroups_hook", "hook", "plain"),
            Detector("ttgir", r"partition\d num_warps\(4\)", order=r"partition\d(?=\()|num_warps\(4\)"),
        ),
        word="inline_asm_elementwise|add_stages_inspection_hook",
    ),
    in_gluon(
        "role_branch",
        "direct",
        "Only the warps of a function of gl.warp_specialize run it.",
        *CODE_OF_SOME_WARPS,
        word=r"gl\.warp_specialize",
    ),
    in_triton(
        "named_barriers",
        "hatch",
        "The source cannot ask for a barrier of some warps. Inline PTX can, but the compiler does not know about it.",
        Proof(
            "named_barrier asm",
            "At barrier 9 of 256 threads, one half of the warps waits and the other half only arrives.",
            *forms("named_barrier", "asm", "plain"),
            NUMBERED,
        ),
        Proof(
            "named_barrier debug_barrier",
            "tl.debug_barrier compiles to no barrier of some warps.",
            *forms("named_barrier", "debug_barrier", "asm"),
            NUMBERED,
            seen=False,
        ),
        word="inline_asm_elementwise",
    ),
    in_gluon(
        "named_barriers",
        "hatch",
        "A barrier in a function of gl.warp_specialize is one of that function's warps alone. No word makes a "
        "barrier with a number, at which warps of two functions meet. Inline PTX does, and is applied to each element "
        "of a tensor.",
        OF_ONE_FUNCTION,
        Proof(
            "named_barrier_gluon elementwise",
            "Inline PTX, applied to one element per thread, uses barriers 8 and 9.",
            *forms("named_barrier_gluon", "elementwise", "plain"),
            NUMBERED,
        ),
        versions=("3.6.0", "3.7.1", "3.8.0"),
        word="inline_asm",
    ),
    in_gluon(
        "named_barriers",
        "hatch",
        "A barrier in a function of gl.warp_specialize is one of that function's warps alone. No word makes a "
        "barrier with a number, at which warps of two functions meet. Inline PTX does, and gl.inline_asm makes it a "
        "statement.",
        OF_ONE_FUNCTION,
        Proof(
            "named_barrier_gluon inline_asm",
            "gl.inline_asm uses barriers 8 and 9.",
            *forms("named_barrier_gluon", "inline_asm", "plain"),
            NUMBERED,
        ),
        versions=("3.9.0",),
        word="inline_asm",
    ),
    in_triton(
        "three_warpgroups",
        "hatch",
        "num_warps is a power of two, and with roles the compiler makes two consumers. num_consumer_groups is no "
        "option: it is an error at a launch, and triton.compile alone ignores it. A hook on the compiler's stages can "
        "run the kernel's body in three warpgroups, each with rows of its own, but then each also loads K and V for "
        "itself.",
        Proof(
            "warpgroups_hook",
            "The launch has 12 warps.",
            *forms("warpgroups_hook", "hook", "plain"),
            Detector("facts", r"warps 12"),
        ),
        Proof(
            "warpgroups_hook products",
            "The machine code has three times as many wgmma.",
            *forms("warpgroups_hook", "hook", "plain"),
            Detector("sass", r"\bHGMMA\b", least=24),
        ),
        Proof(
            "warps_12",
            "num_warps=12 is refused.",
            *forms("warps_12", "12", "8"),
            Detector("words", r"num_warps must be a power of 2"),
        ),
        Proof(
            "warp_specialize consumers",
            "warp_specialize=True makes two consumers: 12 warps with the producer, not 16.",
            Probe("warp_specialize", "90"),
            Probe("warps_gluon", "three"),
            SIXTEEN,
            seen=False,
        ),
        Proof(
            "num_consumer_groups",
            "triton.compile ignores num_consumer_groups: the kernel has four warps.",
            Probe("options", "num_consumer_groups"),
            Probe("warps_gluon", "three"),
            SIXTEEN,
            seen=False,
        ),
        Proof(
            "num_consumer_groups launched",
            "At a launch, num_consumer_groups is an error.",
            *forms("options", "launched num_consumer_groups", "launched"),
            Detector("words", r"num_consumer_groups was specified but unrecognised"),
        ),
        Proof(
            "role_branch warps",
            "A branch from inline PTX divides the warps of the launch, but adds none.",
            Probe("role_branch", "branch"),
            Probe("warps_gluon", "three"),
            SIXTEEN,
            seen=False,
        ),
        word="add_stages_inspection_hook",
    ),
    in_gluon(
        "three_warpgroups",
        "direct",
        "gl.warp_specialize takes a list of functions with their warps and registers. Here three "
        "warpgroups multiply, and 16 warps are launched.",
        Proof(
            "warps_gluon three",
            "One block has 16 warps.",
            *forms("warps_gluon", "three", "one"),
            SIXTEEN,
        ),
        word=r"gl\.warp_specialize",
    ),
)
