"""What a CPU counted of a kernel beside what ncu counted of the same launch, and the reason where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.rows import reading
from reports.data.dataset import Row
from reports.facts import counters
from reports.facts.counters import Counted

BY_ADDRESS = {
    "bank conflicts, by address": "bank_conflicts",
    "passes over the banks, by address": "wavefronts",
}
"""Names of what follows from the lanes' addresses -> where it is in both rows' totals."""

METRICS = {
    "bank conflicts of loads, by hardware": counters.LOAD_CONFLICTS,
    "bank conflicts of stores, by hardware": counters.STORE_CONFLICTS,
    "ldmatrix executed": counters.LDMATRIX,
    "cp.async executed": "smsp__inst_executed_op_ldgsts.sum",
    "HMMA executed": counters.HMMA,
}
UNEXPLAINED = "not explained"


@dataclass(frozen=True)
class Compared:
    """One count of both. `why` they differ; empty where they are equal."""

    name: str
    cpu: int
    ncu: float
    why: str


def compared(which: Counted | None, rows: list[Row]) -> list[Compared]:
    """Of the first of ncu's rows that is about the same launch of the CUDA twin; empty where there is none."""
    if which is None:
        return []
    cuda = [row for row in rows if row["backend"] == "cuda"]
    found = next((row for row in cuda if _launch(row) == _launch(which.row)), None)
    return list(_compared(which, found)) if found else []


def _launch(row: Row) -> tuple[str, Any]:
    return reading.slug(row), row.get("tile")


def _compared(which: Counted, row: Row) -> Iterator[Compared]:
    details = row["details"]
    expected: dict[str, Any] = which.row["details"].get("ncu", {})
    pairs = [(name, which.totals[key], (details.get("totals") or {}).get(key)) for name, key in BY_ADDRESS.items()]
    if not _banks_are_known(expected):
        pairs = []
    pairs += [(name, expected.get(metric), details["metrics"].get(metric)) for name, metric in METRICS.items()]
    for name, cpu, ncu in pairs:
        if cpu is not None and ncu is not None and (cpu or ncu or name.startswith("bank conflicts")):
            yield Compared(name, cpu, ncu, "" if cpu == ncu else _why(name, cpu, ncu, which, row))


def _banks_are_known(expected: dict[str, Any]) -> bool:
    """Not where wmma moves data: which lane touches what is not documented."""
    return counters.LOAD_CONFLICTS in expected


def _why(name: str, cpu: int, ncu: float, which: Counted, row: Row) -> str:
    if METRICS.get(name) in (counters.LOAD_CONFLICTS, counters.STORE_CONFLICTS) and ncu > cpu:
        return "the hardware also counts passes repeated while something else used the memory; the addresses have none"
    if name in BY_ADDRESS and ncu < cpu and _executes(which, "ld_shared"):
        return "nvcc joins plain loads of neighbouring words, which the source loads one by one"
    census = (row.get("code") or {}).get("census")
    if name == "HMMA executed" and not cpu and census and not census.get("HMMA"):
        return "no HMMA: the counter also holds HFMA2.MMA, with which the compiler sets registers to zero"
    return UNEXPLAINED


def _executes(which: Counted, mnemonic: str) -> bool:
    return any(site["mnemonic"] == mnemonic for site in which.sites)
