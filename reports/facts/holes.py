"""Rows that are not a pass, as pages list them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reports.data.dataset import Row, why, without_case


@dataclass
class Hole:
    """Rows that are not a pass for one reason. `cells`: backend, technique and where, row by row."""

    status: str
    check: str | None
    reason: str | None
    cells: list[tuple[str, str, str]]

    @property
    def kernels(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((backend, technique) for backend, technique, _ in self.cells))


def group_holes(rows: Iterable[Row]) -> list[Hole]:
    """Holes with one status and reason together, whatever the kernel."""
    found: dict[tuple[Any, ...], Hole] = {}
    for row in rows:
        how = row.mode or row.tool
        reason, where = row.reason, [row.problem, row.kind, how, row.tile]
        if row.status == "unsupported" and reason:
            reason = without_case(reason)  # the cells say which
        if row.status == "not_converged" and row.samples_ms:
            reason = "the median is not certain enough after the time that it was given"
            where.append(why(row).partition(": ")[2])
        what = (row.status, row.check, reason)
        cell = (row.backend, row.technique or "", " ".join(filter(None, where)))
        found.setdefault(what, Hole(*what, [])).cells.append(cell)
    return list(found.values())
