"""Where CUDA's compiler and headers are. Everything that needs them asks here, the set-up of a bare Python included:
standard library only."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OLDEST = (12, 8)
"""The first release that compiles for every architecture of the registry: sm_120a is new in it."""


class ToolchainError(RuntimeError):
    """No usable compiler; the message says how to get one."""


@dataclass(frozen=True)
class Toolchain:
    """The CUDA compiler: its home folder and the versions of nvcc and ptxas."""

    home: Path
    nvcc: str
    ptxas: str

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def new_enough(self) -> bool:
        return tuple(map(int, self.nvcc.split(".")[:2])) >= OLDEST


def system_homes() -> list[Path]:
    """Folders in which a CUDA toolkit may be: $CUDA_HOME, that of nvcc on PATH, /usr/local/cuda, in this order."""
    homes = [Path(home) for home in (os.environ.get("CUDA_HOME"),) if home]
    if on_path := shutil.which("nvcc"):
        homes.append(Path(on_path).resolve().parents[1])
    return [*homes, Path("/usr/local/cuda")]


def homes() -> list[Path]:
    """`system_homes`, then NVIDIA's wheels in this Python."""
    wheels = importlib.util.find_spec("nvidia")
    places = wheels.submodule_search_locations if wheels else None
    return [*system_homes(), *(Path(place) / "cu13" for place in places or ())]


def find(homes: Iterable[Path]) -> Toolchain | None:
    """The first complete toolkit in these folders that is not older than OLDEST."""
    return next((tools for tools in map(_read, homes) if tools and tools.new_enough), None)


@functools.cache
def toolchain() -> Toolchain:
    """The compiler that builds the CUDA twins. Raises ToolchainError when there is none."""
    if found := find(homes()):
        return found
    old = [f"{tools.nvcc} in {tools.home}" for tools in map(_read, homes()) if tools]
    raise ToolchainError(
        f"nvcc: got {' and '.join(old) or 'none'}, expected {OLDEST[0]}.{OLDEST[1]} or newer in $CUDA_HOME, on PATH, "
        "in /usr/local/cuda or from NVIDIA's wheels; install it with: pip install -e '.[nvcc]'"
    )


def release(tool: Path) -> str | None:
    """13.0.88 from `tool --version`, None when it does not run."""
    try:
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", said)
    return match[1] if match else None


def _read(home: Path) -> Toolchain | None:
    """What is in this folder; None where a part is missing or does not run."""
    if not (home / "include" / "cuda_runtime.h").is_file():
        return None
    nvcc, ptxas = (release(home / "bin" / tool) for tool in ("nvcc", "ptxas"))
    return Toolchain(home, nvcc, ptxas) if nvcc and ptxas else None
