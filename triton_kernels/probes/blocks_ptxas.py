"""The option ptx_options hands ptxas a minimum of blocks per SM, in core Triton and in Gluon."""

import re
import subprocess
import tempfile
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("core", "core plain", "Gluon", "Gluon plain")


@triton.jit
def copy(x_ptr, y_ptr):  # each of 128 threads holds 256 values
    index = tl.arange(0, 32768)
    tl.store(y_ptr + index, tl.load(x_ptr + index))


@gluon.jit
def copy_in_gluon(x_ptr, y_ptr):
    index = gl.arange(0, 32768, gl.BlockedLayout([4], [32], [4], [0]))
    gl.store(y_ptr + index, gl.load(x_ptr + index))


def build(form):
    pointers = {"x_ptr": "*fp32", "y_ptr": "*fp32"}
    source = GluonASTSource(copy_in_gluon, pointers) if "Gluon" in form else ASTSource(copy, pointers)
    extra = {} if "plain" in form else {"ptx_options": "--minnctapersm=4"}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, **extra})


if __name__ == "__main__":
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    for form in FORMS:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            Path(file.name).write_bytes(build(form).asm["cubin"])
            usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True).stdout
        print(form, *(f"registers {number}" for number in re.findall(r"REG:(\d+)", usage)))
