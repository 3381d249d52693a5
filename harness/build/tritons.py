"""A Triton of each version beside the installed one: build/triton/<version>, without torch, for compiling alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from harness.catalog import sources

FOLDER = sources.ROOT / "build" / "triton"
PLUGIN = "triton-utlx==3.8.0.post16"
"""TLX, Meta's extensions: 5 MB of plugin for the stock Triton 3.8.0."""
MEGABYTES = {"3.6.0": 667, "3.7.1": 691, "3.8.0": 897, "3.9.0": 999}
"""Size of each version on disk."""


class MissingTriton(RuntimeError):
    """The version that was asked for is not here; the message says how to get it."""


def installed() -> str | None:
    """The version of this Python's own Triton."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def folder(version: str) -> Path:
    """Where a version is, if it is here."""
    return FOLDER / version


def plugin() -> Path:
    """Where TLX is, if it is here."""
    return FOLDER / "utlx"


def name(version: str, dialect: str = "triton") -> str:
    """What a compiler is called: triton 3.8.0 with TLX."""
    return f"triton {version}" + (" with TLX" if dialect == "tlx" else "")


def is_here(version: str, dialect: str = "triton") -> bool:
    """Whether a version, and for TLX its plugin, can compile here."""
    here = version == installed() or (folder(version) / "triton" / "__init__.py").is_file()
    return here and (dialect != "tlx" or (plugin() / "utlx_plugin" / "libutlx.so").is_file())


def variables(version: str, dialect: str = "triton") -> dict[str, str]:
    """The environment of a process that compiles with this version. Raises MissingTriton."""
    if not is_here(version, dialect):
        size = f" ({MEGABYTES[version]} MB)" if version in MEGABYTES else ""
        raise MissingTriton(
            f"{name(version, dialect)}: not in build/triton, expected there{size}; "
            f"`twinkernels expressibility --triton {version} --install` installs it"
        )
    inherited = {key: value for key, value in os.environ.items() if not re.match(r"TRITON_|DISABLE_MMA", key)}
    path = [] if version == installed() else [str(folder(version))]
    added = {"TRITON_CACHE_DIR": str(sources.ROOT / "build" / "expressibility" / "triton")}
    if dialect == "tlx":
        path.append(str(plugin()))
    return {**inherited, **added, "PYTHONPATH": os.pathsep.join(path)}


def install(version: str, dialect: str = "triton") -> None:
    """Downloads and unpacks a version, and the plugin for TLX. Raises RuntimeError with pip's words."""
    todo = [] if is_here(version) else [(f"triton=={version}", folder(version))]
    if dialect == "tlx" and not is_here(version, dialect):
        todo.append((PLUGIN, plugin()))
    for package, target in todo:
        unpack([package], target)


def unpack(packages: Sequence[str], target: Path) -> None:
    """Downloads packages, and none that they depend on, into a folder of their own; by uv where it is on PATH, else by
    pip. Raises RuntimeError with its words."""
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    command = [*installer, "--quiet", "--no-deps", "--target", str(part), *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip install {' '.join(packages)}: {done.stderr.strip()[-400:]}")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
