"""Softmax over rows: a program has BLOCK_M whole rows, so that the compiler needs no second pass."""

import re

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

from triton_kernels.attention.specialization import Specialization


@triton.jit
def online(x_ptr, y_ptr, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_N)
    place = row[:, None] * columns + column[None, :]
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_ptr + place, inside, other=float("-inf"))
    p = tl.exp(x - tl.maximum(tl.max(x, 1), -3.0e38)[:, None])
    tl.store(y_ptr + place, p / tl.maximum(tl.sum(p, 1), 1e-30)[:, None], inside)


def arguments(x, y, tile):
    rows, columns = x.shape
    blocks = {"BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n}
    return {"x_ptr": x, "y_ptr": y, "rows": rows, "columns": columns, **blocks}, (-(-rows // tile.block_m), 1, 1)


def launch(x, y, *, tile, workspace=None):
    values, grid = arguments(x, y, tile)
    return online[grid](**values, num_warps=tile.warps)


def specialize(problem, strides, tile, arch):
    target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32)
    backend = make_backend(target)
    x, y = (torch.empty(problem.rows, problem.columns, device="meta") for _ in "xy")
    values, grid = arguments(x, y, tile)
    bind = create_function_from_signature(online.signature, online.params, backend)
    bound, kinds, extra = bind(**values, num_warps=tile.warps, debug=False)
    options, signature, constexprs, attrs = online._pack_args(backend, extra, bound, kinds, extra)
    return Specialization(online, signature, constexprs, attrs, options, grid, target)


def workspace_bytes(problem):
    return 0
