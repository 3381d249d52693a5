"""Builds loop.cpp, the timing loop of users' kernels, once a checkout."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")


def build() -> Path:
    """The shared library. Raises CompileError where no C++ compiler makes it."""
    from cuda_kernels import cpu_build, patched, toolchain
    from harness.operators.errors import CompileError

    library = patched.CACHE / "loop" / f"{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if library.is_file():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_suffix(f".{os.getpid()}")
    flags = ("-O2", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden")
    try:
        command = [cpu_build.compiler(), *flags, "-o", str(partial), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, text=True)
    except toolchain.ToolchainError as error:
        raise CompileError(f"the timing loop: {error}") from None
    except subprocess.CalledProcessError as error:
        raise CompileError(f"the timing loop: {error.stderr}") from None
    partial.replace(library)
    return library
