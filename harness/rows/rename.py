"""A rung, or its programs in some languages, gets another name: in rows, and in the references of notes.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

REFERENCE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
"""To rows, in a note."""


def rename_rows(rows: Iterable[dict[str, Any]], old: str, new: str, backends: Collection[str] = ()) -> int:
    """Gives the technique its new name, in place, wherever a row speaks of it; with `backends`, only of it in those.
    Returns how many rows are about it."""
    count = 0
    for row in rows:
        moves = not backends or row.get("backend") in backends
        if moves and row.get("technique") == old:
            row["technique"] = new
            count += 1
        if "order" in row:
            row["order"] = [_label(label, old, new, backends) for label in row["order"]]
        details = row.get("details") or {}
        if again := details.get("again"):
            row["details"] = details = details | {"again": again | {"of": _label(again["of"], old, new, backends)}}
        if moves and details.get("same_program") == old:
            row["details"] = details | {"same_program": new}
    return count


def rename_in_note(text: str, old: str, new: str, backends: Collection[str] = ()) -> str:
    """A note with the new name in its references and, where no plain word could be meant, in its sentences. With
    `backends`, only in references to those: a sentence may be about any."""
    if backends:
        cell = re.compile(rf'"{re.escape(old)}"(?=,\s*"(?:{"|".join(map(re.escape, backends))})")')
        return REFERENCE.sub(lambda found: cell.sub(f'"{new}"', found[0]), text)
    if "_" in old:
        return re.sub(rf"\b{re.escape(old)}\b", new, text)
    return REFERENCE.sub(lambda found: found[0].replace(f'"{old}"', f'"{new}"'), text)


def _label(label: str, old: str, new: str, backends: Collection[str]) -> str:
    """The label of a case begins with its technique and its backend."""
    first, *rest = label.split(" ")
    moves = first == old and (not backends or (rest[:1] and rest[0] in backends))
    return " ".join([new, *rest]) if moves else label
