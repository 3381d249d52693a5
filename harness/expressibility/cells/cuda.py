"""CUDA says everything: each rung beside the one without it, in the machine code that nvcc makes of both."""

from dataclasses import replace

from harness.expressibility.claims import Claim, CudaProbe, Detector, Proof, Twin


def _rung(
    technique: str,
    says: str,
    control: str,
    detector: Detector,
    seen: bool = True,
    subject: str | None = None,
    head_dim: int = 64,
    arch: str = "sm_90a",
) -> Claim:
    """A claim by one proof: the CUDA kernel of the technique (or `subject`) beside that of `control`."""
    proof = Proof(
        f"{technique} in CUDA",
        says,
        Twin(subject or technique, "cuda", head_dim, arch=arch),
        Twin(control, "cuda", head_dim, arch=arch),
        detector,
        seen,
        obtained=True,
    )
    return Claim(technique, "cuda", "direct", says, (proof,))


def _probe(technique: str, says: str, probe: CudaProbe, control: str, detector: Detector) -> Claim:
    """The same for what no kernel of the ladders does."""
    proof = Proof(f"{technique} in CUDA", says, probe, Twin(control, "cuda"), detector)
    return Claim(technique, "cuda", "direct", says, (proof,))


def _sass(pattern: str, least: int = 1) -> Detector:
    return Detector("sass", pattern, least)


def _ptx(pattern: str, least: int = 1) -> Detector:
    return Detector("ptx", pattern, least)


IN_FLIGHT = Detector(
    "ptx",
    r"WAIT1 (?:ex2 )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
    order=r"wgmma\.wait_group\S+\s+\d|\bex2(?=\.approx)",
)
"""The exponentials stand between the wait for Q K^T and that for P V."""

CLAIMS = (
    _rung("scalar", "no product of tensor cores", "mma_ldmatrix", _sass(r"\bHMMA\S*"), seen=False),
    _rung("vectorized_loads", "loads of 16 bytes a lane", "scalar", _sass(r"\bLDG\.E\.128")),
    _rung("wmma", "wmma.mma", "mma_ldmatrix", _ptx(r"wmma\.mma\S*")),
    _rung("mma_ldmatrix", "ldmatrix for the operands", "wmma", _ptx(r"ldmatrix\.sync\S*")),
    _rung("register_softmax", "scores are not stored", "mma_ldmatrix", _sass(r"\bSTS\b", 30), seen=False),
    _rung("direct_rescale", "fewer multiplications", "register_softmax", _sass(r"\bFMUL\b", 150), seen=False),
    _rung("split_warp_pairs", "barriers between pairs of warps", "direct_rescale", _sass(r"BAR\.SYNC", 4)),
    _rung("padded_rows", "rows 144 bytes apart", "direct_rescale", _ptx(r"\b144\b")),
    _rung("xor_swizzle", "addresses by exclusive or", "direct_rescale", _ptx(r"xor\.b32")),
    _rung("unswizzled_rows", "plain addresses", "xor_swizzle", _ptx(r"xor\.b32"), False, "direct_rescale"),
    _rung("large_tile", "twice the products a step", "xor_swizzle", _sass(r"\bHMMA", 100)),
    _rung("cp_async_pipeline", "copies past the registers", "large_tile", _sass(r"LDGSTS\S*")),
    _rung("ldmatrix_x4", "four matrices at a time", "cp_async_pipeline", _ptx(r"ldmatrix\S*\.x4", 60)),
    _rung(
        "asymmetric_kv_buffers",
        "a wait that leaves the newest copy in flight",
        "cp_async_pipeline",
        _ptx(r"cp\.async\.wait_group\s+1"),
    ),
    _rung("exp2_softmax", "one FFMA, no multiplication", "ldmatrix_x4", _sass(r"\bFMUL\b", 150), seen=False),
    _rung("batched_m_tiles", "fewer ldmatrix for as many products", "exp2_softmax", _sass(r"\bLDSM", 60), seen=False),
    _rung(
        "fragment_double_buffer",
        "the next fragment is loaded before the first product",
        "batched_m_tiles",
        Detector("ptx", "(?:ldmatrix ){4}mma", order=r"ldmatrix(?=\S*\.x4\.shared)|mma(?=\.sync)"),
    ),
    _rung(
        "l2_grid_order",
        "the fastest index of blocks, times 128 rows, is the query tile",
        "batched_m_tiles",
        _ptx(r"(%r\d+), %ctaid\.x;\s+(?:\.loc.*\s+)*shl\.b32\s+%r\d+, \1, 7"),
    ),
    _rung("longest_first", "one index of blocks, from the end", "l2_grid_order", _ptx(r"%ctaid\.y"), seen=False),
    _rung("staged_epilogue", "stores of 16 bytes a lane", "l2_grid_order", _sass(r"STG\.E\.128")),
    _rung("conditional_rescale", "a vote of the warp", "longest_first", _sass(r"\bVOTE\S*")),
    _rung(
        "general_shapes",
        "copies that fill what does not exist with zeros",
        "longest_first",
        _ptx(r"cp\.async\S* \[\S+\], \[\S+\], 16, %r\d+"),
    ),
    _rung(
        "lean_instructions", "a loop without masks beside the one with them", "general_shapes", _sass(r"\bHMMA", 200)
    ),
    _rung("tma_loads", "TMA loads", "exp2_softmax", _sass(r"UTMALDG\S*")),
    _rung("tma_swizzle", "ldmatrix addresses follow the swizzle", "tma_loads", _ptx(r"xor\.b32")),
    _rung("mbarrier_ring", "no barrier of the block in the loop", "tma_swizzle", _sass(r"BAR\.SYNC", 2), seen=False),
    _rung(
        "lean_mbarrier_ring",
        "no barrier of the block in the loop",
        "lean_instructions",
        _sass(r"BAR\.SYNC", 2),
        seen=False,
    ),
    _rung("lazy_rescale", "a vote of the warp", "lean_mbarrier_ring", _sass(r"\bVOTE\S*", 2)),
    _rung("setmaxnreg_consumers", "setmaxnreg on both sides", "lean_mbarrier_ring", _sass(r"USETMAXREG\S*")),
    _rung("softmax_lock", "barriers reached without waiting", "setmaxnreg_consumers", _sass(r"BAR\.ARV\S*")),
    _rung("scores_in_flight", "Q K^T before the loop and inside it", "setmaxnreg_consumers", _sass(r"\bHMMA", 200)),
    _rung("lazy_consumers", "a vote of the warp", "setmaxnreg_consumers", _sass(r"\bVOTE\S*", 3)),
    _rung("lazy_scores_in_flight", "a vote of the warp", "scores_in_flight", _sass(r"\bVOTE\S*", 3)),
    _rung("named_barriers", "barriers by number", "setmaxnreg_consumers", _sass(r"BAR\.ARV\S*"), True, "softmax_lock"),
    _rung("wgmma", "wgmma", "mbarrier_ring", _sass(r"\bHGMMA\S*")),
    _rung("producer_consumer", "setmaxnreg on both sides", "wgmma", _sass(r"USETMAXREG\S*")),
    _rung("warp_specialized", "288 threads: a producer warp beside eight", "mbarrier_ring", _ptx(r"\.maxntid 288")),
    _rung("exp_lock", "barriers reached without waiting", "producer_consumer", _sass(r"BAR\.ARV\S*")),
    _rung("pingpong", "barriers reached without waiting", "overlapped_softmax", _sass(r"BAR\.ARV\S*")),
    _rung("overlapped_softmax", "exponentials between two waits", "producer_consumer", IN_FLIGHT),
    _rung("held_overlap", "a wait behind a comparison of values", "overlapped_softmax", _ptx(r"setp\.lt\.f32")),
    _rung(
        "double_buffered_p",
        "P is converted before P V is awaited",
        "held_overlap",
        Detector(
            "ptx",
            r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
            order=r"wgmma\.wait_group\S+\s+\d|\bcvt(?=\.rn\.\S*bf16x2)",
        ),
    ),
    _rung(
        "cluster_multicast", "a load into both blocks", "pinned_maxima", _ptx(r"cp\.async\.bulk\.tensor\S*multicast")
    ),
    _rung("wide_tile", "products of 80 or 176 columns", "pingpong", _ptx(r"m64n(?:80|176)k16"), head_dim=128),
    _rung("pinned_maxima", "an arrival that depends on the maxima", "wide_tile", _ptx(r"setp\.nan\.f32")),
    _rung("persistent", "the next tile from a counter", "wide_tile", _ptx(r"atom\.\S*inc\S*")),
    _rung("own_diagonal", "buffers that are skipped are handed back", "persistent", _ptx(r"mbarrier\.arrive", 14)),
    _rung("head_by_head", "fewer divisions of a tile's number", "tma_store", _ptx(r"\bdiv\.[su]32", 6), seen=False),
    _rung("lazy_rescale_wgmma", "a vote of the warp", "persistent", _sass(r"\bVOTE\.\S*")),
    _rung(
        "early_rescale",
        "the vote stands between issuing Q K^T and P V",
        "lazy_rescale_wgmma",
        Detector("ptx", "commit_group vote", order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|vote(?=\.sync)"),
    ),
    _rung("integer_max", "maxima of three integers", "persistent", _sass(r"VIMNMX3\S*")),
    _rung(
        "fused_switch",
        "a third place with two products in flight: where one tile ends and the next begins",
        "persistent",
        replace(IN_FLIGHT, least=3),
    ),
    _rung("tma_store", "a TMA store", "persistent", _sass(r"UTMASTG\S*")),
    _rung("flagship", "a TMA store, maxima of three integers, a counter", "wgmma", _sass(r"UTMASTG\S*|VIMNMX3\S*")),
    _rung("mma_choice", "wgmma where it is written", "mbarrier_ring", _sass(r"\bHGMMA\S*"), True, "wgmma"),
    _rung(
        "role_branch", "a producer warp beside eight", "mbarrier_ring", _ptx(r"\.maxntid 288"), True, "warp_specialized"
    ),
    _rung(
        "wgmma_width", "products of 80 or 176 columns", "pingpong", _ptx(r"m64n(?:80|176)k16"), True, "wide_tile", 128
    ),
    _rung(
        "warp_specialized_sm120",
        "288 threads: a producer warp beside eight",
        "mbarrier_ring",
        _ptx(r"\.maxntid 288"),
        subject="warp_specialized",
        arch="sm_120a",
    ),
    _rung(
        "shared_memory_reuse",
        "Q lies where the second buffer of K comes",
        "batched_m_tiles",
        Detector("source", r"int q = k \+ KV_BYTES"),
        subject="asymmetric_kv_buffers",
    ),
    _rung(
        "blocks_per_sm",
        "at least two blocks",
        "lean_instructions",
        _ptx(r"\.minnctapersm 2"),
        True,
        "lean_mbarrier_ring",
    ),
    _rung(
        "clusters",
        "blocks wait for each other",
        "pinned_maxima",
        _ptx(r"barrier\.cluster\S*"),
        True,
        "cluster_multicast",
    ),
    _probe("l2_policy", "a policy of a load", CudaProbe("l2_policy"), "tma_loads", _ptx(r"createpolicy\S*")),
    _probe(
        "two_cta_mma",
        "a product of a pair of blocks",
        CudaProbe("two_cta_mma", "sm_100a"),
        "wgmma",
        _ptx(r"tcgen05\.mma\.cta_group::2\S*"),
    ),
    _rung("three_warpgroups", "512 threads: three groups multiply", "producer_consumer", _ptx(r"\.maxntid 512")),
)
