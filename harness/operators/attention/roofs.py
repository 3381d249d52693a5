"""Limits of a multiprocessor that attention meets: the kernels of cuda_kernels/attention/hopper/roofs, which measure
them. Plain data, standard library only."""

from dataclasses import replace
from typing import Any

from harness.catalog.roofs import MATMUL, WARPGROUP, Roof

FOLDER = "attention/hopper/roofs"
"""Where the kernels lie, below cuda_kernels/. They are no rungs: they have no Triton twin and are in no ladder."""
ROWS, KEYS = 64, 128
"""A unit of attention: the queries of a warpgroup's step and the keys that it meets."""
SATURATING = {"HGMMA": 32, "MUFU.EX2": 0}
"""The loop of a warpgroup that keeps the tensor cores busy beside others (attention/roofs.cuh: saturate)."""
SATURATING_COLUMNS = 128
PRODUCT_GROUPS = VECTOR_GROUPS = 2
"""Warpgroups of a block that multiply, or that compute otherwise, where nothing else is said: two warps for each
scheduler."""


def _roof(*fields: Any, **more: Any) -> Roof:
    return replace(Roof(*fields, **more), folder=FOLDER)


def unit_flop(head_dim: int) -> int:
    return 4 * ROWS * KEYS * head_dim


def products(head_dim: int) -> Roof:
    return _roof(
        f"products_d{head_dim}",
        "units",
        head_dim,
        PRODUCT_GROUPS,
        flop=unit_flop(head_dim),
        constants={"HEAD_DIM": head_dim},
        loops=({"HGMMA": head_dim // 16 + KEYS // 16, "WARPGROUP.DEPBAR": 1},),
    )


def mma_sync() -> Roof:
    """Warps multiply fragments in their registers, 16 x 8 x 16 each time."""
    operations, warps = 64, 4
    return _roof(
        "mma_sync",
        "mma_sync",
        None,
        PRODUCT_GROUPS,
        flop=operations * warps * 2 * 16 * 8 * 16,
        constants={"OPERATIONS": operations},
        loops=({"HMMA": operations},),
    )


def vector(
    kernel: str,
    work: str,
    operations: int,
    instructions: dict[str, int],
    beside: int | None = None,
    groups: int = VECTOR_GROUPS,
) -> Roof:
    """`operations` of one kind a step and lane, by `groups` warps of each scheduler; `beside`: columns of the products
    that run at the same time."""
    constants = {"COLUMNS": beside or SATURATING_COLUMNS, "OPERATIONS": operations}
    name = kernel if groups == VECTOR_GROUPS else f"{kernel}_{groups}"
    return _roof(
        name + (f"_beside_n{beside}" if beside else ""),
        kernel,
        None,
        1 if beside else 0,
        groups,
        _saturating_flop(beside) if beside else 0,
        work,
        operations * WARPGROUP,
        constants,
        (instructions, *([SATURATING] if beside else [])),
    )


def softmax(head_dim: int, groups: int, *, beside: bool = False) -> Roof:
    return _roof(
        f"softmax_d{head_dim}_{groups}{'_beside' if beside else ''}",
        "softmax",
        head_dim,
        1 if beside else 0,
        groups,
        _saturating_flop(SATURATING_COLUMNS) if beside else 0,
        "units",
        1,
        {"COLUMNS": SATURATING_COLUMNS, "HEAD_DIM": head_dim, "EXPONENTIALS": 1, "POLYNOMIAL": 0},
        (
            {
                "MUFU.EX2": KEYS // 2 + 2,
                "F2FP": KEYS // 4,
                "FMNMX": KEYS // 2 + 4,
                "SHFL": 4,
                "FADD": KEYS // 2,
                "FFMA": KEYS // 2 + 2,
                "FMUL": head_dim // 2 + 2,
            },
            *([SATURATING] if beside else []),
        ),
    )


def exponentials(beside: int | None = None) -> Roof:
    return vector("exponentials", "exponentials", 256, {"MUFU.EX2": 256}, beside)


def polynomials(beside: int | None = None) -> Roof:
    instructions = {"FFMA": 3 * 64, "FADD": 3 * 64, "FMNMX": 64, "MUFU.EX2": 0}
    return vector("polynomials", "exponentials", 64, instructions, beside)


def additions(beside: int | None = None, groups: int = VECTOR_GROUPS) -> Roof:
    return vector("additions", "instructions", 512, {"FADD": 512}, beside, groups)


def waiting_additions(beside: int | None = None) -> Roof:
    """The one warp of a scheduler waits after every step, which leaves slots to others."""
    return vector("waiting_additions", "instructions", 512, {"FADD": 512}, beside, groups=1)


def multiply_adds(beside: int | None = None, groups: int = VECTOR_GROUPS) -> Roof:
    return vector("multiply_adds", "instructions", 512, {"FFMA": 512}, beside, groups)


def maxima(beside: int | None = None) -> Roof:
    return vector("maxima", "instructions", 512, {"FMNMX": 512}, beside)


def loop(head_dim: int, groups: int, polynomial: int | None = 0) -> Roof:
    """`polynomial` of each eight exponentials are on the FMA pipe; None leaves all exponentials out."""
    by_mufu = 0 if polynomial is None else KEYS // 2 * (8 - polynomial) // 8 + 2
    which = "_no_exponentials" if polynomial is None else f"_polynomial_{polynomial}" if polynomial else ""
    return _roof(
        f"loop_d{head_dim}{which}",
        "loop",
        head_dim,
        groups,
        flop=unit_flop(head_dim),
        constants={"HEAD_DIM": head_dim, "EXPONENTIALS": int(polynomial is not None), "POLYNOMIAL": polynomial or 0},
        loops=({"HGMMA": head_dim // 16 + KEYS // 16, "MUFU.EX2": by_mufu, "F2FP": KEYS // 4},),
    )


def matmul() -> Roof:
    """cuBLAS: torch.matmul of MATMUL_SIZE cubed."""
    return Roof(MATMUL)


def _saturating_flop(columns: int) -> int:
    """FLOP of a step of `saturate`: products of 64 rows, 16 deep."""
    return SATURATING["HGMMA"] * 2 * ROWS * columns * 16
