"""Warps with roles of their own: who loads, who multiplies, with how many registers, and how they wait."""

from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

NUMBERED = Detector("sass", r"BAR\.(?:SYNC\S*|ARV) 0x[4-9a-f], 0x\w+")
SETMAXNREG = Detector("sass", r"USETMAXREG\S*")
SIXTEEN = Detector("facts", r"warps 16")
ROLES = Detector("facts", r"warps (?:12|16)")
EMPTY_WAITS = Detector("ptx", r"mbarrier\.arrive\.(?!expect)\S*")
CODE_OF_SOME_WARPS = (
    Proof(
        "roles_gluon code",
        "the workers are partitions of their own in the IR",
        Probe("roles_gluon", "64"),
        Probe("roles_gluon", "no roles"),
        Detector("ttgir", r"partition\d?\(.*num_warps\(\d\)"),
    ),
)
PASS_FAILED = Detector("words", r"PassManager::run failed")


def off(form: str) -> Probe:
    return Probe("warp_specialize", f"{form} off")


CLAIMS = (
    Claim(
        "warp_specialized",
        "triton",
        "hint",
        "tl.range(warp_specialize=True) asks for a producer and consumers. On sm_90 it is followed with descriptors "
        "made in the kernel and four warps; elsewhere it is dropped, or the compiler fails.",
        (
            Proof(
                "warp_specialize",
                "four warps asked for: twelve are launched, one group loads",
                Probe("warp_specialize", "90"),
                off("90"),
                ROLES,
            ),
            Proof(
                "warp_specialize 8 warps",
                "with eight warps it is dropped: the launch has no more",
                Probe("warp_specialize", "90 8 warps"),
                Probe("warp_specialize", "90"),
                ROLES,
                seen=False,
            ),
            Proof(
                "warp_specialize host",
                "with descriptors from the host the compiler fails",
                Probe("warp_specialize", "90 host"),
                off("90 host"),
                PASS_FAILED,
            ),
            Proof(
                "warp_specialize causal",
                "with the two loops of a causal mask it fails",
                Probe("warp_specialize", "90 causal"),
                off("90 causal"),
                PASS_FAILED,
            ),
            Proof(
                "warp_specialize one loop",
                "with one loop, masked throughout, it does not",
                Probe("warp_specialize", "90 causal in one loop"),
                off("90 causal in one loop"),
                ROLES,
            ),
            Proof(
                "warp_specialize 64 rows",
                "with 64 rows both consumers compute the same ones: each product stands twice",
                Probe("warp_specialize", "90 64 rows"),
                off("90 64 rows"),
                Detector("ttgir", r"warp_group_dot .*tensor<64x64xf32", least=2),
            ),
        ),
        word="warp_specialize=",
    ),
    Claim(
        "warp_specialized",
        "gluon",
        "direct",
        "gl.warp_specialize takes functions, their warps and their registers.",
        (
            Proof(
                "warp_specialized in Gluon",
                "eight consumer warps, a producer warp, three at rest: twelve are launched",
                Twin("warp_specialized", "gluon"),
                Twin("mbarrier_ring", "gluon"),
                ROLES,
            ),
            Proof(
                "roles_gluon",
                "a producer warp, four consumer warps, four at rest: twelve are launched",
                Probe("roles_gluon", "64"),
                Probe("roles_gluon", "no roles"),
                ROLES,
            ),
        ),
        word=r"gl\.warp_specialize",
    ),
    Claim(
        "warp_specialized_sm120",
        "triton",
        "hint",
        "The same request is followed on sm_120, with mma.sync.",
        (
            Proof(
                "warp_specialize sm_120",
                "four warps asked for, eight launched",
                Probe("warp_specialize", "120 host"),
                off("120 host"),
                Detector("facts", r"warps 8"),
            ),
        ),
        versions=("3.6.0", "3.9.0"),
        word="warp_specialize=",
    ),
    Claim(
        "warp_specialized_sm120",
        "triton",
        "hint",
        "The same request fails on sm_120.",
        (
            Proof(
                "warp_specialize sm_120 fails",
                "the compiler ends in an error or an assertion",
                Probe("warp_specialize", "120 host"),
                off("120 host"),
                Detector("words", r"PassManager::run failed|Assertion .*failed|the process ended"),
            ),
        ),
        fault="fails",
        versions=("3.7.1", "3.8.0"),
        word="warp_specialize=",
    ),
    Claim(
        "warp_specialized_sm120",
        "gluon",
        "direct",
        "gl.warp_specialize takes functions there too, which multiply by mma.sync.",
        (
            Proof(
                "roles_sm120_gluon",
                "four warps beside a producer: eight are launched",
                Probe("roles_sm120_gluon", "roles"),
                Probe("roles_sm120_gluon", "no roles"),
                Detector("facts", r"warps 8"),
            ),
        ),
        word=r"gl\.warp_specialize",
    ),
    Claim(
        "setmaxnreg_consumers",
        "triton",
        "hint",
        "setmaxnreg comes with warp_specialize=True, with the compiler's numbers; no option says them. By inline PTX "
        "it reaches the machine code only beside the option maxnreg.",
        (
            Proof(
                "warp_specialize setmaxnreg",
                "the roles give and take registers",
                Probe("warp_specialize", "90"),
                off("90"),
                SETMAXNREG,
            ),
            Proof(
                "warp_specialize maxnreg",
                "the numbers are the same under maxnreg=168",
                Probe("warp_specialize", "90 maxnreg"),
                off("90"),
                Detector("ptx", r"setmaxnreg\S+\s+232"),
            ),
            Proof(
                "setmaxnreg_asm",
                "by inline PTX it is in the PTX and not in the machine code",
                Probe("setmaxnreg_asm", "asm"),
                Probe("roles_gluon", "64"),
                SETMAXNREG,
                seen=False,
            ),
            Proof(
                "setmaxnreg_asm maxnreg",
                "beside maxnreg=168 it is in the machine code, for warps that have no code of their own",
                Probe("setmaxnreg_asm", "asm maxnreg"),
                Probe("setmaxnreg_asm", "asm"),
                SETMAXNREG,
                obtained=False,
            ),
        ),
        word="warp_specialize=",
    ),
    Claim(
        "setmaxnreg_consumers",
        "gluon",
        "direct",
        "gl.warp_specialize takes a number of registers for each worker.",
        (
            Proof(
                "setmaxnreg_consumers in Gluon",
                "240 for each of two warpgroups",
                Twin("setmaxnreg_consumers", "gluon"),
                Twin("mbarrier_ring", "gluon"),
                Detector("ptx", r"setmaxnreg\S+\s+240\b"),
            ),
            Proof(
                "roles_gluon setmaxnreg",
                "232 for consumers, 24 for the producer",
                Probe("roles_gluon", "64"),
                Probe("roles_gluon", "no roles"),
                Detector("ptx", r"setmaxnreg\S+\s+(?:232|24)\b"),
            ),
        ),
        word=r"\[2[34][02], 24\]",
    ),
    Claim(
        "mbarrier_ring",
        "triton",
        "hint",
        "The compiler makes full barriers by itself and frees a buffer by a barrier of the block; empty mbarriers come "
        "with warp_specialize=True.",
        (
            Proof(
                "warp_specialize mbarriers",
                "with roles, consumers arrive on empty mbarriers",
                Probe("warp_specialize", "90"),
                off("90"),
                EMPTY_WAITS,
            ),
            Proof(
                "tma_loop mbarriers",
                "without roles a load still completes on an mbarrier",
                off("90"),
                Probe("overlap_plain", "plain"),
                Detector("ptx", r"mbarrier\.try_wait\S*"),
            ),
        ),
        word="warp_specialize=",
    ),
    Claim(
        "mbarrier_ring",
        "gluon",
        "direct",
        "mbarriers are allocated, initialized, awaited and reached by calls. An arrival is one thread's, and the "
        "compiler has a barrier of all warps of its program before it: they do not drift apart.",
        (
            Proof(
                "mbarrier_ring in Gluon",
                "arrivals on empty mbarriers",
                Twin("mbarrier_ring", "gluon"),
                Twin("tma_swizzle", "gluon"),
                EMPTY_WAITS,
            ),
            Proof(
                "mbarrier_ring in Gluon, barriers",
                "barriers of the block in the loop, where the CUDA kernel has none",
                Twin("mbarrier_ring", "gluon"),
                Twin("mbarrier_ring", "cuda"),
                Detector("sass", r"BAR\.SYNC\S*", 4, in_loop=True),
                obtained=False,
            ),
            Proof(
                "roles_gluon mbarriers",
                "consumers arrive on empty mbarriers",
                Probe("roles_gluon", "64"),
                Probe("warps_gluon", "one"),
                EMPTY_WAITS,
            ),
        ),
        word=r"mbarrier\.arrive|wg\.arrive",
    ),
    Claim(
        "role_branch",
        "triton",
        "hatch",
        "No word for code of some warps. A scalar thread index by inline PTX makes a real branch; a barrier or a "
        "product inside would hang.",
        (
            Proof(
                "role_branch",
                "one real branch, the load on one side of it",
                Probe("role_branch", "branch"),
                Probe("role_branch", "masked"),
                Detector("ptx", r"@%p\d+ bra\b"),
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "role_branch",
        "gluon",
        "direct",
        "Each function of gl.warp_specialize is code of its warps alone.",
        CODE_OF_SOME_WARPS,
        word=r"gl\.warp_specialize",
    ),
    Claim(
        "named_barriers",
        "triton",
        "hatch",
        "No word for a barrier of some warps. Inline PTX has one; the compiler does not know of it.",
        (
            Proof(
                "named_barrier asm",
                "barrier 9 of 256 threads, awaited by one half and reached by the other",
                Probe("named_barrier", "asm"),
                Probe("named_barrier", "plain"),
                NUMBERED,
            ),
            Proof(
                "named_barrier debug_barrier",
                "tl.debug_barrier is a barrier of the whole block",
                Probe("named_barrier", "debug_barrier"),
                Probe("named_barrier", "asm"),
                NUMBERED,
                seen=False,
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "named_barriers",
        "gluon",
        "hatch",
        "No word for it; inline PTX, element by element.",
        (
            Proof(
                "named_barrier_gluon elementwise",
                "inline PTX on a tensor of an element a thread: barriers 8 and 9",
                Probe("named_barrier_gluon", "elementwise"),
                Probe("named_barrier_gluon", "plain"),
                NUMBERED,
            ),
        ),
        versions=("3.6.0", "3.7.1", "3.8.0"),
        word="inline_asm",
    ),
    Claim(
        "named_barriers",
        "gluon",
        "hatch",
        "No word for it; gl.inline_asm says it as a statement.",
        (
            Proof(
                "named_barrier_gluon inline_asm",
                "gl.inline_asm: barriers 8 and 9",
                Probe("named_barrier_gluon", "inline_asm"),
                Probe("named_barrier_gluon", "plain"),
                NUMBERED,
            ),
        ),
        versions=("3.9.0",),
        word="inline_asm",
    ),
    Claim(
        "three_warpgroups",
        "triton",
        "inexpressible",
        "A launch has a power of two of warps, and no group of them has code of its own.",
        (
            Proof(
                "warps_12",
                "num_warps=12 is refused",
                Probe("warps_12", "12"),
                Probe("warps_12", "8"),
                Detector("words", r"num_warps must be a power of 2"),
            ),
            Proof(
                "warp_specialize consumers",
                "warp_specialize=True makes two consumers: twelve warps with the producer, not sixteen",
                Probe("warp_specialize", "90"),
                Probe("warps_gluon", "three"),
                SIXTEEN,
                seen=False,
            ),
            Proof(
                "num_consumer_groups",
                "an option num_consumer_groups is dropped: four warps",
                Probe("options", "num_consumer_groups"),
                Probe("warps_gluon", "three"),
                SIXTEEN,
                seen=False,
            ),
            Proof(
                "role_branch warps",
                "a branch by inline PTX divides the warps of the launch, a power of two",
                Probe("role_branch", "branch"),
                Probe("warps_gluon", "three"),
                SIXTEEN,
                seen=False,
            ),
        ),
    ),
    Claim(
        "three_warpgroups",
        "gluon",
        "direct",
        "gl.warp_specialize takes a list of functions with their warps and registers: 16 warps, three groups multiply.",
        (
            Proof(
                "warps_gluon three",
                "16 warps in one block",
                Probe("warps_gluon", "three"),
                Probe("warps_gluon", "one"),
                SIXTEEN,
            ),
        ),
        word=r"gl\.warp_specialize",
    ),
)
