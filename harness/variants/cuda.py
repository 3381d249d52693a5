"""CUDA twins: their compile-time constants, their launch arguments, and the library that runs on the GPU here."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.catalog import architectures, techniques
from harness.catalog.cases import Case
from harness.catalog.problem import Problem, Tile
from harness.variants import machine_code
from harness.variants.errors import CompileError, LaunchError, Unsupported
from harness.variants.variant import Call, Variant

if TYPE_CHECKING:
    from torch import Tensor


def gpu_arch() -> str:
    """The architecture that kernels are compiled for on this GPU."""
    import torch

    major, _ = torch.cuda.get_device_capability()
    return architectures.of_capability(major) or f"sm_{major}0a"


def shared_memory_of_gpu() -> int:
    """Bytes that a block on this GPU can ask for: cards of one major capability differ (8.0 has 166912, 8.6 101376)."""
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device()).shared_memory_per_block_optin


def cuda_defines(problem: Problem, tile: Tile) -> dict[str, int]:
    """The compile-time constants of a CUDA kernel (attention.cuh)."""
    return {
        f"ATTENTION_{problem.dtype.upper()}": 1,
        "ATTENTION_HEAD_DIM": problem.head_dim,
        "ATTENTION_CAUSAL": int(problem.causal),
        "ATTENTION_BLOCK_M": tile.block_m,
        "ATTENTION_BLOCK_N": tile.block_n,
        "ATTENTION_STAGES": tile.stages,
        "ATTENTION_WARPS": tile.warps,
        **{f"ATTENTION_{name.upper()}": value for name, value in tile.extra},
    }


def row_strides(problem: Problem) -> tuple[int, int]:
    """Elements between rows of q and o, and of k and v, when the tensors are packed."""
    q, kv = (problem.heads, problem.seq_q), (problem.heads_kv, problem.seq_kv)
    return problem.packed_strides(*q)[2], problem.packed_strides(*kv)[2]


def constants(case: Case, *, packed: bool = True) -> dict[str, int]:
    """The compile-time constants of this case's CUDA kernel. `packed`: row strides are those of packed tensors."""
    assert case.tile is not None
    defines = cuda_defines(case.problem, case.tile)
    if packed and _has_constant_strides(case):
        names = ("ATTENTION_Q_ROW_STRIDE", "ATTENTION_KV_ROW_STRIDE")
        defines |= zip(names, row_strides(case.problem), strict=True)
    return defines


def fits(case: Case, q: Tensor, k: Tensor, v: Tensor, o: Tensor) -> bool:
    """Whether a library built with `constants(case)` takes tensors with these row strides."""
    if not _has_constant_strides(case):
        return True
    q_rows, kv_rows = row_strides(case.problem)
    expected = (q_rows, kv_rows, kv_rows, q_rows)
    return all(t.shape[2] == 1 or t.stride(2) == rows for t, rows in zip((q, k, v, o), expected, strict=True))


def _has_constant_strides(case: Case) -> bool:
    return case.technique is not None and techniques.get(case.technique).constant_strides


def cuda_file(case: Case) -> str | Path:
    """The kernel as cuda_kernels.build names it: ladder/name, or the user's file."""
    if case.kernel:
        return case.kernel.path
    assert case.technique is not None
    return techniques.get(case.technique).path


def build_cuda(case: Case, arch: str, *, inline: bool | None = None, packed: bool = True) -> Any:
    """`cuda_kernels.build.Built` for this case. Raises CompileError."""
    from cuda_kernels import build

    try:
        return build.build(cuda_file(case), constants(case, packed=packed), arch, inline=inline)
    except build.CompileError as error:
        raise CompileError(f"{case}: {error}") from None


def cuda_compiler(built: Any) -> dict[str, Any]:
    """The row's `compiler` of a `cuda_kernels.build.Built`."""
    from cuda_kernels.toolchain import toolchain

    return {"front_end": f"nvcc {toolchain().nvcc}", "ptxas": toolchain().ptxas, "flags": " ".join(built.flags)}


NOT_SUPPORTED = 801
"""cudaErrorNotSupported."""


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "seq")]


class AttentionArgs(ctypes.Structure):
    """cuda_kernels/attention/attention.cuh, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "workspace")),
        *((f"{name}_stride", _Strides) for name in "qkvo"),
        *((name, ctypes.c_int32) for name in ("batch", "heads", "heads_kv", "seq_q", "seq_kv")),
        ("scale", ctypes.c_float),
    ]


def _strides(tensor: Tensor) -> _Strides:
    """Strides in elements; a dimension of size 1 gets 0, so that storage orders do not differ by it."""
    dims = zip(tensor.shape[:3], tensor.stride()[:3], strict=True)
    return _Strides(*(step if size > 1 else 0 for size, step in dims))


def attention_args(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, workspace: Tensor | None, scale: float
) -> AttentionArgs:
    """The arguments of a launch on these tensors; they hold no reference to them."""
    return AttentionArgs(
        *(tensor.data_ptr() for tensor in (q, k, v, o, lse)),
        workspace.data_ptr() if workspace is not None else None,
        *(_strides(tensor) for tensor in (q, k, v, o)),
        *(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2]),
        scale,
    )


def decline(case: Case, code: int) -> None:
    """Raises Unsupported where a user's kernel says by its error that it does not do this."""
    if case.kernel and code == NOT_SUPPORTED:
        raise Unsupported(f"{case.name}: its launch returns cudaErrorNotSupported for {case.problem.slug}")


def shared_memory_bytes(library: ctypes.CDLL) -> int:
    """What `EXPORT int shared_memory_bytes()` of a kernel's library says: the dynamic shared memory of a block. 0 where
    it exports none."""
    return library.shared_memory_bytes() if hasattr(library, "shared_memory_bytes") else 0


def workspace_bytes(library: ctypes.CDLL, problem: Problem) -> int:
    """What a kernel's library asks for: `EXPORT int workspace_bytes(const AttentionArgs*)`, which sees the sizes alone.
    0 where it exports none."""
    if not hasattr(library, "workspace_bytes"):
        return 0
    sizes = {name: getattr(problem, name) for name in ("batch", "heads", "heads_kv", "seq_q", "seq_kv")}
    return library.workspace_bytes(ctypes.byref(AttentionArgs(**sizes)))


class CudaVariant(Variant):
    """A .cu file behind `EXPORT int launch(const AttentionArgs* args, void* stream)`, built for the GPU here."""

    def __init__(self, case: Case) -> None:
        import torch

        super().__init__(case)
        self.arch = gpu_arch()
        built = build_cuda(case, self.arch)
        self.library, self.build_log = built.library, built.log
        self.compile_s = built.seconds
        self.compiler = cuda_compiler(built)
        handle = open_library(built.library, torch.cuda.current_device())
        self.shared_memory_bytes = shared_memory_bytes(handle)
        allowed = shared_memory_of_gpu()
        if self.shared_memory_bytes > allowed:
            raise Unsupported(
                f"the tile needs {self.shared_memory_bytes} bytes of shared memory, a block on this GPU has {allowed}"
            )
        self.workspace_bytes = workspace_bytes(handle, self.problem)
        self.entry = _entry(handle)  # (const AttentionArgs*, stream) -> CUDA error

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        import torch

        self._check(q, k, v, o, lse, scale, causal)
        workspace = self._workspace(q.device)
        args = attention_args(q, k, v, o, lse, workspace, scale)
        launch = self.entry
        if not fits(self.case, q, k, v, o):
            unpacked = build_cuda(self.case, self.arch, packed=False).library
            launch = _entry(open_library(unpacked, torch.cuda.current_device()))
        pointer, device = ctypes.byref(args), q.device.index
        current_stream = torch._C._cuda_getCurrentRawStream

        def call(keep_alive: tuple[Any, ...] = (args, workspace, q, k, v)) -> tuple[Tensor, Tensor]:
            if code := launch(pointer, current_stream(device)):
                decline(self.case, code)
                raise LaunchError(f"{self.case}: {torch.cuda.CudaError(code)}", code)
            return o, lse

        return call

    def code(self) -> dict[str, Any]:
        return machine_code.read(self.library, smem_bytes=self.shared_memory_bytes, log=self.build_log)


def open_library(library: Path, gpu: int) -> ctypes.CDLL:
    """A kernel's library, loaded for GPU number `gpu` of this process alone.

    The first launch asks for the kernel's shared memory, once for each loaded library (ptx/kernel.cuh), and CUDA grants
    it on the current GPU only. The dynamic linker loads a file once, so every GPU but the first has a copy of the file.
    """
    if gpu:
        original, library = library, library.with_name(f"{library.stem}-gpu{gpu}{library.suffix}")
        if not library.exists():
            partial = library.with_suffix(f".{os.getpid()}.partial")
            shutil.copy(original, partial)
            partial.replace(library)
    return ctypes.CDLL(str(library))


def _entry(handle: ctypes.CDLL) -> Any:
    from cuda_kernels.build import NO_LAUNCH

    if not hasattr(handle, "launch"):
        raise CompileError(NO_LAUNCH)
    handle.launch.argtypes = [ctypes.POINTER(AttentionArgs), ctypes.c_void_p]
    return handle.launch
