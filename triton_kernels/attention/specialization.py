"""From (problem, strides, tile) to the exact arguments, specialization and options of a Triton or Gluon kernel.

A kernel file ends in `twin = Twin(kernel, options, grid, refine)`. `Twin.launch` runs the kernel through Triton's
ordinary JIT call. `Twin.specialize` says what that call specializes on, without a GPU, by running Triton's own binder
on meta tensors; its result compiles ahead of time. Both take the same arguments and options, so what is inspected is
what is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
STORAGE = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}
"""Layout -> the order of (batch, heads, seq, dim) in memory, outermost first."""

Strides = tuple[tuple[int, ...], ...]
"""Element strides of q, k, v and o, each over (batch, heads, seq, dim)."""

Grid = Callable[[torch.Tensor, Any], tuple[int, ...]]
"""(q, tile) -> number of programs in each dimension of the launch."""

Refine = Callable[[dict[str, Any]], dict[str, Any]]
"""Arguments by name -> the same arguments, some changed or added."""


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
        front_end = GluonASTSource if self.function.is_gluon() else ASTSource
        source = front_end(self.function, self.signature, self.constexprs, self.attrs)
        return triton.compile(source, target=self.target, options=vars(self.options))


def packed_strides(problem: Any) -> Strides:
    """Element strides of q, k, v and o stored without gaps, in the order of `problem.layout`."""
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
    """Compile options of a tile. `tile.extra` (maxnreg, num_ctas) is passed to Triton unchanged."""
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
    """The kernel arguments by parameter name: pointers, sizes, strides in elements, constants.

    A dimension of size 1 gets stride 0: its stride is never used, and must not make two storage orders look different.
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
    """Replaces pointers and strides (`k_ptr`, `k_stride_*`) by tensor descriptors (`k_desc`).

    `blocks` names the constant with the number of rows of a tensor's tile, such as {"k": "BLOCK_N", "v": "BLOCK_N"}. A
    descriptor has all four dimensions of its tensor, so the sequence has its own bound: rows past its end are read as
    zeros and not written. Every launch encodes it on the host; it needs no workspace.
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
"""Bytes of workspace per program, enough for the descriptors that it makes of q, k, v and o."""


def lend(workspace: torch.Tensor | None) -> None:
    """Gives the workspace to Triton's launcher, which allocates at every launch of a kernel that makes descriptors.

    Raises ValueError at the launch if the workspace is too small. None changes nothing: the interpreter needs none.
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
"""Bytes of workspace for a counter."""


def counters(workspace: torch.Tensor | None) -> torch.Tensor:
    """Views the workspace as int32 counters, which every launch finds zero and leaves zero. Without a workspace: meta
    counters to specialize on."""
    if workspace is None:
        return torch.empty(COUNTER_BYTES // 4, dtype=torch.int32, device="meta")
    return workspace.view(torch.int32)


MULTIPROCESSORS_ELSEWHERE = 3
"""Number of multiprocessors to assume without a GPU: few, so that a program gets several tiles there."""


def multiprocessors(q: torch.Tensor) -> int:
    """Number of multiprocessors of the GPU that q is on."""
    return torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else MULTIPROCESSORS_ELSEWHERE


def plain_grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """(batch * heads, query blocks). The first runs fastest, so neighbours share no K and V, as in the CUDA twins."""
    return q.shape[0] * q.shape[1], triton.cdiv(q.shape[2], tile.block_m)


def linear_grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """A one-dimensional grid: one program for each query block of each head; the kernel decides on their order."""
    return (triton.cdiv(q.shape[2], tile.block_m) * q.shape[1] * q.shape[0],)


def persistent_grid(q: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """As many programs as the GPU runs at once with 8 math warps per multiprocessor, but no more than tiles."""
    return (min(*linear_grid(q, tile), multiprocessors(q) * max(8 // tile.warps, 1)),)


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
    """q, k, v, o and lse of a problem, without memory. Their pointers count as aligned, as `validate` requires."""
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


BLOCKS = {"q": "BLOCK_M", "k": "BLOCK_N", "v": "BLOCK_N", "o": "BLOCK_M"}
"""Tensor -> the constant with the number of rows of its tile."""


@dataclass(frozen=True)
class Twin:
    """A kernel and how it is launched: the last statement of a kernel file.

    The kernel gets the arguments that its parameters name. Besides `arguments` it can ask for `q_desc`, `k_desc`,
    `v_desc` and `o_desc` in place of pointers and strides, `batches`, EVEN_M and EVEN_N (whether the tile divides seq_q
    and seq_kv), and `counter`, which is zero at the start and must be zero at the end.

    `options` turns a tile into compile options. `refine` changes or adds arguments. `descriptors_bytes(problem)` is the
    workspace in bytes of a kernel that makes its own descriptors.
    """

    kernel: JITFunction | InterpretedFunction
    options: Callable[[Any], dict[str, Any]]
    grid: Grid = plain_grid
    refine: Refine = dict
    descriptors_bytes: Callable[[Any], int] | None = None

    def specialize(self, problem: Any, strides: Strides | None, tile: Any, arch: str) -> Specialization:
        """What `launch` compiles for `problem` on `arch` (such as sm_90a). `strides` None means packed storage.

        Raises ValueError for an option that this Triton does not know, and in the interpreter.
        """
        refine = partial(self.given, workspace=None)
        return specialize(self.kernel, problem, strides, tile, arch, self.options(tile), self.grid, refine)

    def launch(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        o: torch.Tensor,
        lse: torch.Tensor,
        *,
        scale: float,
        causal: bool,
        tile: Any,
        workspace: torch.Tensor | None = None,
    ) -> CompiledKernel | None:
        """Runs the kernel on the current stream and returns the loaded program (None in the interpreter).

        q and o: (batch, heads, seq_q, head_dim), k and v: (batch, heads_kv, seq_kv, head_dim), fp16 or bf16, of any
        strides but the last; lse: (batch, heads, seq_q) fp32. `workspace`: uint8, zeroed, `workspace_bytes(problem)`.
        Raises NotImplementedError for bf16 in the interpreter, ValueError for a workspace that is too small.
        """
        if self.descriptors_bytes:
            lend(workspace)
        return launch(
            self.kernel, q, k, v, o, lse, scale=scale, causal=causal, tile=tile, compile_options=self.options(tile),
            grid=self.grid, refine=partial(self.given, workspace=workspace),
        )  # fmt: skip

    def workspace_bytes(self, problem: Any) -> int:
        """Bytes of workspace that `launch` needs; they must be zero before it and are zero after it."""
        if self.descriptors_bytes:
            return self.descriptors_bytes(problem)
        return COUNTER_BYTES if "counter" in self.kernel.arg_names else 0

    def given(self, offered: dict[str, Any], *, workspace: torch.Tensor | None) -> dict[str, Any]:
        """Returns the arguments that the kernel's parameters name. Raises TypeError for an unknown parameter."""
        names = self.kernel.arg_names
        offered["batches"] = offered["q_ptr"].shape[0]
        offered["EVEN_M"] = offered["seq_q"] % offered["BLOCK_M"] == 0
        offered["EVEN_N"] = offered["seq_kv"] % offered["BLOCK_N"] == 0
        if "counter" in names:
            offered["counter"] = counters(workspace)
        refined = self.refine(offered)
        wanted = {name for name in BLOCKS if f"{name}_desc" in names and f"{name}_desc" not in refined}
        given = describe(refined, {name: BLOCKS[name] for name in wanted})
        if unknown := [name for name in names if name not in given]:
            raise TypeError(
                f"{self.kernel.__name__}: got the parameters {', '.join(unknown)}, expected of {', '.join(given)}, or "
                "tensors as in q_desc; rename them, or let `refine` add them"
            )
        return {name: given[name] for name in names}
