"""What the guide's pages show that is not prose: the planted bugs, and what one of them prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import sources
from reports import listing

PATCH = "tests/planted/ring_wrong_phase_at_empty.patch"
CHECK = ("check", "warp_specialized", "--backend", "cuda", "--on", "cpu")
"""The command that diagnoses it."""
PRINTED = Path(__file__).resolve().parent / "templates" / "guide_cpu_printed.txt"
"""What that command prints about the first problem; tests/test_guide.py holds it against a run."""


@dataclass(frozen=True)
class Bug:
    """A patch below tests/planted: its prose, the technique that it breaks, the name of the diagnosis."""

    file: str
    story: str
    technique: str
    diagnosis: str


def planted_bugs(root: Path = sources.ROOT) -> list[Bug]:
    return [_bug(path) for path in sorted((root / "tests" / "planted").glob("*.patch"))]


def cpu(root: Path = sources.ROOT) -> dict[str, Any]:
    """The variables of guide_cpu.html."""
    patch = root / PATCH
    diff = patch.read_text()
    return {
        "patch": PATCH,
        "check": "python3 -m harness " + " ".join(CHECK),
        "diff": listing.highlighted(diff[diff.index("--- ") :], "diff"),
        "broken": _bug(patch),
        "printed": PRINTED.read_text(),
        "bugs": planted_bugs(root),
    }


def _bug(path: Path) -> Bug:
    head = path.read_text().partition("\ndiff ")[0]
    fields = dict(re.findall(r"^(technique|diagnosis): (\S+)$", head, re.MULTILINE))
    story = " ".join(head.partition("\ntechnique:")[0].split())
    return Bug(path.name, story, fields["technique"], fields["diagnosis"])
