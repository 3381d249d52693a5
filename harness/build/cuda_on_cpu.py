"""CUDA twins on a CPU: the same .cu files, compiled as C++ and run thread by thread."""

from __future__ import annotations

import ctypes
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.build.cuda import constants, cuda_file, decline, fits, unzeroed_bytes, workspace_bytes
from harness.build.variant import Call, Variant
from harness.catalog.cases import Case
from harness.operators.errors import CompileError, DataRace, Diagnosed, Unsupported
from harness.operators.protocol import Scalars, Tensors

if TYPE_CHECKING:
    from torch import Tensor

OWN_NAMES = "where a kernel must use the functions of cuda_kernels/ptx (tid_x, bar_sync, ld_global ...)"
"""What nobody guesses of a CPU that does not know CUDA's own names."""


def sanitizer_environment() -> dict[str, str]:
    """Variables of a process in which the CPU runs CUDA twins under the address and undefined-behaviour sanitizers.
    Raises Unsupported where the compiler has none."""
    from cuda_kernels import cpu_build, toolchain

    try:
        return cpu_build.sanitizer_environment()
    except toolchain.ToolchainError as error:
        raise Unsupported(str(error)) from None


def plain_library(path: Path) -> Path:
    """The shared library of a C++ file that is no kernel, as cpu_build.plain makes it."""
    from cuda_kernels import cpu_build

    return cpu_build.plain(path)


def error_name(code: int) -> str:
    """ " (cudaErrorInvalidValue)", from CUDA's header; "" for what is none there."""
    from cuda_kernels import cpu_build

    header = (cpu_build.cuda_include() / "driver_types.h").read_text(errors="replace")
    found = re.search(rf"^\s*(cudaError\w+)\s*=\s*{code}\b", header, re.MULTILINE)
    return f" ({found[1]})" if found else ""


def left_in(workspace: Tensor | None, scratch_bytes: int = 0, unzeroed_bytes: int = 0) -> list[str]:
    """The complaint about a workspace that is not zero after a launch, if any: the next launch begins with it. Its
    first `scratch_bytes` and its last `unzeroed_bytes` need not be."""
    zero = None if workspace is None else workspace[scratch_bytes : workspace.numel() - unzeroed_bytes]
    left = [] if zero is None else zero.nonzero().flatten().tolist()
    return [f"workspace_not_zero: byte {left[0]} of the workspace is not 0 when the kernel ends"] if left else []


class CpuCudaVariant(Variant):
    """The same .cu file, run thread by thread on the CPU; waits, races and unwritten outputs are diagnosed by name."""

    device = "cpu"

    def __init__(self, case: Case) -> None:
        from cuda_kernels import build, cpu_build, toolchain

        super().__init__(case)
        start = time.perf_counter()
        try:
            self.library = self._build(packed=True)
        except toolchain.ToolchainError as error:
            raise Unsupported(str(error)) from None
        except build.CompileError as error:
            said = str(error).replace("for the CPU:", f"for the CPU, {OWN_NAMES}:", 1) if case.kernel else error
            raise CompileError(f"{case}: {said}") from None
        self.compile_s = time.perf_counter() - start
        self.workspace_bytes = workspace_bytes(self.library.handle, self.problem)
        flags = cpu_build.flags(sanitize=cpu_build.sanitizing())
        self.compiler = {"front_end": cpu_build.compiler(), "flags": " ".join(flags)}
        self._options: dict[str, Any] = {"seed": 0}

    def _build(self, *, packed: bool) -> Any:
        from cuda_kernels import cpu_build, cpu_library, includes, patched

        kernel = cuda_file(self.case)
        path, beside = (
            (kernel, [kernel.parent]) if isinstance(kernel, Path) else (patched.kernel_file(kernel, cpu_build.HERE), [])
        )
        self.files = includes.closure([path], [*beside, cpu_build.HERE])
        defines, sanitize = constants(self.case, packed=packed), cpu_build.sanitizing()
        return cpu_library.Library(cpu_build.build(path, defines, sanitize=sanitize, include=beside))

    def schedule(self, seed: int) -> None:
        self._options = {"seed": seed}

    def counters(self, inputs: Any, outputs: Any) -> dict[str, Any]:
        """The `details` of a row of kind `memory`, from one launch on packed tensors: `sites` as
        cpu_library.Library.counters returns them, their `totals`, and what `ncu` should count."""
        from cuda_kernels import cpu_library

        self._options = {"counters": True, "os_threads": 1}  # in one order, so that the examples are repeatable
        self.launch({**inputs.tensors, **outputs.tensors}, inputs.scalars)
        sites = self.library.counters()
        return {"sites": sites, "totals": cpu_library.totals(sites), "ncu": cpu_library.ncu_metrics(sites)}

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        from cuda_kernels import cpu_library

        workspace = self._workspace(self._check(tensors, scalars))
        args = self.operator.structure(tensors, scalars, workspace)
        library = self.library if fits(self.case, tensors) else self._build(packed=False)
        outputs, watched = self.outputs(tensors), dict(tensors)
        unzeroed = unzeroed_bytes(library.handle, self.problem)
        if workspace is not None:
            watched["workspace"] = workspace

        def call() -> Tensors:
            library.configure(**self._options)
            for name, tensor in watched.items():
                pointer, shape, strides = tensor.data_ptr(), tensor.shape, tensor.stride()
                written, scratch = name in outputs, name == "workspace"
                library.watch(name, pointer, tensor.element_size(), shape, strides, written=written, scratch=scratch)
            try:
                code = library.launch(ctypes.byref(args), None)
            finally:
                library.forget()  # the tensors may be gone when someone launches this library again
            decline(self.case, code)
            said = library.diagnosis().splitlines() + left_in(workspace, self.scratch_bytes, unzeroed)
            if code and not said:
                said = [f"launch_failed: launch returns cudaError {code}{error_name(code)}"]
            if said:
                order = [f"scheduler seed {self._options['seed']}"] if self._options.get("seed") else []
                said = cpu_library.with_buffers(said, self.files)
                kind = DataRace if said[0].startswith(cpu_library.RACES) else Diagnosed
                raise kind(said + order, code)
            return outputs

        return call
