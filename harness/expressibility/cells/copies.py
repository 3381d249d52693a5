"""Copies to shared memory: cp.async, TMA, and when they are awaited."""

from dataclasses import replace

from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

LOOP = (r"scf\.for", r"^    [}]")
COPY_BEFORE_PRODUCT = Detector(
    "ttgir", r"async_copy_global_to_local.*\.dot\b", within=LOOP, order=r"\w+\.dot\b|async_copy_global_to_local"
)
MULTICAST = Detector("ptx", r"cp\.async\.bulk\.tensor\S*multicast\S*")
TWO_BLOCKS = Detector("ptx", r"tcgen05\.mma\.cta_group::2\S*")

ARRIVAL_ELSEWHERE = Detector("ptx", r"mbarrier\.arrive\.shared::cluster\S*")

BY_GLUON = Proof(
    "multicast_gluon",
    "one load for both blocks",
    Probe("multicast_gluon", "multicast"),
    Probe("multicast_gluon", "each"),
    MULTICAST,
)
BY_EACH = (
    *(
        Proof(
            f"clusters sm_{arch}",
            "two blocks, and every TMA load is each block's own",
            Probe("clusters", f"{arch} two"),
            Probe("multicast_gluon", "multicast", version="3.9.0"),
            MULTICAST,
            seen=False,
        )
        for arch in (90, 100)
    ),
    Proof(
        "smem_asm",
        "inline PTX that names the compiler's shared memory does not assemble",
        Probe("smem_asm", "symbol"),
        Probe("smem_asm", "plain"),
        Detector("words", r"PTXAS error"),
    ),
)
"""What core Triton does with two blocks: no load is for both."""
BY_ASM = Proof(
    "multicast_asm",
    "inline PTX declares a tile of its own and loads it into both blocks",
    Probe("multicast_asm", "core"),
    Probe("multicast_asm", "plain"),
    MULTICAST,
)

CLAIMS = (
    Claim(
        "cp_async_pipeline",
        "triton",
        "hint",
        "num_stages asks for cp.async and says how deep; where the copies stand and which are awaited is the "
        "compiler's: behind the last product, whatever the order of the source.",
        (
            Proof(
                "cp_async_order copies",
                "K and V come by cp.async",
                Probe("cp_async_order", "plain"),
                Probe("words", "plain"),
                Detector("sass", r"LDGSTS\S*"),
            ),
            *(
                Proof(
                    f"cp_async_order {form}",
                    "no copy of the loop stands before a product",
                    Probe("cp_async_order", form),
                    Twin("cp_async_pipeline", "gluon", arch="sm_80"),
                    COPY_BEFORE_PRODUCT,
                    seen=False,
                )
                for form in ("plain", "rotated", "branched")
            ),
        ),
        word="num_stages",
    ),
    Claim(
        "cluster_multicast",
        "triton",
        "hatch",
        "num_ctas=2 asks for clusters, and no load goes to both blocks. Inline PTX can write one, into shared memory "
        "that it declares: the compiler's own has no address there.",
        (BY_ASM, *BY_EACH),
        versions=("3.6.0",),
        word="inline_asm",
    ),
    Claim(
        "cluster_multicast",
        "triton",
        "hatch",
        "num_ctas=2 asks for clusters, and no load goes to both blocks. A hook on the compiler's stages that adds one "
        "word to a load of the IR makes it one for both; inline PTX can write one, into shared memory that it "
        "declares: the compiler's own has no address there.",
        (
            Proof(
                "multicast_hook",
                "one load for both blocks",
                Probe("multicast_hook", "hook"),
                Probe("multicast_hook", "plain"),
                MULTICAST,
            ),
            BY_ASM,
            *BY_EACH,
        ),
        versions=("3.7.1", "3.8.0", "3.9.0"),
        word="add_stages_inspection_hook|inline_asm",
    ),
    Claim(
        "cluster_multicast",
        "gluon",
        "hatch",
        "A load has no such argument. Inline PTX can write one, into shared memory that it declares.",
        (
            replace(BY_ASM, name="multicast_asm in Gluon", subject=Probe("multicast_asm", "Gluon")),
            Proof(
                "multicast_gluon argument",
                "multicast=True is refused",
                Probe("multicast_gluon", "multicast"),
                Probe("multicast_gluon", "each"),
                Detector("words", r"unexpected keyword argument 'multicast'"),
            ),
            Proof(
                "multicast_gluon each",
                "a layout that puts the tile into both blocks gives each a load of its own",
                Probe("multicast_gluon", "each"),
                Probe("multicast_gluon", "multicast", version="3.9.0"),
                MULTICAST,
                seen=False,
            ),
        ),
        versions=("3.6.0",),
        word="inline_asm",
    ),
    Claim(
        "cluster_multicast",
        "gluon",
        "direct",
        "A TMA load takes multicast=True. At a barrier of both blocks each arrives in its own alone: neither learns "
        "when the other has read.",
        (
            BY_GLUON,
            Proof(
                "pair_barrier_gluon",
                "an arrival at a barrier of both blocks stays in its own",
                Probe("pair_barrier_gluon", "both"),
                Probe("pair_barrier_gluon", "both", version="3.9.0"),
                ARRIVAL_ELSEWHERE,
                seen=False,
            ),
        ),
        versions=("3.7.1",),
        word="multicast=True",
        fault="dropped",
    ),
    Claim(
        "cluster_multicast",
        "gluon",
        "direct",
        "A TMA load takes multicast=True, and one barrier counts what both blocks hand back.",
        (
            BY_GLUON,
            Proof(
                "cluster_multicast in Gluon, loads",
                "K and V come by loads for both blocks",
                Twin("cluster_multicast", "gluon", head_dim=128, tile="128x128-s2-w8"),
                Twin("pinned_maxima", "gluon", head_dim=128, tile="128x128-s2-w8"),
                MULTICAST,
            ),
            Proof(
                "cluster_multicast in Gluon, releases",
                "buffers go back by arrivals in the first block",
                Twin("cluster_multicast", "gluon", head_dim=128, tile="128x128-s2-w8"),
                Twin("pinned_maxima", "gluon", head_dim=128, tile="128x128-s2-w8"),
                ARRIVAL_ELSEWHERE,
            ),
        ),
        versions=("3.8.0", "3.9.0"),
        word="multicast=True",
    ),
    Claim(
        "two_cta_mma",
        "triton",
        "hint",
        "num_ctas=2 makes one product of two blocks on sm_100.",
        (
            Proof(
                "two_cta_mma",
                "tcgen05.mma of a group of two blocks",
                Probe("clusters", "100 two"),
                Probe("clusters", "100 one"),
                TWO_BLOCKS,
            ),
        ),
        versions=("3.6.0",),
        word="num_ctas",
    ),
    Claim(
        "two_cta_mma",
        "triton",
        "hint",
        "num_ctas=2 no longer makes one product of two blocks: each has its own.",
        (
            Proof(
                "two_cta_mma dropped",
                "no tcgen05.mma of a group of two blocks",
                Probe("clusters", "100 two"),
                Probe("clusters", "100 two", version="3.6.0"),
                TWO_BLOCKS,
                seen=False,
            ),
        ),
        fault="dropped",
        versions=("3.7.1", "3.8.0", "3.9.0"),
        word="num_ctas",
    ),
    Claim(
        "clusters",
        "triton",
        "hint",
        "num_ctas=2 fails where one product feeds another.",
        (
            Proof(
                "clusters attention fails",
                "an attention loop does not compile for two blocks",
                Probe("clusters", "90 attention two"),
                Probe("clusters", "90 attention one"),
                Detector("words", r"PassManager::run failed"),
            ),
        ),
        fault="fails",
        versions=("3.6.0", "3.7.1", "3.8.0"),
        word="num_ctas",
    ),
    Claim(
        "clusters",
        "triton",
        "hint",
        "num_ctas=2 makes a cluster of two blocks of an attention loop.",
        (
            Proof(
                "clusters attention",
                "an attention loop of two blocks, which wait for each other",
                Probe("clusters", "90 attention two"),
                Probe("clusters", "90 attention one"),
                Detector("ptx", r"barrier\.cluster\S*"),
            ),
        ),
        versions=("3.9.0",),
        word="num_ctas",
    ),
    Claim(
        "tma_store",
        "triton",
        "direct",
        "desc.store is a TMA store from shared memory.",
        (
            Proof(
                "epilogue descriptor",
                "stmatrix, then a TMA store",
                Probe("epilogue", "descriptor"),
                Probe("epilogue", "pointers"),
                Detector("sass", r"UTMASTG\S*"),
            ),
        ),
        word=r"\.store\(\[",
    ),
    Claim(
        "staged_epilogue",
        "triton",
        "automatic",
        "tl.store of a product goes through shared memory; 16 bytes a lane where alignment is known.",
        (
            Proof(
                "epilogue pointers",
                "stores of 16 bytes",
                Probe("epilogue", "pointers"),
                Probe("epilogue", "unaligned"),
                Detector("sass", r"STG\.E\.128"),
            ),
            *(
                Proof(
                    f"epilogue {form} staged",
                    "the tile passes through shared memory between the product and the store",
                    Probe("epilogue", form),
                    Probe("wgmma_shape", "128 of 128"),
                    Detector("sass", r"\bSTSM?\b\S*", within=(r"\bHGMMA\b", r"\bSTG\b")),
                )
                for form in ("pointers", "scattered", "unaligned")
            ),
        ),
    ),
    Claim(
        "l2_policy",
        "triton",
        "direct",
        "tl.load takes an eviction policy; a descriptor's load takes none.",
        (
            Proof(
                "l2_policy pointer",
                "evict_last becomes a policy of the load",
                Probe("l2_policy", "pointer"),
                Probe("l2_policy", "pointer plain"),
                Detector("ptx", r"createpolicy\S*"),
            ),
            Proof(
                "l2_policy descriptor",
                "a descriptor's load refuses the argument",
                Probe("l2_policy", "descriptor"),
                Probe("l2_policy", "descriptor plain"),
                Detector("words", r"unexpected keyword argument 'eviction_policy'"),
            ),
        ),
        word="eviction_policy",
    ),
    Claim(
        "l2_policy",
        "gluon",
        "direct",
        "gl.load takes an eviction policy.",
        (
            Proof(
                "l2_gluon pointer",
                "evict_last becomes a policy of the load",
                Probe("l2_gluon", "pointer"),
                Probe("l2_gluon", "plain"),
                Detector("ptx", r"createpolicy\S*"),
            ),
        ),
        word="eviction_policy",
    ),
    Claim(
        "blocks_per_sm",
        "triton",
        "hint",
        "maxnreg bounds the registers of a thread, and with them how many blocks fit. A least number of blocks has no "
        "word, and unknown options are dropped; a hook adds the line to the PTX.",
        (
            Proof(
                "options maxnreg",
                "maxnreg is in the PTX",
                Probe("options", "maxnreg"),
                Probe("options", "plain"),
                Detector("ptx", r"\.maxnreg \d+"),
            ),
            Proof(
                "options minctasm",
                "an unknown option is dropped without a word",
                Probe("options", "minctasm"),
                Probe("options", "hook"),
                Detector("ptx", r"\.minnctapersm \d+"),
                seen=False,
            ),
            Proof(
                "options asm",
                "inline PTX cannot say it: it is no statement",
                Probe("options", "asm"),
                Probe("options", "plain"),
                Detector("words", r"PTXAS error"),
            ),
            Proof(
                "options hook",
                "a hook on the stage ptx can",
                Probe("options", "hook"),
                Probe("options", "plain"),
                Detector("ptx", r"\.minnctapersm \d+"),
                obtained=False,
            ),
        ),
        word="maxnreg",
    ),
    Claim(
        "blocks_per_sm",
        "gluon",
        "hint",
        "maxnreg bounds the registers of a thread, and with them how many blocks fit. A least number of blocks has no "
        "word, and unknown options are dropped; a hook adds the line to the PTX.",
        (
            Proof(
                "blocks_gluon maxnreg",
                "maxnreg is in the PTX",
                Probe("blocks_gluon", "maxnreg"),
                Probe("blocks_gluon", "plain"),
                Detector("ptx", r"\.maxnreg \d+"),
            ),
            Proof(
                "blocks_gluon hook",
                "a hook on the stage ptx can",
                Probe("blocks_gluon", "hook"),
                Probe("blocks_gluon", "plain"),
                Detector("ptx", r"\.minnctapersm \d+"),
                obtained=False,
            ),
            Proof(
                "blocks_gluon minctasm",
                "an unknown option is dropped without a word",
                Probe("blocks_gluon", "minctasm"),
                Probe("blocks_gluon", "hook"),
                Detector("ptx", r"\.minnctapersm \d+"),
                seen=False,
            ),
        ),
        word="maxnreg",
    ),
    Claim(
        "clusters",
        "gluon",
        "direct",
        "Layouts say which block of a cluster has what: here half of the rows each, and all keys both.",
        (
            Proof(
                "clusters_gluon",
                "an attention loop whose blocks come in pairs",
                Probe("clusters_gluon", "two"),
                Probe("clusters_gluon", "one"),
                Detector("ptx", r"\.reqnctapercluster 2"),
            ),
        ),
        word="cga_layout",
    ),
    Claim(
        "two_cta_mma",
        "gluon",
        "direct",
        "The layout of the accumulator in tensor memory takes two_ctas.",
        (
            Proof(
                "two_cta_gluon",
                "a product of a pair of blocks",
                Probe("two_cta_gluon", "two blocks"),
                Probe("two_cta_gluon", "one block"),
                TWO_BLOCKS,
            ),
        ),
        word="two_ctas=True",
    ),
    Claim(
        "cp_async_pipeline",
        "gluon",
        "direct",
        "Copies, groups and waits are calls: they stand where the source has them.",
        (
            Proof(
                "cp_async_order in Gluon",
                "the next K is on its way before P V",
                Twin("cp_async_pipeline", "gluon", arch="sm_80"),
                Probe("cp_async_order", "plain"),
                COPY_BEFORE_PRODUCT,
            ),
        ),
        word=r"wait_group\(0\)",
    ),
)
