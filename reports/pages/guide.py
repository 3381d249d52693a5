"""The pages of the guide: Markdown of notes/guide, and the planted bugs with what one of them prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from harness.catalog import planted
from reports.data import links
from reports.pages import listing

NOTES = Path(__file__).resolve().parent.parent / "notes" / "guide"
BUG = "ring_wrong_phase_at_empty"
PATCH = f"{planted.FOLDER}/{BUG}.patch"
CHECK = ("check", "warp_specialized", "--backend", "cuda", "--on", "cpu")
"""The command that diagnoses it."""
PRINTED = NOTES / "cpu_printed.txt"
"""What that command prints about the first problem; tests/unit/reports/test_guide.py holds it against a run."""


def reading() -> dict[str, Any]:
    """The variables of the page of the method."""
    about = {"sections": links.SECTIONS, "ptx_isa": links.PTX_ISA}
    return {"title": "How to read this report", "text": _text("reading", about)}


def judging() -> dict[str, Any]:
    """The variables of the page of what counts as right, and as slower."""
    return {"title": "Right, slower, or noise?", "text": _text("judging", {})}


def verifying() -> dict[str, Any]:
    """The variables of the page of what a kernel cannot feign."""
    return {"title": "Can a kernel cheat?", "text": _text("verifying", {})}


def training() -> dict[str, Any]:
    """The variables of the page of gradients."""
    return {"title": "Train with the flagship", "text": _text("training", {})}


def gpus() -> dict[str, Any]:
    """The variables of the page of several GPUs."""
    return {"title": "Every GPU at once", "text": _text("gpus", {})}


def _text(name: str, variables: Mapping[str, Any]) -> Markup:
    """notes/guide/<name>.md as HTML."""
    written = Environment(undefined=StrictUndefined, autoescape=False).from_string((NOTES / f"{name}.md").read_text())
    markdown = MarkdownIt("commonmark", {"html": False, "highlight": _highlighted}).enable("table")
    html = markdown.render(written.render(variables))
    return Markup(html.replace("<pre>", '<pre class="code">'))


def _highlighted(code: str, language: str, _: str) -> str:
    """Empty for text in no language, which Markdown then escapes."""
    return str(listing.highlighted(code, language)) if language else ""  # Markup would escape the tags around it


def cpu() -> dict[str, Any]:
    """The variables of the page of kernels on a CPU."""
    bug = planted.find(BUG)
    diff = bug.path.read_text()
    about = {
        "patch": PATCH,
        "check": "python3 -m harness " + " ".join(CHECK),
        "diff": diff[diff.index("--- ") :],
        "broken": bug,
        "printed": PRINTED.read_text(),
        "bugs": planted.bugs(),
        "plain": lambda text: re.sub(r"([\\`*_|<\[])", r"\\\1", text),
    }
    return {"title": "Run the kernels on a CPU", "text": _text("cpu", about)}
