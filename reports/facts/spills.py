"""What spills: bytes that a compiler keeps in local memory because registers ran out, for every binary in the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.catalog import techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES
from harness.rows import reading
from reports.data.dataset import Dataset, Row


@dataclass(frozen=True)
class Spill:
    """Binaries of one twin that differ in no more than dtype, lengths and layout: the fewest and the most bytes."""

    backend: str
    arch: str
    cell: str
    tile: str
    reference: bool
    least: int
    most: int


def spills(datasets: Sequence[Dataset], technique: Technique) -> list[Spill]:
    """What this checkout's twins spill on the ladder's architectures: builds that do, the reference tile first."""
    archs = techniques.ladder_of(technique).archs
    builds: dict[tuple[str, str, str, str], list[Row]] = {}
    for data in datasets:
        for row in (row for backend in SERIES for row in data.with_code(technique.name, backend)):
            if row.arch in archs and row.current and row.spill_bytes is not None:
                build = (row.backend, row.arch, reading.problem_of(row).cells[-1], row.tile)
                builds.setdefault(build, []).append(row)
    found = []
    for build, rows in builds.items():
        counts = [row.spill_bytes for row in rows]
        if any(counts):
            found.append(Spill(*build, bool(rows[0].reference_tile), min(counts), max(counts)))
    return sorted(
        found,
        key=lambda one: (
            SERIES.index(one.backend),
            archs.index(one.arch),
            not one.reference,
            one.cell,
            one.tile,
        ),
    )
