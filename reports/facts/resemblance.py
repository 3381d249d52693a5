"""Which rung the machine code of a kernel resembles most, and which technique comes next on its ladder."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.catalog import techniques
from harness.catalog.entries import Technique
from harness.rows import fastest, reading, results
from harness.rows.frame import table

Row = Mapping[str, Any]

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
PRODUCTS = ("HGMMA", "HMMA", "FFMA")
"""Instructions that multiply; of those that a kernel has the first counts."""
PLACES = {technique.name: place for place, technique in reversed([*enumerate(techniques.rungs())])}
Conflicts = dict[tuple[str, str], int | None]
"""(technique, backend) -> the CPU's count of bank conflicts."""


@dataclass(frozen=True)
class Resemblance:
    """The nearest rung: `row` holds its machine code. `lacks` and `adds`: features of it that the kernel has not, and
    the other way round. `then`: the technique to try next, None where the kernel has all that builds on the rung."""

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


def candidates(row: Row, recorded: Iterable[Row]) -> list[Technique]:
    """The rungs in CUDA whose features, at whatever tile and problem, differ the least from those of a row with machine
    code. Counts of instructions tell these apart, but only at one tile: compile them at the row's for `nearest`."""
    mine, its = {*features(row)} - {SWIZZLE}, _cell(row)[0]
    others = (other for other in recorded if _is_rung(other) and other["backend"] == "cuda" and _cell(other)[0] == its)
    apart = [(len(mine ^ ({*features(other)} - {SWIZZLE})), other["technique"]) for other in others]
    least = min((differing for differing, _ in apart), default=0)
    alike = {name for differing, name in apart if differing == least}
    return [one for one in techniques.rungs() if one.operator == its and one.name in alike]


def nearest(row: Row, recorded: Iterable[Row]) -> Resemblance | None:
    """Of a row with machine code among those of rungs on like problems, recorded or compiled for this: the same
    program, then the fewest features that differ, then the same tile and architecture, then the nearest counts of
    instructions for each product of the tensor cores, then the earlier rung. None where there are none."""
    recorded, cell = list(recorded), _cell(row)
    alike = [other for other in recorded if _is_rung(other) and _cell(other) == cell]
    mine = {*features(row)}
    counted = (other for other in recorded if other["kind"] == "counters")
    conflicts = {(other["technique"], other["backend"]): _conflicts(other) for other in counted}

    def rank(other: Row) -> tuple[bool, int, bool, float, int]:
        count = conflicts.get((other["technique"], other["backend"]))
        differing = mine ^ {*features(other)}
        if count is None or _conflicts(row) is None:
            differing -= {SWIZZLE}
        elif count == 0:
            differing = mine ^ {*features(other), SWIZZLE}
        return (
            not _same_program(row, other),
            len(differing),
            (row.get("tile"), row.get("arch")) != (other.get("tile"), other.get("arch")),
            _distance(row["code"]["census"], other["code"]["census"]),
            PLACES[other["technique"]],
        )

    if not alike:
        return None
    found = min(alike, key=rank)
    technique = techniques.get(f"{reading.problem_of(found).operator}/{found['technique']}")
    its = features(found)
    return Resemblance(
        technique,
        found,
        tuple(name for name in its if name not in mine),
        tuple(name for name in features(row) if name not in (*its, SWIZZLE)),
        _next(technique, recorded, row, [other for other in alike if other["backend"] == "cuda"], conflicts),
    )


def _next(
    technique: Technique, recorded: Iterable[Row], row: Row, alike: Sequence[Row], conflicts: Conflicts
) -> Technique | None:
    """Of the rungs that build on it the one that was fastest, or the first in the registry where none is recorded. In
    place of a rung that the kernel has already stand those that build on that one. It has one whose program at this
    tile it is, unless the tile is what that rung changes, and one of which it has every further feature."""

    def usual(of: Technique) -> set[str]:
        its = [other for other in alike if other["technique"] == of.name]
        return {*features(max(its, key=lambda other: other.get("time", "")))} - {SWIZZLE} if its else set()

    def has(child: Technique) -> bool:
        its = (other for other in alike if other["technique"] == child.name)
        tile = techniques.reference_tile(child, reading.problem_of(row).tile_key)
        if (not child.tile or row.get("tile") == tile.to_dict()) and any(_same_program(row, other) for other in its):
            return True
        gained = usual(child) - usual(technique)
        before, after = (conflicts.get((one.name, "cuda")) for one in (technique, child))
        if before and after == 0:
            gained |= {SWIZZLE}
        return bool(gained) and gained <= {*features(row)}

    todo, lacking = [technique], list[Technique]()
    for done in todo:
        for child in (other for other in techniques.rungs() if techniques.parent(other) == done):
            (todo if has(child) else lacking).append(child)
    if len(lacking) < 2:
        return next(iter(lacking), None)
    timed = (one for one in recorded if results.what(one) == "timing" and one.get("technique"))
    there = [one for one in timed if _cell(one) == _cell(row)]
    order = [name for name, _ in fastest.of_table(table("timing", there), reading.problem_of(row))]
    ranked = sorted(lacking, key=lambda each: order.index(each.name) if each.name in order else len(order))
    return ranked[0]


def _is_rung(row: Row) -> bool:
    """Whether it holds the machine code of a rung."""
    return row.get("technique") in PLACES and bool((row.get("code") or {}).get("census"))


def _cell(row: Row) -> tuple[str, str]:
    problem = reading.problem_of(row)
    return problem.operator, problem.cells[-1]


def _same_program(one: Row, other: Row) -> bool:
    hashes = [(row.get("arch"), row["code"].get("sass_sha256")) for row in (one, other)]
    return hashes[0] == hashes[1] and hashes[0][1] is not None and one["code"]["census"] == other["code"]["census"]


def _conflicts(row: Row) -> int | None:
    totals = (row.get("details") or {}).get("totals") or {}
    count: int | None = totals.get("bank_conflicts")
    return count


def _distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Between two censuses: by how many times each count differs, for each product, as a sum of logarithms."""
    scale = _products(other) / _products(one)
    return sum(abs(math.log((one.get(name, 0) * scale + 1) / (other.get(name, 0) + 1))) for name in {*one, *other})


def _products(census: Mapping[str, int]) -> int:
    """How many instructions multiply: a tile twice as large, or a loop unrolled twice, has twice as many."""
    return next((census[name] for name in PRODUCTS if census.get(name)), 1)
