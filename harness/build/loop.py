"""Builds loop.cpp, the timing loop of users' kernels."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")


def build() -> Path:
    """The shared library. Raises CompileError where no C++ compiler makes it."""
    from cuda_kernels import build, cpu_build, toolchain
    from harness.operators.errors import CompileError

    try:
        return cpu_build.plain(SOURCE)
    except (build.CompileError, toolchain.ToolchainError) as error:
        raise CompileError(f"the timing loop: {error}") from None
