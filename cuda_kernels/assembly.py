"""The PTX of a kernel and what ptxas makes of it, for reading: nothing is linked, nothing can be launched."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cuda_kernels.build import CompileError, flags
from cuda_kernels.patched import HERE, kernel_file
from cuda_kernels.toolchain import toolchain


def assemble(kernel: str | Path, defines: Mapping[str, int], arch: str) -> tuple[str, bytes]:
    """(PTX, cubin) of cuda_kernels/<kernel>.cu, or of a file anywhere, for `arch`, with the flags of `build`. Raises
    ToolchainError, CompileError."""
    tools, target = toolchain(), arch.removeprefix("sm_")
    options = [flag for flag in flags(arch, defines) if not flag.startswith(("-gencode", "-Xcompiler", "-Xptxas"))]
    with tempfile.TemporaryDirectory() as place:
        ptx, cubin = Path(place) / "kernel.ptx", Path(place) / "kernel.cubin"
        source = kernel if isinstance(kernel, Path) else kernel_file(kernel, HERE)
        compute = f"arch=compute_{target},code=compute_{target}"
        _call(tools.bin / "nvcc", *options, f"-gencode={compute}", f"-I{HERE}", "-ptx", "-o", ptx, source)
        _call(tools.bin / "ptxas", "-O3", f"-arch={arch}", "-o", cubin, ptx)
        return ptx.read_text(), cubin.read_bytes()


def _call(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"{Path(command[0]).name}: {(done.stdout + done.stderr).strip()}")
