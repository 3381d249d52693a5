"""What a launch of attention's backward pass takes: tensors and how they lie in memory, numbers, scratch memory, and
for CUDA the compile-time constants and the structure of attention_backward.cuh. Without torch."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from harness.catalog.entries import Tile
from harness.operators.attention import arguments as forward
from harness.operators.attention.arguments import GUARD_ROWS, SIZES, Strides, scalars, shapes, spec, strides_of
from harness.operators.attention_backward.problem import Problem
from harness.operators.protocol import Scalars, Tensors, TensorSpec

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["defines", "input_specs", "output_specs", "scalars", "sizes", "structure"]

PAD = {**forward.PAD, "do": 80, "dq": 96, "dk": 112, "dv": 128}
"""Guard rows after every sequence and guard columns after every row of a padded arena: no two tensors have the same
strides, so that a kernel that takes one's for another's is found out."""
OF_QUERIES = ("q", "o", "do", "dq")
"""Tensors of the shape of q; the others have that of k."""
LARGEST_TILE = 128
"""Query rows of the tallest tile: the scratch memory of a head has room for a whole one at its end."""


def input_specs(problem: Problem) -> dict[str, TensorSpec]:
    """q, k, v, o and do in the problem's layout and dtype, and lse, fp32 (batch, heads, seq_q) contiguous."""
    lse = TensorSpec(shapes(problem)["q"][:3], "fp32", GUARD_ROWS * problem.heads)
    return {**{name: _spec(problem, name) for name in ("q", "k", "v", "o", "do")}, "lse": lse}


def output_specs(problem: Problem) -> dict[str, TensorSpec]:
    return {name: _spec(problem, name) for name in ("dq", "dk", "dv")}


def _spec(problem: Problem, name: str) -> TensorSpec:
    return spec(problem, shapes(problem)["q" if name in OF_QUERIES else "k"], PAD[name])


def scratch_rows(problem: Problem) -> int:
    """Rows that each head has in the scratch memory: a multiple of LARGEST_TILE, and a tile of up to so many queries
    that begins in the last row ends in it."""
    return (-(-problem.seq_q // LARGEST_TILE) + 1) * LARGEST_TILE


def scratch_bytes(problem: Problem) -> int:
    """Bytes of the fp32 sums of dq (batch, heads, scratch_rows, head_dim), and then of D and LSE in base 2, both fp32
    (batch, heads, scratch_rows)."""
    return 4 * problem.batch * problem.heads * scratch_rows(problem) * (problem.head_dim + 2)


def defines(problem: Problem, tile: Tile, *, constant_strides: bool = False) -> dict[str, int]:
    return forward.constants("ATTENTION_BACKWARD", problem, tile)


POINTERS = ("q", "k", "v", "o", "do", "lse", "dq", "dk", "dv")
SCRATCH = ("dq_sums", "dots", "lse_log2")


class AttentionBackwardArgs(ctypes.Structure):
    """cuda_kernels/attention_backward/attention_backward.cuh, field by field; its d_o is do here."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (*POINTERS, *SCRATCH, "workspace")),
        *((f"{name}_stride", Strides) for name in POINTERS if name != "lse"),
        *((name, ctypes.c_int32) for name in (*SIZES, "scratch_rows")),
        ("scale", ctypes.c_float),
    ]


def structure(tensors: Tensors, scalars: Scalars, workspace: Tensor | None) -> AttentionBackwardArgs:
    """The arguments of a launch on these tensors; they hold no reference to them. `workspace` begins with
    `scratch_bytes`."""
    assert workspace is not None, "every kernel has scratch memory"
    q, k = tensors["q"], tensors["k"]
    problem = Problem(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3])
    begin, rows = workspace.data_ptr(), 4 * problem.batch * problem.heads * scratch_rows(problem)
    dots = begin + rows * problem.head_dim
    return AttentionBackwardArgs(
        *(tensors[name].data_ptr() for name in POINTERS),
        *(begin, dots, dots + rows, begin + scratch_bytes(problem)),
        *(strides_of(tensors[name]) for name in POINTERS if name != "lse"),
        *(getattr(problem, name) for name in SIZES),
        scratch_rows(problem),
        scalars["scale"],
    )


def sizes(problem: Problem) -> AttentionBackwardArgs:
    return AttentionBackwardArgs(**{name: getattr(problem, name) for name in SIZES}, scratch_rows=scratch_rows(problem))
