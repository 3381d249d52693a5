"""Bugs planted into the real kernels: tests/planted/<name>.patch (standard library only).

A patch opens with prose, then `technique:` (the kernel that it breaks) and `diagnosis:` (the name that the CPU runtime
gives it); git ignores what stands before the diff.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from harness.catalog.sources import ROOT

FOLDER = Path("tests") / "planted"


@dataclass(frozen=True)
class Bug:
    """One patch: its path, its prose, the technique that it breaks, the name of the diagnosis."""

    path: Path
    story: str
    technique: str
    diagnosis: str

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Bug:
    """Raises ValueError when a patch does not name its technique and diagnosis before the diff."""
    head = path.read_text().partition("\n--- ")[0]
    fields = dict(re.findall(r"^(technique|diagnosis): (\S+)$", head, re.MULTILINE))
    for name in ("technique", "diagnosis"):
        if name not in fields:
            raise ValueError(f"{path.name}: got no line `{name}: ...`, expected one before the diff")
    return Bug(path, " ".join(head.partition("\ntechnique:")[0].split()), **fields)


def find(name: str) -> Bug:
    """The bug of this name. Raises FileNotFoundError where there is none, and what `read` raises."""
    return read(ROOT / FOLDER / f"{name}.patch")


def bugs() -> list[Bug]:
    return [read(path) for path in sorted((ROOT / FOLDER).glob("*.patch"))]
