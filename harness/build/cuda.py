"""CUDA twins: their compile-time constants, their launch arguments, and the library that runs on the GPU here."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import operators
from harness.build import machine_code
from harness.build.variant import Call, Variant
from harness.catalog import architectures, sources, techniques
from harness.catalog.cases import Case
from harness.operators.errors import CompileError, LaunchError, Unsupported
from harness.operators.protocol import Problem, Scalars, Tensors


def gpu_arch() -> str:
    import torch

    major, _ = torch.cuda.get_device_capability()
    return architectures.of_capability(major) or f"sm_{major}0a"


def shared_memory_of_gpu() -> int:
    """Bytes that a block on this GPU can ask for: cards of one major capability differ (8.0 has 166912, 8.6 101376)."""
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device()).shared_memory_per_block_optin


def constants(case: Case, *, packed: bool = True) -> dict[str, int]:
    """The compile-time constants of this case's CUDA kernel. `packed`: row strides are those of packed tensors."""
    constant = packed and _has_constant_strides(case)
    return operators.of(case.problem).defines(case.problem, case.tile, constant_strides=constant)


def fits(case: Case, tensors: Tensors) -> bool:
    """Whether a library built with `constants(case)` takes tensors with these strides."""
    return not _has_constant_strides(case) or operators.of(case.problem).has_packed_strides(case.problem, tensors)


def _has_constant_strides(case: Case) -> bool:
    return case.technique is not None and techniques.at(case.technique, case.problem).constant_strides


def cuda_file(case: Case) -> str | Path:
    """The kernel as cuda_kernels.build names it: operator/ladder/name, or a file elsewhere: the user's, or one of an
    operator that was registered."""
    if case.kernel:
        return case.kernel.path
    assert case.technique is not None
    technique = techniques.at(case.technique, case.problem)
    elsewhere = operators.root(technique.operator) != operators.ROOT
    return sources.kernel_file("cuda", technique.path) if elsewhere else technique.path


def build_cuda(case: Case, arch: str, *, inline: bool | None = None, packed: bool = True) -> Any:
    """`cuda_kernels.build.Built` for this case. Raises CompileError."""
    from cuda_kernels import build

    try:
        return build.build(cuda_file(case), constants(case, packed=packed), arch, inline=inline)
    except build.CompileError as error:
        raise CompileError(f"{case}: {error}") from None


def build_alone(kernel: str, defines: Mapping[str, int], arch: str) -> Any:
    """`build.Built` of a kernel that is no rung, by nvcc alone: load_inline would start a process that imports torch.
    Raises CompileError, also without a compiler."""
    from cuda_kernels import build
    from cuda_kernels.toolchain import ToolchainError

    try:
        return build.build(kernel, defines, arch, inline=False)
    except (build.CompileError, ToolchainError) as error:
        raise CompileError(f"{kernel}: {error}") from None


def assembly(kernel: str | Path, defines: Mapping[str, int], arch: str) -> tuple[str, str, str]:
    """PTX, machine code and cuobjdump's line of resources of a kernel's file, without a GPU. Raises CompileError,
    ToolchainError."""
    from cuda_kernels import assembly, build

    try:
        ptx, cubin = assembly.assemble(kernel, defines, arch)
    except build.CompileError as error:
        raise CompileError(str(error)) from None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        sass, usage = (machine_code.listing(Path(file.name), option) for option in ("-sass", "-res-usage"))
    return ptx, sass, usage


def cuda_compiler(built: Any) -> dict[str, Any]:
    """The row's `compiler` of a `cuda_kernels.build.Built`."""
    from cuda_kernels.toolchain import toolchain

    return {"front_end": f"nvcc {toolchain().nvcc}", "ptxas": toolchain().ptxas, "flags": " ".join(built.flags)}


NOT_SUPPORTED = 801
"""cudaErrorNotSupported."""


def decline(case: Case, code: int) -> None:
    """Raises Unsupported where a user's kernel says by its error that it does not do this."""
    if case.kernel and code == NOT_SUPPORTED:
        raise Unsupported(f"{case.name}: its launch returns cudaErrorNotSupported for {case.problem.slug}")


def shared_memory_bytes(library: ctypes.CDLL) -> int:
    """The dynamic shared memory of a block, as a kernel's library exports it; 0 where it does not."""
    return library.shared_memory_bytes() if hasattr(library, "shared_memory_bytes") else 0


def workspace_bytes(library: ctypes.CDLL, problem: Problem, what: str = "workspace_bytes") -> int:
    """What a kernel's `EXPORT int workspace_bytes(const <Arguments>*)` asks for, which sees the sizes alone; 0 where
    its library exports none."""
    return getattr(library, what)(ctypes.byref(operators.of(problem).sizes(problem))) if hasattr(library, what) else 0


def unzeroed_bytes(library: ctypes.CDLL, problem: Problem) -> int:
    """The last bytes of its workspace that a kernel neither finds zero nor leaves zero, exported likewise."""
    return workspace_bytes(library, problem, "unzeroed_bytes")


class CudaVariant(Variant):
    """A .cu file behind `EXPORT int launch(const <Arguments>* args, void* stream)`, built for the GPU here."""

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
        self.handle = handle
        self.workspace_bytes = self.workspace_of(self.problem)
        self.entry = _entry(handle)  # (arguments*, stream) -> CUDA error

    def workspace_of(self, problem: Problem) -> int:
        return workspace_bytes(self.handle, problem)

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        import torch

        on = self._check(tensors, scalars)
        workspace = self._workspace(on)
        args = self.operator.structure(tensors, scalars, workspace)
        launch = self.entry
        if not fits(self.case, tensors):
            unpacked = build_cuda(self.case, self.arch, packed=False).library
            launch = _entry(open_library(unpacked, torch.cuda.current_device()))
        pointer, device, outputs = ctypes.byref(args), on.index, self.outputs(tensors)
        current_stream = torch._C._cuda_getCurrentRawStream

        def call(keep_alive: tuple[Any, ...] = (args, workspace, *tensors.values())) -> Mapping[str, Any]:
            if code := launch(pointer, current_stream(device)):
                decline(self.case, code)
                raise LaunchError(f"{self.case}: {torch.cuda.CudaError(code)}", code)
            return outputs

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
    handle.launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return handle.launch
