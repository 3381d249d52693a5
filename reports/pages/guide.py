"""What the guide's pages show that is not prose: the planted bugs, and what one of them prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.catalog import planted
from reports.data import links
from reports.pages import listing

BUG = "ring_wrong_phase_at_empty"
PATCH = f"{planted.FOLDER}/{BUG}.patch"
CHECK = ("check", "warp_specialized", "--backend", "cuda", "--on", "cpu")
"""The command that diagnoses it."""
PRINTED = Path(__file__).resolve().parent.parent / "templates" / "guide_cpu_printed.txt"
"""What that command prints about the first problem; tests/unit/reports/test_guide.py holds it against a run."""


def reading() -> dict[str, Any]:
    """The variables of guide_reading.html."""
    return {"reading": links.READING, "sections": links.SECTIONS, "ptx_isa": links.PTX_ISA}


def cpu() -> dict[str, Any]:
    """The variables of guide_cpu.html."""
    bug = planted.find(BUG)
    diff = bug.path.read_text()
    return {
        "patch": PATCH,
        "check": "python3 -m harness " + " ".join(CHECK),
        "diff": listing.highlighted(diff[diff.index("--- ") :], "diff"),
        "broken": bug,
        "printed": PRINTED.read_text(),
        "bugs": planted.bugs(),
    }
