"""From (problem, strides, tile) to the exact arguments, specialization and options of a Triton kernel.

`launch` runs a kernel through Triton's ordinary JIT call. `specialize` says what that call specializes on, without a
GPU, by running Triton's own binder on meta tensors; its result compiles ahead of time. Both go through `arguments` and
`options`, so what is inspected is what is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel, make_backend
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
STORAGE = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}
"""Layout -> the order in which (batch, heads, seq, dim) lie in memory, outermost first."""

Strides = tuple[tuple[int, ...], ...]
"""Element strides of q, k, v and o, each over (batch, heads, seq, dim)."""

Grid = Callable[[torch.Tensor, Any], tuple[int, ...]]
"""(q, tile) -> programs per dimension of the launch."""

Refine = Callable[[dict[str, Any]], dict[str, Any]]
"""The common arguments by name -> those that one kernel takes, with further constants or descriptors."""


@dataclass(frozen=True)
class Specialization:
    """One program: what Triton's JIT compiles for one set of arguments. `grid` counts program instances."""

    function: JITFunction
    signature: dict[str, str]
    constexprs: dict[tuple[int, ...], Any]
    attrs: dict[tuple[int, ...], Any]
    options: Any
    grid: tuple[int, ...]
    target: GPUTarget

    def compile(self) -> CompiledKernel:
        """Compiles without a GPU: `.asm` holds ttgir, ptx and cubin, `.metadata` the shared memory and the options."""
        source = ASTSource(self.function, self.signature, self.constexprs, self.attrs)
        return triton.compile(source, target=self.target, options=vars(self.options))


def packed_strides(problem: Any) -> Strides:
    """Strides of q, k, v and o that fill their storage without gaps, in the order of `problem.layout`."""
    q = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    kv = (problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)
    order = STORAGE[problem.layout]

    def packed(shape: tuple[int, ...]) -> tuple[int, ...]:
        strides, step = [0] * 4, 1
        for dim in reversed(order):
            strides[dim], step = step, step * shape[dim]
        return tuple(strides)

    return packed(q), packed(kv), packed(kv), packed(q)


def options(tile: Any, *, num_stages: int) -> dict[str, Any]:
    """Compile options of a tile. `tile.extra` (maxnreg, num_ctas) goes to Triton as it is."""
    return {"num_warps": tile.warps, "num_stages": num_stages, "enable_fp_fusion": True, **dict(tile.extra)}


def arguments(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    scale: float,
    causal: bool,
    tile: Any,
) -> dict[str, Any]:
    """Every kernel's arguments by name: pointers, sizes, strides in elements, compile-time constants.

    A dimension of size 1 gets stride 0: its stride is never used, and storage orders must not differ by it.
    """
    strides = {}
    for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
        for dim, size, stride in zip(("batch", "head", "row"), tensor.shape, tensor.stride(), strict=False):
            strides[f"{name}_stride_{dim}"] = stride if size > 1 else 0
    return {
        "q_ptr": q,
        "k_ptr": k,
        "v_ptr": v,
        "o_ptr": o,
        "lse_ptr": lse,
        "scale": float(scale),
        "heads": q.shape[1],
        "group": q.shape[1] // k.shape[1],
        "seq_q": q.shape[2],
        "seq_kv": k.shape[2],
        **strides,
        "HEAD_DIM": q.shape[3],
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "CAUSAL": bool(causal),
    }


def describe(arguments: dict[str, Any], blocks: Mapping[str, str]) -> dict[str, Any]:
    """The arguments with tensor descriptors (`k_desc`) in place of pointers and strides (`k_ptr`, `k_stride_*`).

    `blocks` gives the constant that counts the rows of a tensor's block, such as {"k": "BLOCK_N", "v": "BLOCK_N"}.
    A descriptor has the four dimensions of its tensor, so that the sequence is bounded by itself: rows behind it read
    as zero and are not written. It is encoded on the host by every launch, and needs no workspace.
    """
    described = {**arguments}
    for name, rows in blocks.items():
        tensor = described.pop(f"{name}_ptr")
        for dim in ("batch", "head", "row"):
            del described[f"{name}_stride_{dim}"]
        head_dim = tensor.shape[3]
        strides = [stride if size > 1 else head_dim for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        block = [1, 1, arguments[rows], head_dim]
        described[f"{name}_desc"] = TensorDescriptor(tensor, list(tensor.shape), [*strides[:3], 1], block)
    return described


DESCRIPTORS_BYTES = 1024
"""At least what a program takes of the workspace for the descriptors that it makes of q, k, v and o."""


def lend(workspace: torch.Tensor | None) -> None:
    """Gives Triton's launcher, which asks for memory at every launch of a kernel that makes descriptors, the workspace.

    Raises ValueError at the launch when it is too small. None leaves what was set: the interpreter asks for nothing.
    """
    if workspace is None:
        return

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        if size > workspace.numel() or workspace.data_ptr() % alignment:
            raise ValueError(
                f"workspace: got {workspace.numel()} bytes at {workspace.data_ptr():#x}, expected {size} bytes aligned "
                f"to {alignment} for this launch's descriptors; allocate workspace_bytes(problem) with torch.zeros"
            )
        return workspace

    triton.set_allocator(allocate)


COUNTER_BYTES = 16
"""What a counter takes of the workspace."""


def counters(workspace: torch.Tensor | None) -> torch.Tensor:
    """The workspace as int32 counters, which a launch finds zero and leaves zero; without one, meta counters to
    specialize on."""
    if workspace is None:
        return torch.empty(COUNTER_BYTES // 4, dtype=torch.int32, device="meta")
    return workspace.view(torch.int32)


MULTIPROCESSORS_ELSEWHERE = 3
"""Taken for the multiprocessors where there is no GPU: few, so that a program there meets several tiles."""


def multiprocessors(q: torch.Tensor) -> int:
    """Those of the GPU that q is on."""
    return torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else MULTIPROCESSORS_ELSEWHERE


def plain_grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """(batch * heads, query blocks), the first running fastest: neighbours share no K and V, as in the CUDA twins."""
    return q.shape[0] * q.shape[1], triton.cdiv(q.shape[2], tile.block_m)


def specialize(
    function: JITFunction,
    problem: Any,
    strides: Strides | None,
    tile: Any,
    arch: str,
    compile_options: Mapping[str, Any],
    grid: Grid = plain_grid,
    refine: Refine = dict,
) -> Specialization:
    """What `launch` compiles for `problem` on `arch` (such as sm_90a). `strides` None means packed storage.

    Raises ValueError for an option that this Triton does not know.
    """
    if not isinstance(function, JITFunction):
        raise ValueError("TRITON_INTERPRET: got 1, expected it unset; the interpreter has nothing to compile")
    target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32)
    backend = make_backend(target)
    known = vars(backend.parse_options({}))
    if unknown := sorted(set(compile_options) - set(known)):
        raise ValueError(f"tile.extra: got {unknown}, expected options of Triton {triton.__version__}: {sorted(known)}")
    q, k, v, o, lse = meta_tensors(problem, strides)
    values = refine(arguments(q, k, v, o, lse, scale=1.0, causal=problem.causal, tile=tile))
    bind = create_function_from_signature(function.signature, function.params, backend)
    bound, kinds, extra = bind(**values, **compile_options, debug=False)
    parsed, signature, constexprs, attrs = function._pack_args(backend, extra, bound, kinds, extra)
    return Specialization(function, signature, constexprs, attrs, parsed, grid(q, tile), target)


def meta_tensors(problem: Any, strides: Strides | None) -> tuple[torch.Tensor, ...]:
    """q, k, v, o and lse of a problem without memory. Their pointers count as aligned, as `validate` demands."""
    q = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    kv = (problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)
    tensors = [
        torch.empty_strided(shape, stride, dtype=DTYPES[problem.dtype], device="meta")
        for shape, stride in zip((q, kv, kv, q), strides or packed_strides(problem), strict=True)
    ]
    return (*tensors, torch.empty(q[:3], dtype=torch.float32, device="meta"))


def launch(
    function: JITFunction | InterpretedFunction,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    *,
    scale: float,
    causal: bool,
    tile: Any,
    compile_options: Mapping[str, Any],
    grid: Grid = plain_grid,
    refine: Refine = dict,
) -> CompiledKernel | None:
    """Runs the kernel on the current stream and returns the loaded program (None in the interpreter).

    Raises NotImplementedError for bf16 in the interpreter.
    """
    if isinstance(function, InterpretedFunction) and q.dtype is torch.bfloat16:
        raise NotImplementedError(
            "q.dtype: got torch.bfloat16, expected torch.float16 in Triton's interpreter, whose bf16 dot is wrong "
            "without an error (triton issue 11584); unset TRITON_INTERPRET to run bf16 on a GPU"
        )
    values = refine(arguments(q, k, v, o, lse, scale=scale, causal=causal, tile=tile))
    return function[grid(q, tile)](**values, **compile_options)
