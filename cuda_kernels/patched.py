"""A kernel's file. An ablation is a patch on another kernel: its file is written to the build folder.

A patch opens with prose, which becomes the head comment of the kernel. Its diff names the kernel that it changes, below
cuda_kernels/. A hunk belongs where its lines are, whatever line number it gives. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("TWINKERNELS_CACHE") or HERE.parent / "build").absolute()
"""What is built, by the hash of what it is built from: checkouts can share it. As in harness/catalog/sources.py."""


def kernel_file(kernel: str, root: Path = HERE) -> Path:
    """`operator/ladder/name` -> root/operator/ladder/name.cu, whether or not it exists; or, where a patch is there
    instead, what the patch makes. Raises ValueError for a patch that does not fit its base."""
    path = root / f"{kernel}.cu"
    patch = path.with_suffix(".patch")
    if path.is_file() or not patch.is_file():
        return path
    text = source(patch, root)
    made = CACHE / "patched" / hashlib.sha256(text.encode()).hexdigest()[:16] / path.name
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_suffix(f".{uuid.uuid4().hex}.partial")
        partial.write_text(text)
        partial.replace(made)
    return made


def base(patch: Path, root: Path = HERE) -> Path:
    """The kernel that a patch changes. Raises ValueError where the patch does not name a file below `root`."""
    found = re.search(r"^--- a/cuda_kernels/(\S+)$", patch.read_text(), re.MULTILINE)
    path = root / found[1] if found else root
    if not path.is_file():
        raise ValueError(f"{patch.name}: got no line `--- a/cuda_kernels/FILE.cu` of a kernel that is here; add it")
    return path


def source(patch: Path, root: Path = HERE) -> str:
    """The text of a patch's kernel. Raises ValueError for a patch that does not fit its base."""
    changed = base(patch, root)
    prose, *hunks = re.split(r"^@@[^\n]*\n", patch.read_text(), flags=re.MULTILINE)
    text, place = "\n" + re.sub(r"\A(//[^\n]*\n)+", "", changed.read_text()), 0  # every line follows a line break
    for number, hunk in enumerate(hunks, 1):
        before, after = (_side(hunk, sign) for sign in "-+")
        start = text.find(before, place)
        if start < 0 or text.find(before, start + 1) >= 0:
            raise ValueError(
                f"{patch.name}: hunk {number} of {len(hunks)} does not fit {changed.name}; expected these lines once "
                f"behind the hunk before it; renew the hunk, with more context where they occur again:{before}"
            )
        text = text[:start] + after + text[start + len(before) :]
        place = start + len(after) - 1
    head = [f"// {line}".rstrip() for line in prose.partition("\n--- ")[0].strip().splitlines()]
    return "\n".join(head) + text


def _side(hunk: str, sign: str) -> str:
    """The lines of a hunk that are there before ("-") or after ("+"), and the line breaks around them."""
    return "\n" + "".join(f"{line[1:]}\n" for line in hunk.splitlines() if line[:1] in ("", " ", sign))
