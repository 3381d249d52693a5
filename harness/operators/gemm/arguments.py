"""What a launch of a matrix product takes: tensors, and for CUDA the compile-time constants and the structure of
gemm.cuh. Without torch."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.catalog.entries import Tile
from harness.operators.gemm.problem import Problem
from harness.operators.protocol import Scalars, Tensors, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

GUARD_ROWS = 256
"""Rows of a guard band: more than the tallest tile, so that a tile that begins inside the tensor ends in the band."""
PAD = {"a": 16, "b": 32, "c": 48}
"""Guard elements after every row of a padded arena, or column where that is contiguous: no two matrices have the same
stride, so that a kernel that takes one's for another's is found out."""
PAD_ROWS = 3
"""Guard rows behind the B of every group of a padded arena."""
BLOCK_K = 64
"""Elements of k in a step of the main loop, where the tile says no other `block_k`."""


def input_specs(problem: Problem) -> dict[str, TensorSpec]:
    """a (m, k), b (n, k), stored as the problem says, and with an epilogue bias (n,). With groups b is (groups, n, k),
    and offsets (groups,) says behind which row each ends."""
    p = problem
    if p.groups > 1:
        b = TensorSpec((p.groups, p.n, p.k), p.dtype, GUARD_ROWS * (p.k + PAD["b"]), pad=(0, PAD_ROWS, PAD["b"]))
        offsets = TensorSpec((p.groups,), "int32", GUARD_ROWS)
        return {"a": _matrix("a", p.m, p.k, p.dtype), "b": b, "offsets": offsets}
    bias = {} if p.epilogue == "plain" else {"bias": TensorSpec((p.n,), p.dtype, GUARD_ROWS)}
    a, b = _matrix("a", p.m, p.k, p.dtype), _matrix("b", p.n, p.k, p.dtype)
    return {
        "a": _by_columns("a", a) if p.contiguous[0] == "m" else a,
        "b": _by_columns("b", b) if p.contiguous[1] == "n" else b,
        **bias,
    }


def output_specs(problem: Problem) -> dict[str, TensorSpec]:
    """c (m, n)."""
    return {"c": _matrix("c", problem.m, problem.n, problem.c_dtype)}


def _matrix(name: str, rows: int, columns: int, dtype: str) -> TensorSpec:
    return TensorSpec((rows, columns), dtype, GUARD_ROWS * (columns + PAD[name]), pad=(0, PAD[name]))


def _by_columns(name: str, spec: TensorSpec) -> TensorSpec:
    """The same matrix with its columns contiguous."""
    rows, _ = spec.shape
    return replace(spec, guard=GUARD_ROWS * (rows + PAD[name]), order=(1, 0), pad=(PAD[name], 0))


def scalars(problem: Problem) -> dict[str, Any]:
    return {"epilogue": problem.epilogue}


def block_k(tile: Tile) -> int:
    return dict(tile.extra).get("block_k", BLOCK_K)


def defines(problem: Problem, tile: Tile, *, constant_strides: bool = False) -> dict[str, int]:
    return {
        f"GEMM_{problem.dtype.upper()}": 1,
        "GEMM_OUT_FP32": int(problem.out == "fp32"),
        "GEMM_BIAS": int(problem.epilogue != "plain"),
        "GEMM_GELU": int(problem.epilogue == "gelu"),
        "GEMM_BLOCK_K": BLOCK_K,
        **{f"GEMM_{dim.upper()}_CONTIGUOUS": 1 for dim in problem.contiguous.replace("k", "")},
        **tile.defines("GEMM"),
    }


SIZES = ("m", "n", "k")


class GemmArgs(ctypes.Structure):
    """cuda_kernels/gemm/gemm.cuh, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("a", "b", "bias", "c", "workspace")),
        *((f"{name}_stride", ctypes.c_int64) for name in "abc"),
        *((name, ctypes.c_int32) for name in SIZES),
    ]


class GroupedArgs(GemmArgs):
    """cuda_kernels/gemm/groups.cuh, field by field. Kernels that know no groups read what comes before."""

    _fields_ = [("offsets", ctypes.c_void_p), ("b_group_stride", ctypes.c_int64), ("groups", ctypes.c_int32)]


def structure(tensors: Tensors, scalars: Scalars, workspace: Tensor | None) -> GroupedArgs:
    """The arguments of a launch on these tensors; they hold no reference to them."""
    a, b, c = (tensors[name] for name in "abc")
    bias, offsets = tensors.get("bias"), tensors.get("offsets")
    strides = max(a.stride()), max(b.stride()[-2:]), c.stride()[0]  # of the dimension that is not contiguous
    lengths = a.shape[0], b.shape[-2], a.shape[1]
    groups = (b.stride()[0], b.shape[0]) if offsets is not None else (b.shape[0] * b.stride()[0], 1)
    return GroupedArgs(
        *(tensor.data_ptr() if tensor is not None else None for tensor in (a, b, bias, c, workspace)),
        *(*strides, *lengths),
        *(offsets.data_ptr() if offsets is not None else None, *groups),
    )


def sizes(problem: Problem) -> GemmArgs:
    return GemmArgs(**{name: getattr(problem, name) for name in SIZES})
