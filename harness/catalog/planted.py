"""Bugs planted into the real kernels: tests/planted/<name>.patch (standard library only).

A patch opens with prose, then `diagnosis:`, the name that the CPU runtime gives the bug. One that changes a header says
by `technique:` which kernel it breaks; the others break the one that they change. Git ignores what stands before the
diff.
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
    """Raises ValueError when a patch does not name its diagnosis and its technique before the diff."""
    head, _, diff = path.read_text().partition("\n--- a/cuda_kernels/")
    fields = dict(re.findall(r"^(technique|diagnosis): (\S+)$", head, re.MULTILINE))
    if kernel := re.match(r"(\w+)/\w+/(\w+)\.cu\n", diff):
        fields.setdefault("technique", f"{kernel[1]}/{kernel[2]}")
    for name in ("technique", "diagnosis"):
        if name not in fields:
            raise ValueError(f"{path.name}: got no line `{name}: ...`, expected one before the diff")
    return Bug(path, " ".join(re.split(r"\n(?:technique|diagnosis):", head)[0].split()), **fields)


def find(name: str) -> Bug:
    """The bug of this name. Raises FileNotFoundError where there is none, and what `read` raises."""
    return read(ROOT / FOLDER / f"{name}.patch")


def bugs() -> list[Bug]:
    return [read(path) for path in sorted((ROOT / FOLDER).glob("*.patch"))]
