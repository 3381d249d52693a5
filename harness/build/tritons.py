"""Compilers beside the installed Triton, without torch, for compiling alone: other versions of Triton, TLX, and the
languages of NVIDIA's own. A dialect is triton, gluon, tlx, cute or cutile."""

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
RIVALS = {"cute": "CuTe DSL", "cutile": "cuTile"}
"""Languages of NVIDIA's own that compile without a GPU. A second, smaller table is theirs; nothing of them is timed."""

PACKAGES = {
    "cute": (
        *(f"nvidia-cutlass-dsl{part}==4.8.1" for part in ("", "-libs-base", "-libs-core", "-libs-cu12")),
        *("cuda-bindings==13.5.0", "cuda-pathfinder==1.9.0", "protobuf==7.36.2", "typing-extensions==4.16.0"),
    ),
    "cutile": (
        "cuda-tile==1.7.0",
        *(f"nvidia-{part}==13.5.37" for part in ("cuda-tileiras", "cuda-nvcc", "nvvm")),  # Tile IR to PTX to SASS
        "typing-extensions==4.16.0",
    ),
}
"""Rival -> all that it needs to compile without a GPU. Its assembler decides what the machine code shows, so all
versions are pinned."""
MEGABYTES = {"3.6.0": 667, "3.7.1": 691, "3.8.0": 897, "3.9.0": 999, "cute": 294, "cutile": 423}
"""Size of each Triton, and of each rival, on disk."""


class MissingTriton(RuntimeError):
    """The version that was asked for is not here; the message says how to get it."""


def installed() -> str | None:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def folder(version: str, dialect: str = "triton") -> Path:
    """Where a compiler is, if it is here; of TLX the plugin."""
    if dialect in RIVALS:
        return FOLDER.parent / dialect / version
    return FOLDER / ("utlx" if dialect == "tlx" else version)


def name(version: str, dialect: str = "triton") -> str:
    """What a compiler is called: triton 3.8.0 with TLX."""
    if dialect in RIVALS:
        return f"{RIVALS[dialect]} {version}"
    return f"triton {version}" + (" with TLX" if dialect == "tlx" else "")


def megabytes(version: str, dialect: str = "triton") -> int | None:
    """Size on disk; None if unknown."""
    return MEGABYTES.get(dialect if dialect in RIVALS else version)


def is_here(version: str, dialect: str = "triton") -> bool:
    if dialect in RIVALS:
        return folder(version, dialect).is_dir()
    here = version == installed() or (folder(version) / "triton" / "__init__.py").is_file()
    return here and (dialect != "tlx" or (folder(version, dialect) / "utlx_plugin" / "libutlx.so").is_file())


def variables(version: str, dialect: str = "triton") -> dict[str, str]:
    """The environment of a process that compiles with it. Raises MissingTriton, for a rival too."""
    if not is_here(version, dialect):
        size = f" ({found} MB)" if (found := megabytes(version, dialect)) else ""
        place, option = (dialect, "--rivals") if dialect in RIVALS else ("triton", f"--triton {version}")
        raise MissingTriton(
            f"{name(version, dialect)}: not in build/{place}, expected there{size}; "
            f"`twinkernels expressibility {option} --install` installs it"
        )
    if dialect in RIVALS:
        return {**os.environ, "PYTHONPATH": str(folder(version, dialect))}
    inherited = {key: value for key, value in os.environ.items() if not re.match(r"TRITON_|DISABLE_MMA", key)}
    path = [] if version == installed() else [str(folder(version))]
    if dialect == "tlx":
        path.append(str(folder(version, dialect)))
    cache = str(sources.ROOT / "build" / "expressibility" / "triton")
    return {**inherited, "TRITON_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(path)}


def install(version: str, dialect: str = "triton") -> None:
    """Downloads and unpacks a compiler, with TLX its Triton too. Raises RuntimeError with pip's words."""
    if dialect in RIVALS:
        return unpack(PACKAGES[dialect], folder(version, dialect))
    if not is_here(version):
        unpack([f"triton=={version}"], folder(version))
    if dialect == "tlx" and not is_here(version, dialect):
        unpack([PLUGIN], folder(version, dialect))


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
