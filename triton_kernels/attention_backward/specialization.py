"""From (problem, tile) to the exact arguments, specialization and options of a Triton kernel of attention's backward
pass.

A kernel file ends in `twin = Twin(kernel, options)`. `Twin.launch` runs up to three kernels through Triton's ordinary
JIT call: `row_sums`, the file's own, and what makes dQ. `Twin.specialize` says what the call of the file's own kernel
specializes on, without a GPU, by running Triton's binder on meta tensors; its result compiles ahead of time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel, make_backend
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder
from triton.runtime.jit import JITFunction, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_kernels.attention.specialization import DTYPES, Specialization, options, packed_strides
from triton_kernels.attention_backward.row_sums import convert_dq, row_sums

ROWS = 32
"""Of a program of the kernels before and after the main one; divides scratch_rows."""
LARGEST_TILE = 128
"""As in harness/operators/attention_backward/arguments.py: a head's scratch rows are a multiple of it, and a tile of so
many queries that begins in the last row ends in them."""
OF_QUERIES, OF_KEYS = ("q", "o", "do", "dq"), ("k", "v", "dk", "dv")
BLOCKS = {"q": "BLOCK_M", "do": "BLOCK_M", "k": "BLOCK_N", "v": "BLOCK_N"}
"""Tensor -> the constant with the number of rows of its tile."""

Kernel = JITFunction | InterpretedFunction


def _add_through_descriptor(self: Any, kind: Any, descriptor: Any, value: Any, indices: Any) -> Any:
    """The addition through a descriptor that Triton's interpreter lacks (3.6 to 3.9)."""
    if kind != ir.DESCRIPTOR_REDUCE_KIND.ADD:
        raise NotImplementedError(f"kind: got {kind}, expected ADD in Triton's interpreter")
    pointers, mask = descriptor.materialize_pointers(indices)
    return self.create_atomic_rmw(ir.ATOMIC_OP.FADD, pointers, value, mask, ir.MEM_SEMANTIC.RELAXED, None)


if not hasattr(InterpreterBuilder, "create_descriptor_reduce"):
    InterpreterBuilder.create_descriptor_reduce = _add_through_descriptor


def scratch_rows(seq_q: int) -> int:
    """Rows of a head in scratch memory."""
    return (triton.cdiv(seq_q, LARGEST_TILE) + 1) * LARGEST_TILE


@dataclass(frozen=True)
class Twin:
    """A kernel and how it is launched: the last statement of a kernel file. It has one program for each tile of keys of
    each head of K and V, tile after tile of a head.

    The kernel gets the arguments that its parameters name: pointers (`q_ptr`), strides in elements (`q_stride_batch`,
    `_head`, `_row`), sizes, `group` (query heads for each head of K and V), the scratch memory `dq_sums` (batch, heads,
    scratch_rows, head_dim), `dots` (D) and `lse_log2` (batch, heads, scratch_rows), all fp32, constants, and in place
    of pointers and strides descriptors made on the host: `q_desc`, `k_desc`, `v_desc` and `do_desc` of all four
    dimensions, `dq_sums_desc` of (rows of all heads, head_dim).

    `options` turns a tile into compile options. `by_queries` is a kernel that makes dQ, with one program for each tile
    of queries of each head. It gets the tile the other way round: as many queries as the other kernel's tile has keys.
    Without it the kernel adds dQ to `dq_sums`, which begin at zero.
    """

    kernel: Kernel
    options: Callable[[Any], dict[str, Any]] = lambda tile: options(tile, num_stages=tile.stages)
    by_queries: Kernel | None = None

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """What `launch` compiles for `problem` on `arch` (such as sm_90a), for packed storage: of the main kernel.

        Raises ValueError for an option that this Triton does not know, and in the interpreter.
        """
        function = self.kernel
        if not isinstance(function, JITFunction):
            raise ValueError("TRITON_INTERPRET: got 1, expected it unset; the interpreter has nothing to compile")
        target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32)
        backend = make_backend(target)
        compile_options, known = self.options(tile), vars(backend.parse_options({}))
        if unknown := sorted(set(compile_options) - set(known)):
            raise ValueError(
                f"tile.extra: got {unknown}, expected options of Triton {triton.__version__}: {sorted(known)}"
            )
        tensors = meta_tensors(problem)
        offered = arguments(tensors, scratch(tensors["q"], None), 1.0, problem.causal, tile)
        bind = create_function_from_signature(function.signature, function.params, backend)
        bound, kinds, extra = bind(**_named(function, offered), **compile_options, debug=False)
        parsed, signature, constexprs, attrs = function._pack_args(backend, extra, bound, kinds, extra)
        grid = (_programs(problem.seq_kv, tile.block_n, tensors["k"]),)
        return Specialization(function, signature, constexprs, attrs, parsed, grid, target)

    def launch(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        do: torch.Tensor,
        lse: torch.Tensor,
        dq: torch.Tensor,
        dk: torch.Tensor,
        dv: torch.Tensor,
        *,
        scale: float,
        causal: bool,
        tile: Any,
        workspace: torch.Tensor,
    ) -> CompiledKernel | None:
        """Runs the kernels on the current stream; returns the loaded main program (None in the interpreter).

        q, o, do and dq: (batch, heads, seq_q, head_dim), k, v, dk and dv: (batch, heads_kv, seq_kv, head_dim), any
        strides but the last; lse: (batch, heads, seq_q) fp32. `workspace`: uint8, scratch memory.
        """
        tensors = {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
        offered = arguments(tensors, scratch(q, workspace), scale, causal, tile)
        heads_rows = q.shape[0] * q.shape[1] * offered["scratch_rows"]
        clears = self.by_queries is None
        row_sums[(heads_rows // ROWS,)](**_named(row_sums, {**offered, "CLEARS": clears}), num_warps=4)
        main = self.kernel[(_programs(k.shape[2], tile.block_n, k),)](
            **_named(self.kernel, offered), **self.options(tile)
        )
        if self.by_queries is None:
            convert_dq[(_programs(q.shape[2], ROWS, q),)](**_named(convert_dq, offered), num_warps=4)
        else:
            even = {"EVEN_M": q.shape[2] % tile.block_n == 0, "EVEN_N": k.shape[2] % tile.block_m == 0}
            turned = {**offered, "BLOCK_M": tile.block_n, "BLOCK_N": tile.block_m, **even}
            programs = _programs(q.shape[2], tile.block_n, q)
            self.by_queries[(programs,)](**_named(self.by_queries, turned), **self.options(tile))
        return main

    def workspace_bytes(self, problem: Any) -> int:
        """Bytes of workspace behind the scratch memory."""
        return 0


def _programs(seq: int, rows: int, tensor: torch.Tensor) -> int:
    """One for each tile of so many rows of each head of the tensor."""
    return triton.cdiv(seq, rows) * tensor.shape[0] * tensor.shape[1]


def _named(function: Kernel, offered: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the kernel's parameters name; makes the descriptors that they name. Raises KeyError for a
    parameter that is none of them."""
    given = dict(offered)
    for name in function.arg_names:
        if name == "dq_sums_desc":
            sums = given["dq_sums"]
            rows, head_dim = sums.numel() // given["HEAD_DIM"], given["HEAD_DIM"]
            given[name] = TensorDescriptor(sums, [rows, head_dim], [head_dim, 1], [given["BLOCK_M"], head_dim])
        elif name.endswith("_desc"):
            tensor = given[f"{name.removesuffix('_desc')}_ptr"]
            head_dim = tensor.shape[3]
            # A dimension of size 1 has any stride, but a descriptor wants a multiple of 16 bytes.
            strides = [step if size > 1 else head_dim for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
            block = [1, 1, given[BLOCKS[name.removesuffix("_desc")]], head_dim]
            given[name] = TensorDescriptor(tensor, list(tensor.shape), [*strides[:3], 1], block)
    return {name: given[name] for name in function.arg_names}


def arguments(
    tensors: Mapping[str, torch.Tensor], scratch: Mapping[str, torch.Tensor], scale: float, causal: bool, tile: Any
) -> dict[str, Any]:
    """What a kernel may ask for, but for descriptors. A dimension of size 1 gets stride 0."""
    strides = {
        f"{name}_stride_{dim}": stride if size > 1 else 0
        for name in (*OF_QUERIES, *OF_KEYS)
        for dim, size, stride in zip(
            ("batch", "head", "row"), tensors[name].shape, tensors[name].stride(), strict=False
        )
    }
    q, k = tensors["q"], tensors["k"]
    return {
        **{f"{name}_ptr": tensor for name, tensor in tensors.items()},
        **scratch,
        **strides,
        "scale": float(scale),
        "heads": q.shape[1],
        "heads_kv": k.shape[1],
        "group": q.shape[1] // k.shape[1],
        "seq_q": q.shape[2],
        "seq_kv": k.shape[2],
        "scratch_rows": scratch_rows(q.shape[2]),
        "HEAD_DIM": q.shape[3],
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "ROWS": ROWS,
        "CAUSAL": bool(causal),
        "EVEN_M": q.shape[2] % tile.block_m == 0,
        "EVEN_N": k.shape[2] % tile.block_n == 0,
    }


def scratch(q: torch.Tensor, workspace: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The parts of the scratch memory at the beginning of the workspace. Without a workspace: meta tensors."""
    rows = q.shape[0] * q.shape[1] * scratch_rows(q.shape[2])
    sizes = {"dq_sums": rows * q.shape[3], "dots": rows, "lse_log2": rows}
    if workspace is None:
        return {name: torch.empty(size, dtype=torch.float32, device="meta") for name, size in sizes.items()}
    floats = workspace[: 4 * sum(sizes.values())].view(torch.float32)
    return dict(zip(sizes, floats.split(list(sizes.values())), strict=True))


def meta_tensors(problem: Any) -> dict[str, torch.Tensor]:
    """The tensors of a problem, packed and without memory. Their pointers count as aligned."""
    of_queries, of_keys, _, _ = packed_strides(problem)
    q = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    kv = (problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)

    def meta(shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
        return torch.empty_strided(shape, strides, dtype=DTYPES[problem.dtype], device="meta")

    return {
        **{name: meta(q, of_queries) for name in OF_QUERIES},
        **{name: meta(kv, of_keys) for name in OF_KEYS},
        "lse": torch.empty(q[:3], dtype=torch.float32, device="meta"),
    }
