"""Which rung the machine code of a kernel resembles most, and which technique comes next on its ladder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.catalog import techniques
from harness.catalog.entries import Technique
from harness.catalog.problem import Problem
from harness.rows import fastest
from reports.data.dataset import Row

FEATURES = {
    "wgmma": "HGMMA",
    "mma.sync": "HMMA",
    "TMA loads": "UTMALDG",
    "multicast": "UTMALDG.MULTICAST",
    "TMA stores": "UTMASTG",
    "cp.async": "LDGSTS",
    "mbarriers": "SYNCS",
    "setmaxnreg": "USETMAXREG",
    "named barriers": "BAR.ARV",
    "ldmatrix": "LDSM",
    "stmatrix": "STSM",
}
"""What a kernel may use -> the instruction of the census that shows it."""
SWIZZLE = "shared memory without bank conflicts"
"""Of CUDA kernels, whose addresses a CPU counts: a swizzle, or padding."""


@dataclass(frozen=True)
class Resemblance:
    """The nearest rung: `row` holds its machine code. `lacks` and `adds`: features of it that the kernel has not, and
    the other way round. `then`: the technique to try next, None at the end of a ladder."""

    technique: Technique
    row: Row
    lacks: tuple[str, ...]
    adds: tuple[str, ...]
    then: Technique | None


def features(row: Row) -> list[str]:
    """Of a row with machine code; SWIZZLE where its details hold the CPU's count of bank conflicts and it is 0."""
    census = row["code"]["census"]
    found = [name for name, instruction in FEATURES.items() if census.get(instruction)]
    return [*found, SWIZZLE] if _conflicts(row) == 0 else found


def nearest(row: Row, recorded: Iterable[Row]) -> Resemblance | None:
    """Of a row with machine code among recorded ones of its head_dim and mask: the fewest features that differ, then
    the nearest counts of all instructions, then the earlier rung. None where nothing is recorded of them."""
    recorded = list(recorded)
    places = {technique.name: place for place, technique in enumerate(techniques.TECHNIQUES)}
    cell = [row["problem"][name] for name in ("head_dim", "causal")]
    conflicts = {
        (other["technique"], other["backend"]): _conflicts(other) for other in recorded if other["kind"] == "counters"
    }
    mine = set(features(row))
    best: tuple[float, float, int] | None = None
    found: Row | None = None
    for other in recorded:
        if other.get("technique") not in places or not (other.get("code") or {}).get("census"):
            continue
        if [other["problem"][name] for name in ("head_dim", "causal")] != cell:
            continue
        theirs = set(features(other))
        count = conflicts.get((other["technique"], other["backend"]))
        if _conflicts(row) is not None and count is not None:
            theirs |= {SWIZZLE} if count == 0 else set()
            differing = len(mine ^ theirs)
        else:
            differing = len((mine ^ theirs) - {SWIZZLE})
        rank = (differing, _distance(row["code"]["census"], other["code"]["census"]), places[other["technique"]])
        if best is None or rank < best:
            best, found = rank, other
    if found is None:
        return None
    technique, its = techniques.get(found["technique"]), features(found)
    return Resemblance(
        technique,
        found,
        tuple(name for name in its if name not in mine),
        tuple(name for name in features(row) if name not in (*its, SWIZZLE)),
        _next(technique, recorded, row),
    )


def _next(technique: Technique, recorded: Iterable[Row], row: Row) -> Technique | None:
    """Of the rungs that build on it the one that was fastest, or the first in the registry where none is recorded."""
    parents = {other.name: techniques.parent(other) for other in techniques.TECHNIQUES}
    children = [other for other in techniques.TECHNIQUES if parents[other.name] == technique]
    order = [name for name, _ in fastest.of_rows(recorded, Problem.from_dict(row["problem"]))]
    ranked = sorted(children, key=lambda each: order.index(each.name) if each.name in order else len(order))
    return ranked[0] if ranked else None


def _conflicts(row: Row) -> int | None:
    totals = (row.get("details") or {}).get("totals") or {}
    count: int | None = totals.get("bank_conflicts")
    return count


def _distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Between two censuses: by how many times each count differs, as a sum of logarithms."""
    return sum(abs(math.log((one.get(name, 0) + 1) / (other.get(name, 0) + 1))) for name in {*one, *other})
