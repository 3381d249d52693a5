"""What compiles the programs of proofs: a Triton of harness/build/tritons.py, or the packages of a rival.

A rival's packages are in build/<dialect>/<version>. Their versions are pinned, because its assembler decides what the
machine code shows.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.build import tritons
from harness.catalog import sources
from harness.expressibility.claims import PACKAGES, RIVALS

MEGABYTES = {"cute": 294, "cutile": 423}
"""On disk."""


def folder(rival: str, version: str) -> Path:
    return sources.ROOT / "build" / rival / version


def name(version: str, dialect: str = "triton") -> str:
    return f"{RIVALS[dialect]} {version}" if dialect in RIVALS else tritons.name(version, dialect)


def megabytes(version: str, dialect: str = "triton") -> int | None:
    """On disk, where it is known."""
    return MEGABYTES[dialect] if dialect in RIVALS else tritons.MEGABYTES.get(version)


def is_here(version: str, dialect: str = "triton") -> bool:
    return folder(dialect, version).is_dir() if dialect in RIVALS else tritons.is_here(version, dialect)


def variables(version: str, dialect: str = "triton") -> dict[str, str]:
    """The environment of a process that compiles with it. Raises tritons.MissingTriton, for a rival too."""
    if dialect not in RIVALS:
        return tritons.variables(version, dialect)
    if not is_here(version, dialect):
        raise tritons.MissingTriton(
            f"{name(version, dialect)}: not in build/{dialect}, expected there ({MEGABYTES[dialect]} MB); "
            "`twinkernels expressibility --rivals --install` installs it"
        )
    return {**os.environ, "PYTHONPATH": str(folder(dialect, version))}


def install(version: str, dialect: str = "triton") -> None:
    """Downloads and unpacks it. Raises RuntimeError with pip's words."""
    if dialect in RIVALS:
        tritons.unpack(PACKAGES[dialect], folder(dialect, version))
    else:
        tritons.install(version, dialect)
