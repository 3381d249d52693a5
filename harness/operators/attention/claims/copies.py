"""Copies to shared memory: cp.async and TMA, and when they are waited for."""

from dataclasses import replace

from harness.expressibility.claims import Claim, Detector, Probe, Proof, forms, in_gluon, in_triton
from harness.operators.attention.claims.twin import Twin, twins

LOOP = (r"scf\.for", r"^    [}]")
COPY_BEFORE_PRODUCT = Detector(
    "ttgir", r"async_copy_global_to_local.*\.dot\b", within=LOOP, order=r"\w+\.dot\b|async_copy_global_to_local"
)
LEFT_IN_FLIGHT = Detector("ptx", r"cp\.async\.wait_group\s+[1-9]")
"""A wait for copies, but not for all of them."""
MULTICAST = Detector("ptx", r"cp\.async\.bulk\.tensor\S*multicast\S*")
TWO_BLOCKS = Detector("ptx", r"tcgen05\.mma\.cta_group::2\S*")

WAITS_BEFORE_A_STORE = Detector(
    "ttgir",
    "async_tma_store_wait async_tma_copy_local_to_global",
    order="async_tma_store_wait|async_tma_copy_local_to_global",
)
"""The wait for a TMA store stands before the next store, not behind its own."""
ARRIVAL_ELSEWHERE = Detector("ptx", r"mbarrier\.arrive\.shared::cluster\S*")

BY_GLUON = Proof(
    "multicast_gluon",
    "One TMA load writes into both blocks of the cluster.",
    *forms("multicast_gluon", "multicast", "each"),
    MULTICAST,
)
BY_EACH = (
    *(
        Proof(
            f"clusters sm_{arch}",
            f"On sm_{arch}, each of two blocks still issues its own TMA loads.",
            Probe("clusters", f"{arch} two"),
            Probe("multicast_gluon", "multicast", version="3.9.0"),
            MULTICAST,
            seen=False,
        )
        for arch in (90, 100)
    ),
    Proof(
        "smem_asm",
        "ptxas rejects inline PTX that names the compiler's shared memory.",
        *forms("smem_asm", "symbol", "plain"),
        Detector("words", r"PTXAS error"),
    ),
)
"""With two blocks, core Triton issues no load for both."""
OF_TWO_BLOCKS = Proof(
    "clusters of two blocks",
    "num_ctas=2 asks for clusters of two blocks (.reqnctapercluster 2).",
    *forms("clusters", "90 two", "90 one"),
    Detector("ptx", r"\.reqnctapercluster 2"),
    obtained=False,
)
BY_ASM = Proof(
    "multicast_asm",
    "Inline PTX declares a tile in shared memory and loads it into both blocks.",
    *forms("multicast_asm", "core", "plain"),
    MULTICAST,
)
POLICY_IN_GLUON = Proof(
    "l2_gluon pointer",
    "evict_last becomes an L2 policy of the load (createpolicy).",
    *forms("l2_gluon", "pointer", "plain"),
    Detector("ptx", r"createpolicy\S*"),
)


def _stores(versions: tuple[str, ...], says: str, shows: str, *, seen: bool) -> Claim:
    """Core Triton's claim on tma_store, in these versions; `seen`: whether a while loop stores as a tl.range does."""
    return in_triton(
        "tma_store",
        "direct",
        f"desc.store compiles to a TMA store from shared memory. {says}",
        Proof(
            "epilogue descriptor",
            "The machine code has a TMA store (UTMASTG).",
            *forms("epilogue", "descriptor", "pointers"),
            Detector("sass", r"UTMASTG\S*"),
        ),
        Proof(
            "stored_later",
            "A loop over tiles by tl.range with two stages waits for a store before the next one, and with one "
            "stage right after it.",
            *forms("stored_later", "two stages", "one stage"),
            WAITS_BEFORE_A_STORE,
        ),
        Proof(
            "stored_later counter",
            "So does such a loop that takes its tiles from a counter.",
            *forms("stored_later", "counter", "one stage"),
            WAITS_BEFORE_A_STORE,
        ),
        Proof(
            f"stored_later while{'' if seen else ' waits'}",
            shows,
            *forms("stored_later", "while", "one stage" if seen else "two stages"),
            WAITS_BEFORE_A_STORE,
            seen=seen,
        ),
        versions=versions,
        word=r"\.store\(\[",
    )


CLAIMS = (
    in_triton(
        "cp_async_pipeline",
        "hint",
        "num_stages asks for cp.async and sets the depth. The compiler chooses where the copies go and "
        "which it waits for: it puts them behind the last product, in three orders of the source. If a step says "
        "only at its end which tile comes next, it puts them before the first.",
        Proof(
            "cp_async_order copies",
            "cp.async copies K and V (LDGSTS).",
            Probe("cp_async_order", "plain"),
            Probe("words", "plain"),
            Detector("sass", r"LDGSTS\S*"),
        ),
        *(
            Proof(
                f"cp_async_order {form}",
                f"In the {form} loop, no copy comes before a product.",
                Probe("cp_async_order", form),
                Twin("cp_async_pipeline", "gluon", arch="sm_80"),
                COPY_BEFORE_PRODUCT,
                seen=False,
            )
            for form in ("plain", "rotated", "branched")
        ),
        Proof(
            "cp_async_order late",
            "In a loop that takes the number of its next tile from a counter, copies come before the products.",
            *forms("cp_async_order", "late", "plain"),
            COPY_BEFORE_PRODUCT,
        ),
        Proof(
            "cp_async_order waits",
            "In the plain loop, no wait leaves a copy in flight (cp.async.wait_group 0).",
            Probe("cp_async_order", "plain"),
            Probe("waits_gluon", "one"),
            LEFT_IN_FLIGHT,
            seen=False,
        ),
        word="num_stages",
    ),
    in_triton(
        "cluster_multicast",
        "hatch",
        "num_ctas=2 asks for clusters, but no load goes to both blocks. Inline PTX can issue such a load, "
        "but only into shared memory that it declares: it cannot name the compiler's buffers.",
        BY_ASM,
        OF_TWO_BLOCKS,
        *BY_EACH,
        versions=("3.6.0",),
        word="inline_asm",
    ),
    in_triton(
        "cluster_multicast",
        "hatch",
        "num_ctas=2 asks for clusters, but no load goes to both blocks. A hook on the compiler's stages "
        "can mark a load of the IR as multicast. Inline PTX can issue such a load, but only into shared "
        "memory that it declares: it cannot name the compiler's buffers.",
        Proof(
            "multicast_hook",
            "One TMA load writes into both blocks of the cluster.",
            *forms("multicast_hook", "hook", "plain"),
            MULTICAST,
        ),
        BY_ASM,
        OF_TWO_BLOCKS,
        *BY_EACH,
        versions=("3.7.1", "3.8.0", "3.9.0"),
        word="add_stages_inspection_hook|inline_asm",
    ),
    in_gluon(
        "cluster_multicast",
        "hatch",
        "A TMA load takes no multicast argument. Inline PTX can issue a multicast load into shared memory "
        "that it declares.",
        replace(BY_ASM, name="multicast_asm in Gluon", subject=Probe("multicast_asm", "Gluon")),
        Proof(
            "multicast_gluon argument",
            "The load refuses multicast=True.",
            *forms("multicast_gluon", "multicast", "each"),
            Detector("words", r"unexpected keyword argument 'multicast'"),
        ),
        Proof(
            "multicast_gluon each",
            "With a layout that puts the tile into both blocks, each block issues its own load.",
            Probe("multicast_gluon", "each"),
            Probe("multicast_gluon", "multicast", version="3.9.0"),
            MULTICAST,
            seen=False,
        ),
        versions=("3.6.0",),
        word="inline_asm",
    ),
    in_gluon(
        "cluster_multicast",
        "direct",
        "A TMA load takes multicast=True. But an arrival at a barrier of both blocks stays in its own "
        "block, so neither block learns when the other has read its data.",
        BY_GLUON,
        Proof(
            "pair_barrier_gluon",
            "An arrival at a barrier of both blocks stays in its own block.",
            Probe("pair_barrier_gluon", "both"),
            Probe("pair_barrier_gluon", "both", version="3.9.0"),
            ARRIVAL_ELSEWHERE,
            seen=False,
        ),
        versions=("3.7.1",),
        word="multicast=True",
        fault="dropped",
    ),
    in_gluon(
        "cluster_multicast",
        "direct",
        "A TMA load takes multicast=True, and one barrier counts the arrivals of both blocks that free a buffer.",
        BY_GLUON,
        Proof(
            "cluster_multicast in Gluon, loads",
            "K and V arrive by multicast loads.",
            *twins("gluon", "cluster_multicast", "pinned_maxima", head_dim=128, tile="128x128-s2-w8"),
            MULTICAST,
        ),
        Proof(
            "cluster_multicast in Gluon, releases",
            "Arrivals that free a buffer can go to another block of the cluster (shared::cluster).",
            *twins("gluon", "cluster_multicast", "pinned_maxima", head_dim=128, tile="128x128-s2-w8"),
            ARRIVAL_ELSEWHERE,
        ),
        Proof(
            "pair_barrier_gluon other block",
            "An arrival at a barrier of both blocks reaches the other block (shared::cluster).",
            *forms("pair_barrier_gluon", "both", "own"),
            ARRIVAL_ELSEWHERE,
            obtained=False,
        ),
        versions=("3.8.0", "3.9.0"),
        word="multicast=True",
    ),
    in_triton(
        "two_cta_mma",
        "hint",
        "On sm_100, num_ctas=2 makes two blocks compute one product together.",
        Proof(
            "two_cta_mma",
            "The PTX has tcgen05.mma for a pair of blocks (cta_group::2).",
            *forms("clusters", "100 two", "100 one"),
            TWO_BLOCKS,
        ),
        versions=("3.6.0",),
        word="num_ctas",
    ),
    in_triton(
        "two_cta_mma",
        "hint",
        "num_ctas=2 no longer makes two blocks compute one product together: each computes its own.",
        Proof(
            "two_cta_mma dropped",
            "The PTX has no tcgen05.mma for a pair of blocks.",
            Probe("clusters", "100 two"),
            Probe("clusters", "100 two", version="3.6.0"),
            TWO_BLOCKS,
            seen=False,
        ),
        fault="dropped",
        versions=("3.7.1", "3.8.0", "3.9.0"),
        word="num_ctas",
    ),
    in_triton(
        "clusters",
        "hint",
        "num_ctas=2 makes the compiler fail on an attention loop, in which one product feeds the next.",
        Proof(
            "clusters attention fails",
            "An attention loop does not compile for two blocks.",
            *forms("clusters", "90 attention two", "90 attention one"),
            Detector("words", r"PassManager::run failed"),
        ),
        fault="fails",
        versions=("3.6.0", "3.7.1", "3.8.0"),
        word="num_ctas",
    ),
    in_triton(
        "clusters",
        "hint",
        "num_ctas=2 compiles an attention loop for a cluster of two blocks.",
        Proof(
            "clusters attention",
            "The two blocks of an attention loop wait for each other (barrier.cluster).",
            *forms("clusters", "90 attention two", "90 attention one"),
            Detector("ptx", r"barrier\.cluster\S*"),
        ),
        versions=("3.9.0",),
        word="num_ctas",
    ),
    _stores(
        ("3.6.0", "3.7.1", "3.8.0"),
        "In a loop over tiles by tl.range with two stages the compiler waits for it before the next one; in a while "
        "loop at once.",
        "A while loop over tiles waits for a store right after it.",
        seen=False,
    ),
    _stores(
        ("3.9.0",),
        "In a loop over tiles with two stages the compiler waits for it before the next one.",
        "So does a while loop.",
        seen=True,
    ),
    in_triton(
        "staged_epilogue",
        "automatic",
        "The compiler passes the result of a product through shared memory before tl.store writes it. If "
        "alignment is known, each lane writes 16 bytes at once.",
        Proof(
            "epilogue pointers",
            "Each lane writes 16 bytes at once (STG.E.128).",
            *forms("epilogue", "pointers", "unaligned"),
            Detector("sass", r"STG\.E\.128"),
        ),
        *(
            Proof(
                f"epilogue {form} staged",
                f"With {stores}, the tile passes through shared memory between the product and the store.",
                Probe("epilogue", form),
                Probe("wgmma_shape", "128 of 128"),
                Detector("sass", r"\bSTSM?\b\S*", within=(r"\bHGMMA\b", r"\bSTG\b")),
            )
            for form, stores in (
                ("pointers", "aligned rows"),
                ("scattered", "a column stride unknown to the compiler"),
                ("unaligned", "rows of unknown alignment"),
            )
        ),
    ),
    in_triton(
        "l2_policy",
        "direct",
        "tl.load takes an eviction policy. A load from a descriptor takes none.",
        Proof(
            "l2_policy pointer",
            "evict_last becomes an L2 policy of the load (createpolicy).",
            *forms("l2_policy", "pointer", "pointer plain"),
            Detector("ptx", r"createpolicy\S*"),
        ),
        Proof(
            "l2_policy descriptor",
            "A load from a descriptor refuses the argument.",
            *forms("l2_policy", "descriptor", "descriptor plain"),
            Detector("words", r"unexpected keyword argument 'eviction_policy'"),
        ),
        word="eviction_policy",
    ),
    in_gluon(
        "l2_policy",
        "direct",
        "gl.load takes an eviction policy. A TMA load takes none.",
        POLICY_IN_GLUON,
        Proof(
            "cache_policy_gluon refused",
            "Gluon has no CachePolicy.",
            *forms("cache_policy_gluon", "policy", "plain"),
            Detector("words", r"has no attribute 'CachePolicy'"),
        ),
        versions=("3.6.0", "3.7.1", "3.8.0"),
        word="eviction_policy",
    ),
    in_gluon(
        "l2_policy",
        "direct",
        "gl.load takes an eviction policy, and a TMA load takes a cache policy.",
        POLICY_IN_GLUON,
        Proof(
            "cache_policy_gluon",
            "The TMA load has an L2 policy (cache_hint).",
            *forms("cache_policy_gluon", "policy", "plain"),
            Detector("ptx", r"cp\.async\.bulk\.tensor\S*cache_hint"),
        ),
        versions=("3.9.0",),
        word="eviction_policy|cache_policy",
    ),
    in_triton(
        "blocks_per_sm",
        "direct",
        "The option ptx_options hands ptxas a minimum number of blocks per SM. maxnreg limits the registers per "
        "thread instead. An unknown option is an error at a launch; triton.compile alone ignores it.",
        Proof(
            "blocks_ptxas",
            "With --minnctapersm=4, ptxas gives each of 128 threads at most 128 registers.",
            *forms("blocks_ptxas", "core", "core plain"),
            Detector("facts", r"registers (?:\d\d|1[01]\d|12[0-8])\b"),
        ),
        Proof(
            "options maxnreg",
            "The PTX has .maxnreg.",
            *forms("options", "maxnreg", "plain"),
            Detector("ptx", r"\.maxnreg \d+"),
        ),
        Proof(
            "options minctasm",
            "triton.compile ignores an unknown option.",
            *forms("options", "minctasm", "hook"),
            Detector("ptx", r"\.minnctapersm \d+"),
            seen=False,
        ),
        Proof(
            "options launched",
            "At a launch, an unknown option is an error.",
            *forms("options", "launched minctasm", "launched"),
            Detector("words", r"minctasm was specified but unrecognised"),
        ),
        Proof(
            "options asm",
            "Inline PTX cannot add .minnctapersm, because it is a directive and not a statement.",
            *forms("options", "asm", "plain"),
            Detector("words", r"PTXAS error"),
        ),
        Proof(
            "options hook",
            "A hook on the PTX stage can add .minnctapersm.",
            *forms("options", "hook", "plain"),
            Detector("ptx", r"\.minnctapersm \d+"),
            obtained=False,
        ),
        word="minnctapersm|maxnreg",
    ),
    in_gluon(
        "blocks_per_sm",
        "direct",
        "The option ptx_options hands ptxas a minimum number of blocks per SM. maxnreg limits the registers per "
        "thread instead. An unknown option is an error at a launch; triton.compile alone ignores it.",
        Proof(
            "blocks_ptxas in Gluon",
            "With --minnctapersm=4, ptxas gives each of 128 threads at most 128 registers.",
            *forms("blocks_ptxas", "Gluon", "Gluon plain"),
            Detector("facts", r"registers (?:\d\d|1[01]\d|12[0-8])\b"),
        ),
        Proof(
            "blocks_gluon maxnreg",
            "The PTX has .maxnreg.",
            *forms("blocks_gluon", "maxnreg", "plain"),
            Detector("ptx", r"\.maxnreg \d+"),
        ),
        Proof(
            "blocks_gluon hook",
            "A hook on the PTX stage can add .minnctapersm.",
            *forms("blocks_gluon", "hook", "plain"),
            Detector("ptx", r"\.minnctapersm \d+"),
            obtained=False,
        ),
        Proof(
            "blocks_gluon minctasm",
            "triton.compile ignores an unknown option.",
            *forms("blocks_gluon", "minctasm", "hook"),
            Detector("ptx", r"\.minnctapersm \d+"),
            seen=False,
        ),
        Proof(
            "blocks_gluon launched",
            "At a launch, an unknown option is an error.",
            *forms("blocks_gluon", "launched minctasm", "launched"),
            Detector("words", r"minctasm was specified but unrecognised"),
        ),
        word="minnctapersm|maxnreg",
    ),
    in_gluon(
        "clusters",
        "direct",
        "Layouts say which block of a cluster holds what. Here each block holds half of the rows and all keys.",
        Proof(
            "clusters_gluon",
            "An attention loop compiles for clusters of two blocks (.reqnctapercluster 2).",
            *forms("clusters_gluon", "two", "one"),
            Detector("ptx", r"\.reqnctapercluster 2"),
        ),
        word="cga_layout",
    ),
    in_gluon(
        "two_cta_mma",
        "direct",
        "The layout of the accumulator in tensor memory takes two_ctas=True.",
        Proof(
            "two_cta_gluon",
            "The PTX has tcgen05.mma for a pair of blocks (cta_group::2).",
            *forms("two_cta_gluon", "two blocks", "one block"),
            TWO_BLOCKS,
        ),
        word="two_ctas=True",
    ),
    in_gluon(
        "cp_async_pipeline",
        "direct",
        "Copies, groups and waits are calls, and stay where the source puts them. A wait takes the number of groups "
        "that may stay in flight.",
        Proof(
            "cp_async_order in Gluon",
            "The copy of the next K starts before P V.",
            Twin("cp_async_pipeline", "gluon", arch="sm_80"),
            Probe("cp_async_order", "plain"),
            COPY_BEFORE_PRODUCT,
        ),
        Proof(
            "waits_gluon",
            "A wait leaves the copy of V in flight (cp.async.wait_group 1).",
            *forms("waits_gluon", "one", "all"),
            LEFT_IN_FLIGHT,
        ),
        word=r"wait_group\(0\)",
    ),
)
