"""A rung gets another name: in rows, and in the references of notes. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_REFERENCE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def rename_rows(rows: Iterable[dict[str, Any]], old: str, new: str) -> int:
    """Gives the technique its new name, in place, wherever a row speaks of it. Returns how many rows are about it."""
    count = 0
    for row in rows:
        if row.get("technique") == old:
            row["technique"] = new
            count += 1
        if "order" in row:
            row["order"] = [_label(label, old, new) for label in row["order"]]
        details = row.get("details") or {}
        if again := details.get("again"):
            row["details"] = details = details | {"again": again | {"of": _label(again["of"], old, new)}}
        if details.get("same_program") == old:
            row["details"] = details | {"same_program": new}
    return count


def rename_in_note(text: str, old: str, new: str) -> str:
    """A note with the new name in its references and, where no plain word could be meant, in its sentences."""
    if "_" in old:
        return re.sub(rf"\b{re.escape(old)}\b", new, text)
    return _REFERENCE.sub(lambda found: found[0].replace(f'"{old}"', f'"{new}"'), text)


def _label(label: str, old: str, new: str) -> str:
    """The label of a case begins with its technique."""
    first, space, rest = label.partition(" ")
    return f"{new}{space}{rest}" if first == old else label
