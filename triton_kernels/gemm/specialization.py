"""From (problem, tile) to the exact arguments, specialization and options of a Triton kernel that multiplies matrices.

A kernel file ends in `twin = Twin(kernel, options)`. `Twin.launch` runs the kernel through Triton's ordinary JIT call.
`Twin.specialize` says what that call specializes on, without a GPU, by running Triton's own binder on meta tensors; its
result compiles ahead of time. Both take the same arguments and options, so what is inspected is what is timed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel, make_backend
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_kernels.attention.specialization import Specialization, lend

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
BLOCK_K = 64
"""Elements of k in a step of the main loop, where the tile says no other `block_k`."""
PART_BYTES = 32 * 1024
"""Bytes of C that a tile stores at once by TMA, and of the buffer in shared memory that they pass through."""
DESCRIPTORS_BYTES = 512
"""Bytes of workspace per program, enough for the descriptors that it makes of a, b and c."""


def options(tile: Any) -> dict[str, Any]:
    """Compile options of a tile. `tile.extra` (maxnreg, num_ctas) is passed to Triton, but for block_k."""
    extra = {name: value for name, value in tile.extra if name != "block_k"}
    return {"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": True, **extra}


def block_k(tile: Any) -> int:
    return dict(tile.extra).get("block_k", BLOCK_K)


def tiles(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """A one-dimensional grid: one program for each tile of C; the kernel decides on their order."""
    return (triton.cdiv(a.shape[0], tile.block_m) * triton.cdiv(b.shape[0], tile.block_n),)


MULTIPROCESSORS_ELSEWHERE = 3
"""Number of multiprocessors to assume without a GPU: few, so that a program gets several tiles there."""
MULTIPROCESSORS = 132
"""Those of an H100 or H200, for which costs are computed."""


def multiprocessors(device: torch.device) -> int:
    """Number of multiprocessors of a GPU, or to assume elsewhere."""
    on_gpu = device.type == "cuda"
    return torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else MULTIPROCESSORS_ELSEWHERE


def persistent_tiles(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """One program per multiprocessor, but no more than tiles of C; each works on several tiles."""
    return (min(*tiles(a, b, tile), multiprocessors(a.device)),)


LEAST_STEPS = 8
"""Steps of k that a program has at least where several share a tile."""
COUNTER_BYTES = 4096
"""Bytes of workspace for the counters of tiles that programs share."""
LARGEST_TILE = 128 * 256
"""Elements of C in a tile of which programs leave parts."""


def splits(a: torch.Tensor, b: torch.Tensor, tile: Any, most: int | None = None) -> int:
    """How many programs share each tile, so that there are about as many as multiprocessors: as many as there are here,
    or `most`."""
    steps = triton.cdiv(a.shape[1], block_k(tile))
    return max(1, min((most or multiprocessors(a.device)) // tiles(a, b, tile)[0], steps // LEAST_STEPS))


def split_tiles(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """So many programs for each tile of C."""
    return (tiles(a, b, tile)[0] * splits(a, b, tile),)


def workspace_of_parts() -> int:
    """Bytes of workspace where programs leave parts."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return COUNTER_BYTES + 4 * LARGEST_TILE * multiprocessors(device)


FULL_ENOUGH = 95
"""Percent of all waves that whole tiles fill where no step is shared."""


def shared_steps(a: torch.Tensor, b: torch.Tensor, tile: Any, most: int | None = None) -> tuple[int, int]:
    """The number of tiles whose steps are shared, and of the programs that share them: of the tiles beyond whole waves,
    and of one wave more, so that no share is short. A wave has `most` tiles, or as many as multiprocessors are here."""
    number, most = tiles(a, b, tile)[0], most or multiprocessors(a.device)
    waves = triton.cdiv(number, most)
    if 100 * number >= FULL_ENOUGH * waves * most:
        return 0, 1
    streamed = number - max(waves - 2, 0) * most
    return streamed, max(1, min(most, streamed * triton.cdiv(a.shape[1], block_k(tile)) // LEAST_STEPS))


def sharing_programs(a: torch.Tensor, b: torch.Tensor, tile: Any) -> tuple[int, ...]:
    """As many programs as share steps; where none is shared, persistent ones."""
    streamed, sharers = shared_steps(a, b, tile)
    return (sharers,) if streamed else persistent_tiles(a, b, tile)


@dataclass(frozen=True)
class Twin:
    """A kernel and how it is launched: the last statement of a kernel file.

    The kernel gets the arguments that its parameters name: pointers (`a_ptr`, `b_ptr`, `bias_ptr`, `c_ptr`), sizes,
    `a_stride`, `b_stride` and `c_stride` in elements between rows, tensor descriptors made on the host (`a_desc` and
    `b_desc`, of a tile's rows and BLOCK_K columns, `c_desc`, of block_m rows and `part_n` columns), the constants
    BLOCK_M, BLOCK_N, BLOCK_K, EVEN (whether the tile divides m, n and k) and EPILOGUE: plain, bias or gelu. `options`
    turns a tile into compile options. `grid` turns a, b and a tile into the number of programs. Where programs share
    tiles, `splits` says how many share each, or `streamed` and `sharers` what `shared_steps` does, and the workspace
    holds `counter_ptr`, int32 zeros which the kernel leaves at zero, and `part_ptr`, fp32 memory for a tile of each
    program. With `makes_descriptors` every program gets workspace for its own descriptors.
    """

    kernel: JITFunction | InterpretedFunction
    options: Callable[[Any], dict[str, Any]] = options
    makes_descriptors: bool = False
    grid: Callable[[torch.Tensor, torch.Tensor, Any], tuple[int, ...]] = tiles

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """What `launch` compiles for `problem` on `arch` (such as sm_90a), with rows side by side.

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
        bind = create_function_from_signature(function.signature, function.params, backend)
        bound, kinds, extra = bind(**self.arguments(tensors, problem.epilogue, tile), **compile_options, debug=False)
        parsed, signature, constexprs, attrs = function._pack_args(backend, extra, bound, kinds, extra)
        grid = self.grid(tensors["a"], tensors["b"], tile)
        return Specialization(function, signature, constexprs, attrs, parsed, grid, target)

    def launch(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        epilogue: str = "plain",
        tile: Any,
        workspace: torch.Tensor | None = None,
    ) -> CompiledKernel | None:
        """Runs the kernel on the current stream and returns the loaded program (None in the interpreter).

        a (m, k), b (n, k), bias (n,), c (m, n), any strides but the last. `workspace`: uint8, zeroed,
        `workspace_bytes(problem)`.
        """
        if self.makes_descriptors:
            lend(workspace)
        tensors = {"a": a, "b": b, "c": c, **({} if bias is None else {"bias": bias})}
        if "part_ptr" in self.kernel.arg_names:
            assert workspace is not None
            tensors["counter"] = workspace[:COUNTER_BYTES].view(torch.int32)
            tensors["part"] = workspace[COUNTER_BYTES:].view(torch.float32)
        return self.kernel[self.grid(a, b, tile)](**self.arguments(tensors, epilogue, tile), **self.options(tile))

    def workspace_bytes(self, problem: Any) -> int:
        """Bytes of workspace that `launch` needs. They must be zero before it, and what it counts is zero after it."""
        if "part_ptr" in self.kernel.arg_names:
            return workspace_of_parts()
        if not self.makes_descriptors:
            return 0
        return DESCRIPTORS_BYTES * triton.cdiv(problem.m, 64) * triton.cdiv(problem.n, 64)

    def arguments(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        """The arguments that the kernel's parameters name. Raises KeyError for a parameter that is none of them."""
        offered, step = self.offered(tensors, epilogue, tile), block_k(tile)
        c = tensors["c"]
        boxes = {"a": (tile.block_m, step), "b": (tile.block_n, step), "c": (tile.block_m, part_n(c, tile))}
        for name, box in boxes.items():
            if f"{name}_desc" in self.kernel.arg_names:
                offered[f"{name}_desc"] = describe(tensors[name], *box)
        return {name: offered[name] for name in self.kernel.arg_names}

    def offered(self, tensors: dict[str, torch.Tensor], epilogue: str, tile: Any) -> dict[str, Any]:
        """What a kernel may ask for, but for descriptors."""
        a, b, c = (tensors[name] for name in "abc")
        m, k, n, step = a.shape[0], a.shape[1], b.shape[0], block_k(tile)
        return {
            **{f"{name}_ptr": tensors.get(name) for name in ("a", "b", "bias", "c", "counter", "part")},
            **{f"{name}_stride": tensor.stride(0) for name, tensor in (("a", a), ("b", b), ("c", c))},
            "m": m,
            "n": n,
            "k": k,
            "splits": splits(a, b, tile),
            **dict(zip(("streamed", "sharers"), shared_steps(a, b, tile), strict=True)),
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": step,
            "EVEN": m % tile.block_m == 0 and n % tile.block_n == 0 and k % step == 0,
            "EPILOGUE": epilogue,
        }


L2_BYTES = {"flattened": 58, "anew": 46}
"""That a multiprocessor gets in a clock, in a loop over the steps of all tiles, and where each tile begins anew."""


def step(tile: Any, loop: str) -> float:
    """Clocks of a step of k: of the tensor cores, or of the loads that they wait for."""
    products = tile.block_m * tile.block_n * BLOCK_K / 2048
    return max(products, (tile.block_m + tile.block_n) * 2 * BLOCK_K / L2_BYTES[loop])


def few_rows(m: int, n: int) -> tuple[int, int] | None:
    """Rows and columns of a tile where m is so small that operands change places; else None. Tiles are narrow where
    wider ones would be fewer than half of the multiprocessors."""
    rows = next((rows for rows in (16, 32, 64) if m <= rows), None)
    return None if rows is None else (rows, 64 if 2 * triton.cdiv(n, 128) <= MULTIPROCESSORS else 128)


@dataclass(frozen=True)
class Choice:
    """Several twins as one: `choose(a, b, tile)` names the one that takes a problem, and a tile of its own for it."""

    choose: Callable[[torch.Tensor, torch.Tensor, Any], tuple[Twin, Any]]

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """As Twin.specialize does."""
        tensors = meta_tensors(problem)
        twin, own = self.choose(tensors["a"], tensors["b"], tile)
        return twin.specialize(problem, strides, own, arch)

    def launch(self, a: torch.Tensor, b: torch.Tensor, *rest: Any, tile: Any, **options: Any) -> CompiledKernel | None:
        """As Twin.launch does."""
        twin, own = self.choose(a, b, tile)
        return twin.launch(a, b, *rest, tile=own, **options)

    def workspace_bytes(self, problem: Any) -> int:
        """Enough for whichever is chosen."""
        return workspace_of_parts()


def describe(tensor: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A descriptor, made on the host, of a matrix whose boxes have so many rows and columns."""
    stride = tensor.stride(0) if tensor.shape[0] > 1 else tensor.shape[1]
    return TensorDescriptor(tensor, list(tensor.shape), [stride, 1], [rows, columns])


def part_n(c: torch.Tensor, tile: Any) -> int:
    """Columns of C that a tile stores at once."""
    return min(tile.block_n, PART_BYTES // (tile.block_m * c.element_size()))


def meta_tensors(problem: Any) -> dict[str, torch.Tensor]:
    """The tensors of a problem and its workspace, without memory. Their pointers count as aligned, as `validate`
    requires."""
    shapes = {"a": (problem.m, problem.k), "b": (problem.n, problem.k), "c": (problem.m, problem.n)}
    dtypes = {"c": DTYPES[problem.dtype if problem.out == "same" else problem.out]}
    if problem.epilogue != "plain":
        shapes["bias"] = (problem.n,)
    shapes |= {"counter": (COUNTER_BYTES // 4,), "part": (LARGEST_TILE,)}
    dtypes |= {"counter": torch.int32, "part": torch.float32}
    return {
        name: torch.empty(shape, dtype=dtypes.get(name, DTYPES[problem.dtype]), device="meta")
        for name, shape in shapes.items()
    }
