"""NVIDIA's own tools: where compute-sanitizer and ncu are, and which versions they have."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HOW_TO_GET = {
    "compute-sanitizer": "it comes with the CUDA toolkit (package cuda-sanitizer)",
    "ncu": "it comes with the CUDA toolkit (package nsight-compute)",
}


def locate(name: str) -> Path | None:
    """The tool from PATH, $CUDA_HOME/bin or /usr/local/cuda/bin, in this order."""
    folders = [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    if home := os.environ.get("CUDA_HOME"):
        folders.insert(1, f"{home}/bin")
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found) if found else None


def find(name: str) -> Path:
    """What `locate` finds. Raises FileNotFoundError, with the way to get the tool."""
    if found := locate(name):
        return found
    raise FileNotFoundError(
        f"{name}: got none, expected one on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin; {HOW_TO_GET[name]}"
    )


def version(tool: Path) -> str | None:
    """2025.3.1.0 from the line `Version 2025.3.1.0 (...)` of `tool --version`; None where it says no such thing."""
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout
    lines = (line.split() for line in said.splitlines())
    return next((words[1] for words in lines if words[:1] == ["Version"] and len(words) > 1), None)
