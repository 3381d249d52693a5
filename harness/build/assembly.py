"""What a CUDA kernel compiles to, as text, on a machine with nvcc and without a GPU."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.build import machine_code
from harness.build.cuda import constants, cuda_file
from harness.catalog.cases import Case
from harness.operators.errors import CompileError

Texts = dict[str, str]


def twin(case: Case, arch: str) -> Texts:
    """`ptx`, `sass` and `usage` (cuobjdump's line of resources) of a CUDA twin. Raises CompileError, ToolchainError."""
    return texts(cuda_file(case), constants(case), arch)


def texts(path: str | Path, defines: Mapping[str, int], arch: str) -> Texts:
    """`ptx`, `sass` and `usage` of cuda_kernels/<path>.cu. Raises CompileError, ToolchainError."""
    from cuda_kernels import assembly, build

    try:
        ptx, cubin = assembly.assemble(path, defines, arch)
    except build.CompileError as error:
        raise CompileError(str(error)) from None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        sass, usage = (
            subprocess.run(
                [machine_code.disassembler(), option, file.name], capture_output=True, text=True, check=True
            ).stdout
            for option in ("-sass", "-res-usage")
        )
    return {"ptx": ptx, "sass": sass, "usage": usage}
