"""The pages of the guide: Markdown of notes/guide, and the planted bugs with what one of them prints."""

import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from harness import operators
from harness.catalog import planted
from harness.catalog.entries import Technique
from reports.pages import listing, prose

NOTES = Path(__file__).resolve().parent.parent / "notes" / "guide"
BUG = "ring_wrong_phase_at_empty"
PATCH = f"{planted.FOLDER}/{BUG}.patch"
CHECK = ("check", "warp_specialized", "--backend", "cuda", "--on", "cpu")
PRINTED = NOTES / "cpu_printed.txt"
"""What that command prints about the first problem; tests/unit/reports/test_guide.py holds it against a run."""
PTX_ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"
SECTIONS = {
    "mma": "warp-level-matrix-instructions-mma",
    "ldmatrix": "warp-level-matrix-instructions-ldmatrix",
    "stmatrix": "warp-level-matrix-instructions-stmatrix",
    "wgmma": "asynchronous-warpgroup-level-matrix-instructions",
    "cp.async": "data-movement-and-conversion-instructions-cp-async",
    "cp.async.bulk.tensor": "data-movement-and-conversion-instructions-cp-async-bulk-tensor",
    "mbarrier": "parallel-synchronization-and-communication-instructions-mbarrier",
    "bar": "parallel-synchronization-and-communication-instructions-bar",
    "setmaxnreg": "miscellaneous-instructions-setmaxnreg",
}
TITLES = {
    "reading": "How to read this report",
    "judging": "Right, slower, or noise?",
    "verifying": "Can a kernel cheat?",
    "cpu": "Run the kernels on a CPU",
    "gpus": "Every GPU at once",
    "training": "Train with the flagship",
}
"""Note, and page -> its title."""


def page(name: str) -> dict[str, Any]:
    markdown = MarkdownIt("commonmark", {"html": False, "highlight": _highlighted}).enable("table")
    about = {"sections": SECTIONS, "ptx_isa": PTX_ISA, **_broken()}
    html = markdown.render(prose.filled((NOTES / f"{name}.md").read_text(), about))
    return {"title": TITLES[name], "text": Markup(html.replace("<pre>", '<pre class="code">'))}


def ptx(technique: Technique) -> dict[str, str]:
    """Instruction -> address, of those that a technique is about."""
    names = operators.get(technique.operator).instructions.get(technique.name, ())
    return {name: PTX_ISA + SECTIONS[name] for name in names}


def _highlighted(code: str, language: str, _: str) -> str:
    """Empty for text in no language, which Markdown then escapes."""
    return str(listing.highlighted(code, language)) if language else ""  # Markup would escape the tags around it


def _broken() -> dict[str, Any]:
    """The planted bugs, and what the check says of one of them."""
    bug = planted.find(BUG)
    diff = bug.path.read_text()
    return {
        "patch": PATCH,
        "check": "twinkernels " + " ".join(CHECK),
        "diff": diff[diff.index("--- ") :],
        "broken": bug,
        "printed": PRINTED.read_text(),
        "bugs": planted.bugs(),
        "plain": lambda text: re.sub(r"([\\`*_|<\[])", r"\\\1", text),
    }
