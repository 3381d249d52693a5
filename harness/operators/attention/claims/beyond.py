"""What no rung is about: atomic operations, print, and what only sm_100 and sm_120 have."""

from harness.expressibility.claims import CudaProbe, Detector, Proof, by_pair, forms, in_gluon, in_triton
from harness.operators.attention.claims.cuda import by_probe
from harness.operators.attention.claims.twin import twins

RELEASED = Detector("ptx", r"\b(?:atom|red)\.\S*release\S*|\batom\.\S*acquire\S*cas\S*", least=2)
PRINTED = Detector("ptx", r"\bvprintf\b")
ADDED = Detector("ptx", r"cp\.reduce\.async\.bulk\S*")
GATHERED = Detector("ptx", r"cp\.async\.bulk\.tensor\S*gather4\S*")
SCALED = Detector("ptx", r"\b\S*mma\.\S*block_scale\S*")
TWELVE = Detector("facts", r"warps 12")
BY_CALL = "A call stores a tile and adds it to what is in global memory."
BY_INDEX = "A load by a descriptor takes a tensor of row indices."
WITH_SCALES = "A product takes the scales of both operands. Below sm_100 there is no such instruction"


def _scaled(arch: int) -> Proof:
    return Proof(
        f"scaled sm_{arch}",
        f"On sm_{arch} the instruction takes the scales (block_scale).",
        *forms("scaled", f"{arch} scaled", "120 plain"),
        SCALED,
    )


CLAIMS = (
    in_triton(
        "semaphores",
        "direct",
        "Atomic operations take an order and a scope, and a loop waits for a flag.",
        Proof(
            "semaphore",
            "One operation releases and another acquires.",
            *forms("words", "semaphore", "plain"),
            RELEASED,
        ),
        word=r'sem="release"',
    ),
    in_gluon(
        "semaphores",
        "direct",
        "Atomic operations take an order and a scope, and a loop waits for a flag.",
        Proof(
            "semaphore in Gluon",
            "One operation releases and another acquires.",
            *forms("atomics_gluon", "semaphore", "plain"),
            RELEASED,
        ),
        word=r'sem="release"',
    ),
    by_probe(
        "semaphores",
        "One operation releases and another acquires.",
        CudaProbe("semaphore"),
        "tma_loads",
        RELEASED,
    ),
    in_triton(
        "device_print",
        "direct",
        "A call prints a tensor, element by element.",
        Proof(
            "print",
            "The PTX calls vprintf.",
            *forms("words", "print", "plain"),
            PRINTED,
        ),
        word="device_print",
    ),
    in_gluon(
        "device_print",
        "direct",
        "A call prints a tensor, element by element.",
        Proof(
            "print in Gluon",
            "The PTX calls vprintf.",
            *forms("atomics_gluon", "print", "plain"),
            PRINTED,
        ),
        word="device_print",
    ),
    by_probe("device_print", "The PTX calls vprintf.", CudaProbe("print"), "tma_loads", PRINTED),
    in_triton(
        "tma_reduce",
        "direct",
        BY_CALL,
        Proof(
            "epilogue tma_reduce",
            "The TMA store adds (cp.reduce).",
            *forms("epilogue", "tma_reduce", "descriptor"),
            ADDED,
        ),
        word=r"\.atomic_add\(\[",
    ),
    in_gluon(
        "tma_reduce",
        "hatch",
        "There is no call for it. Inline PTX can issue one from shared memory that it declares: it cannot name the "
        "kernel's buffers.",
        Proof(
            "reduce_gluon asm",
            "The PTX has a bulk copy that adds (cp.reduce).",
            *forms("reduce_gluon", "asm", "store"),
            ADDED,
        ),
        Proof(
            "reduce_gluon refused",
            "The module has no async_atomic_add.",
            *forms("reduce_gluon", "reduce", "store"),
            Detector("words", r"has no attribute 'async_atomic_add'"),
        ),
        versions=("3.6.0", "3.7.1"),
        word="inline_asm_elementwise",
    ),
    in_gluon(
        "tma_reduce",
        "direct",
        BY_CALL,
        Proof(
            "reduce_gluon",
            "The TMA store adds (cp.reduce).",
            *forms("reduce_gluon", "reduce", "store"),
            ADDED,
        ),
        versions=("3.8.0", "3.9.0"),
        word="async_atomic_add",
    ),
    by_probe("tma_reduce", "The TMA store adds (cp.reduce).", CudaProbe("tma_reduce"), "tma_store", ADDED),
    in_triton(
        "gathered_rows",
        "direct",
        f"{BY_INDEX} sm_90 has no such instruction.",
        Proof(
            "gather",
            "One TMA load takes four rows (gather4).",
            *forms("gather", "100 gather", "100 load"),
            GATHERED,
        ),
        Proof(
            "gather sm_90",
            "For sm_90, ptxas refuses the instruction.",
            *forms("gather", "90 gather", "100 gather"),
            Detector("words", r"gather4 .* requires \.target sm_100"),
        ),
        word=r"\.gather\(",
    ),
    in_gluon(
        "gathered_rows",
        "direct",
        BY_INDEX,
        Proof(
            "gather in Gluon",
            "One TMA load takes four rows (gather4).",
            *forms("gather_gluon", "gather", "load"),
            GATHERED,
        ),
        word="async_gather",
    ),
    by_probe(
        "gathered_rows",
        "One TMA load takes four rows (gather4).",
        CudaProbe("gather", "sm_100a"),
        "tma_loads",
        GATHERED,
    ),
    in_triton(
        "block_scaled_mma",
        "direct",
        f"{WITH_SCALES}: the compiler scales the operands before a product in bf16.",
        _scaled(120),
        _scaled(100),
        Proof(
            "scaled sm_90",
            "On sm_90 the product is a wgmma of bf16.",
            *forms("scaled", "90 scaled", "100 scaled"),
            Detector("ptx", r"wgmma\S*\.bf16\.bf16"),
            obtained=False,
        ),
        word="dot_scaled",
    ),
    in_gluon(
        "block_scaled_mma",
        "direct",
        f"{WITH_SCALES}, and no call.",
        Proof(
            "scaled in Gluon",
            "On sm_100 the instruction takes the scales (block_scale).",
            *forms("scaled_gluon", "scaled", "plain"),
            SCALED,
        ),
        word="tcgen05_mma_scaled",
    ),
    by_probe(
        "block_scaled_mma",
        "On sm_120 the instruction takes the scales (block_scale).",
        CudaProbe("block_scaled", "sm_120a"),
        "wgmma",
        SCALED,
    ),
    in_triton(
        "warp_specialized_sm100",
        "hint",
        "The compiler obeys warp_specialize=True on sm_100 too, with descriptors from the host.",
        Proof(
            "warp_specialize sm_100",
            "num_warps=4 launches 12 warps.",
            *forms("warp_specialize", "100 host", "100 host off"),
            TWELVE,
        ),
        word="warp_specialize=",
    ),
    in_gluon(
        "warp_specialized_sm100",
        "direct",
        "gl.warp_specialize takes functions on sm_100 too; one of them issues tcgen05.mma.",
        Proof(
            "roles_sm100_gluon",
            "Four warps wait, one loads, one multiplies and two are idle: eight warps are launched.",
            *forms("roles_sm100_gluon", "roles", "no roles"),
            Detector("facts", r"warps 8"),
        ),
        word=r"gl\.warp_specialize",
    ),
    by_pair(
        "warp_specialized_sm100",
        "cuda",
        "The block has 288 threads: eight consumer warps and a producer warp.",
        *twins("cuda", "warp_specialized", "mbarrier_ring", arch="sm_100a"),
        Detector("ptx", r"\.maxntid 288"),
    ),
)
