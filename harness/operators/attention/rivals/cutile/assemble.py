"""Compiles a cuTile kernel to PTX and machine code for sm_90, without a GPU.

tileiras calls the ptxas that lies beside it. Here this is a script that keeps the PTX and, given an `edit` (a sed
expression), first edits it: a way outside the language.
"""

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import cuda.tile as ct
import nvidia
from cuda.tile import compilation

TOOLS = Path(next(iter(nvidia.__path__)), "cu13")
PTXAS = """#!/bin/sh
sed -i "$EDIT" "$3" && cp "$3" kernel.ptx
{}/bin/ptxas "$@" 2> said && exit
cat said && exit 1
"""


def assembled(kernel, arrays, edit="", level=3):
    """{"ptx", "cubin"} of a kernel that takes `arrays` fp16 matrices, at an optimization level from 0 to 3. Raises
    RuntimeError with the tools' words."""
    constraint = compilation.ArrayConstraint(
        ct.float16,
        2,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        stride_constant=(None, 1),
        stride_divisible_by=(16, 1),
        shape_divisible_by=16,
        base_addr_divisible_by=16,
        alias_groups=(),
        may_alias_internally=False,
    )
    convention = compilation.CallingConvention.cutile_python_v1()
    signature = compilation.KernelSignature([constraint] * arrays, convention)
    bytecode = io.BytesIO()
    compilation.export_kernel(kernel, [signature], bytecode, gpu_code="sm_90", output_format="tileir_bytecode")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "bin").mkdir()
        (place / "lib").symlink_to(TOOLS / "lib")
        tileiras, ptxas = shutil.copy(TOOLS / "bin/tileiras", place / "bin"), place / "bin/ptxas"
        ptxas.write_text(PTXAS.format(TOOLS))
        ptxas.chmod(0o755)
        (place / "kernel.bytecode").write_bytes(bytecode.getvalue())
        command = [str(tileiras), "kernel.bytecode", "-o", "kernel.cubin", "--gpu-name", "sm_90", f"-O{level}"]
        done = subprocess.run(command, cwd=place, env={**os.environ, "EDIT": edit}, capture_output=True, text=True)
        if done.returncode:
            said = place / "said"
            raise RuntimeError(done.stderr + (said.read_text() if said.is_file() else ""))
        return {"ptx": (place / "kernel.ptx").read_text(), "cubin": (place / "kernel.cubin").read_bytes()}
