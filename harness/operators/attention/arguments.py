"""What a launch of attention takes: tensors and how they lie in memory, numbers, and for CUDA the compile-time
constants and the structure of attention.cuh. Without torch."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.operators.protocol import Scalars, Tensors, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor


Shape = tuple[int, int, int, int]

GUARD_ROWS = 256
"""Rows of a guard band: more than the tallest tile, so that a tile that begins inside the tensor ends in the band."""
PAD = {"q": 16, "k": 32, "v": 48, "o": 64}
"""Guard rows after every sequence and guard columns after every row of a padded arena: no two have the same strides, so
that a kernel that takes one tensor's for another's is found out."""


def shapes(problem: Problem) -> dict[str, Shape]:
    """The logical shape of q, k and v, whatever their layout."""
    kv = (problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)
    return {"q": (problem.batch, problem.heads, problem.seq_q, problem.head_dim), "k": kv, "v": kv}


def input_specs(problem: Problem) -> dict[str, TensorSpec]:
    return {name: spec(problem, shape, PAD[name]) for name, shape in shapes(problem).items()}


def output_specs(problem: Problem) -> dict[str, TensorSpec]:
    """o, in the problem's layout and dtype, and lse, fp32 (batch, heads, seq_q) contiguous."""
    shape = shapes(problem)["q"]
    lse = TensorSpec(shape[:3], "fp32", GUARD_ROWS * problem.heads, optional=True)
    return {"o": spec(problem, shape, PAD["o"]), "lse": lse}


def spec(problem: Problem, shape: Shape, pad: int) -> TensorSpec:
    """A 16-bit tensor in the problem's layout, with so many guard rows and columns."""
    order = (0, 2, 1, 3) if problem.layout == "bshd" else (0, 1, 2, 3)
    return TensorSpec(shape, problem.dtype, GUARD_ROWS * shape[1] * (shape[3] + pad), order, (0, 0, pad, pad))


def scalars(problem: Problem) -> dict[str, Any]:
    return {"scale": problem.scale, "causal": problem.causal}


def defines(problem: Problem, tile: Tile, *, constant_strides: bool = False) -> dict[str, int]:
    """The compile-time constants of a CUDA kernel (attention.cuh). With `constant_strides` the row strides of packed
    tensors are among them."""
    found = constants("ATTENTION", problem, tile)
    if constant_strides:
        found |= zip(("ATTENTION_Q_ROW_STRIDE", "ATTENTION_KV_ROW_STRIDE"), _row_strides(problem), strict=True)
    return found


def constants(prefix: str, problem: Problem, tile: Tile) -> dict[str, int]:
    """Those that do not depend on strides, in the names of either pass."""
    return {
        f"{prefix}_{problem.dtype.upper()}": 1,
        f"{prefix}_HEAD_DIM": problem.head_dim,
        f"{prefix}_CAUSAL": int(problem.causal),
        **tile.defines(prefix),
    }


def has_packed_strides(problem: Problem, tensors: Tensors) -> bool:
    """Whether rows of q, k, v and o are as far apart as in packed tensors."""
    q, kv = _row_strides(problem)
    expected = {"q": q, "k": kv, "v": kv, "o": q}
    return all(tensors[name].shape[2] == 1 or tensors[name].stride(2) == rows for name, rows in expected.items())


def _row_strides(problem: Problem) -> tuple[int, int]:
    """Elements between rows of q and o, and of k and v, when the tensors are packed."""
    q, kv = (problem.heads, problem.seq_q), (problem.heads_kv, problem.seq_kv)
    return problem.packed_strides(*q)[2], problem.packed_strides(*kv)[2]


class Strides(ctypes.Structure):
    """Elements between batches, heads and rows."""

    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "seq")]


SIZES = ("batch", "heads", "heads_kv", "seq_q", "seq_kv")


class AttentionArgs(ctypes.Structure):
    """cuda_kernels/attention/attention.cuh, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "workspace")),
        *((f"{name}_stride", Strides) for name in "qkvo"),
        *((name, ctypes.c_int32) for name in SIZES),
        ("scale", ctypes.c_float),
    ]


def strides_of(tensor: Tensor) -> Strides:
    """Strides in elements; a dimension of size 1 gets 0, so that storage orders do not differ by it."""
    dims = zip(tensor.shape[:3], tensor.stride()[:3], strict=True)
    return Strides(*(step if size > 1 else 0 for size, step in dims))


def structure(tensors: Tensors, scalars: Scalars, workspace: Tensor | None) -> AttentionArgs:
    """The arguments of a launch on these tensors; they hold no reference to them."""
    q, k, v, o, lse = (tensors[name] for name in ("q", "k", "v", "o", "lse"))
    return AttentionArgs(
        *(tensor.data_ptr() for tensor in (q, k, v, o, lse)),
        workspace.data_ptr() if workspace is not None else None,
        *(strides_of(tensor) for tensor in (q, k, v, o)),
        *(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2]),
        scalars["scale"],
    )


def sizes(problem: Problem) -> AttentionArgs:
    return AttentionArgs(**{name: getattr(problem, name) for name in SIZES})
