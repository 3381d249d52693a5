"""What libraries, ratios and problems are called on pages."""

from harness.operators.gemm.problem import Problem

THEMES = {
    "Tensor cores": {
        "scalar": "Scalar FMA",
        "block_tiled": "Tiles in shared memory",
        "register_tiled": "8 x 8 elements a thread",
        "vectorized_loads": "16-byte loads",
        "mma_ldmatrix": "mma.sync and ldmatrix",
        "wgmma": "wgmma",
        "small_m": "Operands change places",
    },
    "Shared memory": {
        "xor_swizzle": "XOR swizzle",
        "tma_swizzle": "TMA, 128-byte swizzle",
        "either_major": "m or n contiguous",
        "tma_store_epilogue": "Output by TMA, overlapped",
        "pingpong_store": "Ping-pong, output by TMA",
    },
    "Copies and barriers": {
        "cp_async_pipeline": "Asynchronous copies",
        "mbarrier_ring": "Ring of mbarriers",
        "cluster_multicast": "Cluster multicast",
        "evict_first": "L2 evicts B first",
        "evict_c_first": "L2 evicts C first",
        "split_k": "Split-K: parts of k",
    },
    "Who works when": {
        "l2_grid_order": "Grid order for L2",
        "producer_consumer": "Producer warpgroup",
        "two_consumers": "Two consumer warpgroups",
        "persistent": "One block per SM",
        "pingpong": "Ping-pong",
        "tile_192": "Tile of 128 x 192",
        "columns_320": "Tile of 128 x 320",
        "stream_k": "Stream-K: steps of the last tiles shared",
        "square_waves": "Waves that cover a square",
        "hilbert_order": "Tiles along a Hilbert curve",
        "trailing_store": "C stored in the next tile",
        "overlapped_index": "Places found under products",
        "grouped": "Groups of rows",
    },
    "The whole kernel": {"flagship": "Flagship"},
}

LABELS = {
    "cublas": "cuBLAS",
    "cublaslt": "cuBLASLt, tuned",
    "inductor": "Inductor’s Triton templates",
    "deep_gemm": "DeepGEMM",
    "quack": "quack",
    "torch_grouped": "torch._grouped_mm",
    "torch_mm": "torch.mm",
    "gemm": "the flagship of matrix products",
    "gemm_triton": "matrix products in core Triton",
    "gemm_gluon": "matrix products in Gluon",
    "grouped": "products of groups in CUDA",
    "grouped_triton": "products of groups in core Triton",
    "grouped_gluon": "products of groups in Gluon",
    "best_peer": "the faster of torch._grouped_mm and torch.mm for each group",
    "cublas_sustained": "cuBLAS, sustained",
}


def problem_title(problem: Problem) -> str:
    """A square by its size, others by all three; what is special behind it."""
    square = problem.m == problem.n == problem.k
    sizes = f"{problem.m} cubed" if square else f"{problem.m} x {problem.n} x {problem.k}"
    epilogue = {"plain": "", "bias": ", bias", "gelu": ", bias and GELU"}[problem.epilogue]
    out = ", fp32 output" if problem.out == "fp32" else ""
    groups = f", {problem.groups} groups" if problem.groups > 1 else ""
    contiguous = "".join(
        f", {dim} contiguous in {matrix}" for dim, matrix in zip(problem.contiguous, "AB", strict=True) if dim != "k"
    )
    return f"{sizes}  ({problem.dtype}{epilogue}{out}{groups}{contiguous})"


def problem_order(problem: Problem) -> tuple[bool, int, int, int, str]:
    """Squares first, the largest of them first; then by rows."""
    square = problem.m == problem.n == problem.k
    return not square, -problem.m if square else problem.m, problem.n, problem.k, problem.slug
