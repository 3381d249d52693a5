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
    """Against the first of ncu's rows about the same launch of the CUDA twin; empty without one."""
    launch = which and (reading.slug(which.row), which.row.get("tile"))
    same = [row for row in rows if row["backend"] == "cuda" and (reading.slug(row), row.get("tile")) == launch]
    return list(_compared(which, same[0])) if which and same else []


def _compared(which: Counted, row: Row) -> Iterator[Compared]:
    details = row["details"]
    expected: dict[str, Any] = which.row["details"].get("ncu", {})
    pairs = [(name, expected.get(metric), details["metrics"].get(metric)) for name, metric in METRICS.items()]
    if counters.LOAD_CONFLICTS in expected:  # not where wmma moves data: which lane touches what is not documented
        totals = details.get("totals") or {}
        pairs = [(name, which.totals[key], totals.get(key)) for name, key in BY_ADDRESS.items()] + pairs
    for name, cpu, ncu in pairs:
        if cpu is not None and ncu is not None and (cpu or ncu or name.startswith("bank conflicts")):
            yield Compared(name, cpu, ncu, "" if cpu == ncu else _why(name, cpu, ncu, which, row))


def _why(name: str, cpu: int, ncu: float, which: Counted, row: Row) -> str:
    if METRICS.get(name) in (counters.LOAD_CONFLICTS, counters.STORE_CONFLICTS) and ncu > cpu:
        return "the hardware also counts passes repeated while something else used the memory; the addresses have none"
    if name in BY_ADDRESS and ncu < cpu and any(site["mnemonic"] == "ld_shared" for site in which.sites):
        return "nvcc joins plain loads of neighbouring words, which the source loads one by one"
    census = (row.get("code") or {}).get("census")
    if name == "HMMA executed" and not cpu and census and not census.get("HMMA"):
        return "no HMMA: the counter also holds HFMA2.MMA, with which the compiler sets registers to zero"
    return UNEXPLAINED
