"""CUDA can express everything. Each proof compares a rung's kernel with one that lacks the technique."""

from dataclasses import replace

from harness.expressibility.claims import Claim, CudaProbe, Detector, by_pair
from harness.operators.attention.claims.twin import Twin, under_pv


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
    ours, theirs = (Twin(name, "cuda", arch=arch, head_dim=head_dim) for name in (subject or technique, control))
    return by_pair(technique, "cuda", says, ours, theirs, detector, seen=seen)


def by_probe(technique: str, says: str, probe: CudaProbe, control: str, detector: Detector) -> Claim:
    """The same for what no kernel of the ladders does: a probe beside the CUDA kernel of `control`."""
    return by_pair(technique, "cuda", says, probe, Twin(control, "cuda"), detector)


def _sass(pattern: str, least: int = 1) -> Detector:
    return Detector("sass", pattern, least)


def _ptx(pattern: str, least: int = 1) -> Detector:
    return Detector("ptx", pattern, least)


IN_FLIGHT = Detector(
    "ptx",
    r"WAIT1 (?:ex2 )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
    order=r"wgmma\.wait_group\S+\s+\d|\bex2(?=\.approx)",
)
"""The exponentials come between the wait for Q K^T and the wait for P V."""
OVERLAPPED = _rung(
    "overlapped_softmax",
    "In the PTX, the exponentials come between the wait for Q K^T and the wait for P V.",
    "producer_consumer",
    IN_FLIGHT,
)

CLAIMS = (
    _rung(
        "scalar", "The machine code has no tensor-core instruction.", "mma_ldmatrix", _sass(r"\bHMMA\S*"), seen=False
    ),
    _rung("vectorized_loads", "Each lane loads 16 bytes at once (LDG.E.128).", "scalar", _sass(r"\bLDG\.E\.128")),
    _rung("wmma", "The PTX has wmma.mma.", "mma_ldmatrix", _ptx(r"wmma\.mma\S*")),
    _rung("mma_ldmatrix", "ldmatrix reads the operands.", "wmma", _ptx(r"ldmatrix\.sync\S*")),
    _rung(
        "register_softmax",
        "Few stores to shared memory are left: the scores stay in registers.",
        "mma_ldmatrix",
        _sass(r"\bSTS\b", 30),
        seen=False,
    ),
    _rung(
        "direct_rescale",
        "The machine code has fewer multiplications than that of register_softmax.",
        "register_softmax",
        _sass(r"\bFMUL\b", 150),
        seen=False,
    ),
    _rung(
        "split_warp_pairs", "The kernel has barriers between pairs of warps.", "direct_rescale", _sass(r"BAR\.SYNC", 4)
    ),
    _rung("padded_rows", "Rows lie 144 bytes apart.", "direct_rescale", _ptx(r"\b144\b")),
    _rung("xor_swizzle", "The kernel computes addresses by XOR.", "direct_rescale", _ptx(r"xor\.b32")),
    _rung(
        "unswizzled_rows",
        "The kernel computes addresses without XOR.",
        "xor_swizzle",
        _ptx(r"xor\.b32"),
        False,
        "direct_rescale",
    ),
    _rung(
        "large_tile",
        "The machine code has more tensor-core instructions: an iteration covers more keys.",
        "xor_swizzle",
        _sass(r"\bHMMA", 100),
    ),
    _rung(
        "cp_async_pipeline", "cp.async copies K and V past the registers (LDGSTS).", "large_tile", _sass(r"LDGSTS\S*")
    ),
    _rung(
        "ldmatrix_x4",
        "ldmatrix loads four matrices at a time (.x4).",
        "cp_async_pipeline",
        _ptx(r"ldmatrix\S*\.x4", 60),
    ),
    _rung(
        "asymmetric_kv_buffers",
        "A wait leaves the newest copy in flight (cp.async.wait_group 1).",
        "cp_async_pipeline",
        _ptx(r"cp\.async\.wait_group\s+1"),
    ),
    _rung(
        "exp2_softmax",
        "The machine code has fewer multiplications: exp needs one more. With nvcc's option -fmad, which is on by "
        "default, a multiplication and a subtraction become one FFMA.",
        "ldmatrix_x4",
        _sass(r"\bFMUL\b", 150),
        seen=False,
    ),
    _rung(
        "batched_m_tiles",
        "The kernel needs fewer ldmatrix, because two row tiles of a warp share the fragments.",
        "exp2_softmax",
        _sass(r"\bLDSM", 60),
        seen=False,
    ),
    _rung(
        "fragment_double_buffer",
        "The next fragment is loaded before the first mma.sync.",
        "batched_m_tiles",
        Detector("ptx", "(?:ldmatrix ){4}mma", order=r"ldmatrix(?=\S*\.x4\.shared)|mma(?=\.sync)"),
    ),
    _rung(
        "l2_grid_order",
        "The fastest block index, times 128 rows, selects the query tile.",
        "batched_m_tiles",
        _ptx(r"(%r\d+), %ctaid\.x;\s+(?:\.loc.*\s+)*shl\.b32\s+%r\d+, \1, 7"),
    ),
    _rung(
        "longest_first",
        "The grid has one block index, which the kernel counts from the end.",
        "l2_grid_order",
        _ptx(r"%ctaid\.y"),
        seen=False,
    ),
    _rung("staged_epilogue", "Each lane stores 16 bytes at once (STG.E.128).", "l2_grid_order", _sass(r"STG\.E\.128")),
    _rung("conditional_rescale", "The warp votes whether to rescale (VOTE).", "longest_first", _sass(r"\bVOTE\S*")),
    _rung(
        "general_shapes",
        "The copies fill missing rows with zeros.",
        "longest_first",
        _ptx(r"cp\.async\S* \[\S+\], \[\S+\], 16, %r\d+"),
    ),
    _rung(
        "lean_instructions",
        "The kernel has a loop without masks beside the loop with masks.",
        "general_shapes",
        _sass(r"\bHMMA", 200),
    ),
    _rung("tma_loads", "The machine code has TMA loads (UTMALDG).", "exp2_softmax", _sass(r"UTMALDG\S*")),
    _rung("tma_swizzle", "The addresses of ldmatrix follow the swizzle (XOR).", "tma_loads", _ptx(r"xor\.b32")),
    _rung(
        "mbarrier_ring",
        "The main loop has no barrier of the whole block.",
        "tma_swizzle",
        _sass(r"BAR\.SYNC", 2),
        seen=False,
    ),
    _rung(
        "lean_mbarrier_ring",
        "The main loop has no barrier of the whole block.",
        "lean_instructions",
        _sass(r"BAR\.SYNC", 2),
        seen=False,
    ),
    _rung("lazy_rescale", "The warp votes whether to rescale (VOTE).", "lean_mbarrier_ring", _sass(r"\bVOTE\S*", 2)),
    _rung(
        "setmaxnreg_consumers",
        "The producer gives up registers and the consumers take them (USETMAXREG).",
        "lean_mbarrier_ring",
        _sass(r"USETMAXREG\S*"),
    ),
    _rung(
        "softmax_lock",
        "Warps arrive at a named barrier without waiting (BAR.ARV).",
        "setmaxnreg_consumers",
        _sass(r"BAR\.ARV\S*"),
    ),
    _rung(
        "scores_in_flight",
        "Q K^T is computed before the main loop and inside it.",
        "setmaxnreg_consumers",
        _sass(r"\bHMMA", 200),
    ),
    _rung(
        "lazy_consumers", "The warp votes whether to rescale (VOTE).", "setmaxnreg_consumers", _sass(r"\bVOTE\S*", 3)
    ),
    _rung(
        "lazy_scores_in_flight", "The warp votes whether to rescale (VOTE).", "scores_in_flight", _sass(r"\bVOTE\S*", 3)
    ),
    _rung(
        "named_barriers",
        "Warps arrive at a named barrier without waiting (BAR.ARV).",
        "setmaxnreg_consumers",
        _sass(r"BAR\.ARV\S*"),
        True,
        "softmax_lock",
    ),
    _rung("wgmma", "The machine code has wgmma (HGMMA).", "mbarrier_ring", _sass(r"\bHGMMA\S*")),
    _rung(
        "producer_consumer",
        "The producer gives up registers and the consumers take them (USETMAXREG).",
        "wgmma",
        _sass(r"USETMAXREG\S*"),
    ),
    _rung(
        "warp_specialized",
        "The block has 288 threads: eight consumer warps and a producer warp.",
        "mbarrier_ring",
        _ptx(r"\.maxntid 288"),
    ),
    _rung(
        "exp_lock",
        "Warps arrive at a named barrier without waiting (BAR.ARV).",
        "producer_consumer",
        _sass(r"BAR\.ARV\S*"),
    ),
    _rung(
        "pingpong",
        "Warps arrive at a named barrier without waiting (BAR.ARV).",
        "overlapped_softmax",
        _sass(r"BAR\.ARV\S*"),
    ),
    replace(
        OVERLAPPED,
        grade="hint",
        says="The source queues the next Q K^T with this P V and puts the softmax between the two waits. ptxas "
        "decides: at head_dim 64 every exponential of this kernel comes behind the second wait, in the flagship some "
        "come before it.",
        proofs=(*OVERLAPPED.proofs, *under_pv("cuda", "CUDA")),
    ),
    _rung("held_overlap", "A wait depends on a comparison of values.", "overlapped_softmax", _ptx(r"setp\.lt\.f32")),
    _rung(
        "double_buffered_p",
        "In the PTX, P is converted before the wait for P V.",
        "held_overlap",
        Detector(
            "ptx",
            r"WAIT1 (?:cvt )+WAIT0".replace("WAIT", r"wgmma\.wait_group\.sync\.aligned\s+"),
            order=r"wgmma\.wait_group\S+\s+\d|\bcvt(?=\.rn\.\S*bf16x2)",
        ),
    ),
    _rung(
        "cluster_multicast",
        "A TMA load writes into both blocks of the cluster.",
        "pinned_maxima",
        _ptx(r"cp\.async\.bulk\.tensor\S*multicast"),
    ),
    _rung(
        "wide_tile", "The PTX has wgmma with N = 80 or N = 176.", "pingpong", _ptx(r"m64n(?:80|176)k16"), head_dim=128
    ),
    _rung("pinned_maxima", "An arrival depends on the row maxima.", "wide_tile", _ptx(r"setp\.nan\.f32")),
    _rung("persistent", "The next tile comes from an atomic counter.", "wide_tile", _ptx(r"atom\.\S*inc\S*")),
    _rung(
        "own_diagonal",
        "The kernel has more arrivals at mbarriers: a consumer hands back the buffers that it skips.",
        "persistent",
        _ptx(r"mbarrier\.arrive", 14),
    ),
    _rung(
        "head_by_head",
        "The kernel divides the tile's number fewer times.",
        "tma_store",
        _ptx(r"\bdiv\.[su]32", 6),
        seen=False,
    ),
    _rung("lazy_rescale_wgmma", "The warp votes whether to rescale (VOTE).", "persistent", _sass(r"\bVOTE\.\S*")),
    _rung(
        "early_rescale",
        "The vote on the rescale comes between the issue of Q K^T and the issue of P V.",
        "lazy_rescale_wgmma",
        Detector("ptx", "commit_group vote", order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|vote(?=\.sync)"),
    ),
    replace(
        _rung(
            "integer_max",
            "__vimax3_s32 is two max in PTX. In every language here ptxas decides whether one instruction takes the "
            "maximum of three integers (VIMNMX3).",
            "persistent",
            _sass(r"VIMNMX3\S*"),
        ),
        grade="hint",
    ),
    _rung(
        "fused_switch",
        "The code has a third place with two products in flight: the end of a tile.",
        "persistent",
        replace(IN_FLIGHT, least=3),
    ),
    _rung("tma_store", "The machine code has a TMA store (UTMASTG).", "persistent", _sass(r"UTMASTG\S*")),
    _rung(
        "flagship",
        "The machine code has TMA stores (UTMASTG) and maxima of three integers (VIMNMX3).",
        "wgmma",
        _sass(r"UTMASTG\S*|VIMNMX3\S*"),
    ),
    _rung(
        "mma_choice",
        "The machine code has wgmma (HGMMA) where the source writes it.",
        "mbarrier_ring",
        _sass(r"\bHGMMA\S*"),
        True,
        "wgmma",
    ),
    _rung(
        "role_branch",
        "A producer warp runs beside eight consumer warps: the block has 288 threads.",
        "mbarrier_ring",
        _ptx(r"\.maxntid 288"),
        True,
        "warp_specialized",
    ),
    _rung(
        "wgmma_width",
        "The PTX has wgmma with N = 80 or N = 176.",
        "pingpong",
        _ptx(r"m64n(?:80|176)k16"),
        True,
        "wide_tile",
        128,
    ),
    _rung(
        "warp_specialized_sm120",
        "The block has 288 threads: eight consumer warps and a producer warp.",
        "mbarrier_ring",
        _ptx(r"\.maxntid 288"),
        subject="warp_specialized",
        arch="sm_120a",
    ),
    _rung(
        "shared_memory_reuse",
        "Q lies where the second buffer of K comes later.",
        "batched_m_tiles",
        Detector("source", r"int q = k \+ KV_BYTES"),
        subject="asymmetric_kv_buffers",
    ),
    _rung(
        "blocks_per_sm",
        "The kernel asks for at least two blocks per SM (.minnctapersm 2).",
        "lean_instructions",
        _ptx(r"\.minnctapersm 2"),
        True,
        "lean_mbarrier_ring",
    ),
    _rung(
        "clusters",
        "The blocks of a cluster wait for each other (barrier.cluster).",
        "pinned_maxima",
        _ptx(r"barrier\.cluster\S*"),
        True,
        "cluster_multicast",
    ),
    by_probe(
        "l2_policy",
        "A load has an L2 eviction policy (createpolicy).",
        CudaProbe("l2_policy"),
        "tma_loads",
        _ptx(r"createpolicy\S*"),
    ),
    by_probe(
        "two_cta_mma",
        "The PTX has tcgen05.mma for a pair of blocks (cta_group::2).",
        CudaProbe("two_cta_mma", "sm_100a"),
        "wgmma",
        _ptx(r"tcgen05\.mma\.cta_group::2\S*"),
    ),
    _rung(
        "three_warpgroups",
        "The block has 512 threads: three warpgroups multiply.",
        "producer_consumer",
        _ptx(r"\.maxntid 512"),
    ),
)
