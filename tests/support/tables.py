"""Made-up rows as the tables of rows/frame.py."""

from collections.abc import Iterable, Mapping
from typing import Any

from harness.rows.frame import table


def tables(
    rows: Iterable[Mapping[str, Any]], hashes: Mapping[tuple[str, str], str], kinds: Iterable[str] = ("timing", "gate")
) -> list[Any]:
    """One a kind. `hashes`: (technique, backend) -> hash of the sources that are current."""
    rows = list(rows)
    found = []
    for kind in kinds:
        made = table(kind, rows)
        programs = zip(made.technique, made.backend, made.source_sha256, strict=True)
        made["current"] = [not isinstance(name, str) or hashes.get((name, by)) == sha for name, by, sha in programs]
        if kind == "timing":
            made["usable"] = made.current & (made.status == "passed") & made.ms.notna()
        found.append(made)
    return found
