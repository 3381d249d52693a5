"""What a row says, as scorecard, comparison and report read it. Standard library only.

Rows of an earlier version of a kernel (`source_sha256` is not the checkout's) do not count.
"""

import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Technique, Tile
from harness.rows import lock

Row = Mapping[str, Any]
Hashes = Mapping[tuple[str, str], str]
"""`twin` of a row -> `source_sha256` of the checkout."""
SHARED_PTXAS = "_shared_ptxas"
"""Suffix of an experiment's name where nvcc's ptxas assembled the Triton programs. Pages show these rows beside the
headline, never in it."""
AGAIN_LIMIT = 0.005
"""Relative difference up to which two timings of one kernel in one group agree; a run's own `limit` takes its place.
Further apart, the group is timed once more, to a quarter of the limit, so that chance does not part them. If they still
differ, nothing converged."""
AGREEMENT = 0.02
"""Relative difference up to which the medians by CUPTI and by events agree. Around an empty kernel a pair of events
reads more than CUPTI does, about 4 us on an H200, which is 3% of a short kernel. Of another kernel that much or less
lies outside of what CUPTI sees, so that it may say anything between events with and without it."""


@cache
def checkout_hashes() -> dict[tuple[str, str], str]:
    """Hashes of every twin that has a file here."""
    hashes = {}
    of_file: dict[Path, str] = {}  # one serves every series and version
    for technique in techniques.kernels():
        for backend in (*techniques.SERIES, *techniques.ON_REQUEST):
            if (path := sources.kernel_file(backend, technique.path)).is_file():
                if path not in of_file:
                    of_file[path] = sources.source_sha256(backend, technique.path)
                hashes[techniques.qualified(technique.name, technique.operator), backend] = of_file[path]
    return hashes


def technique_of(row: Row) -> Technique | None:
    """The registry's entry of the row's technique; None where there is none, or no longer."""
    name = row.get("technique")
    return techniques.find(f"{row.get('operator') or operators.FIRST}/{name}") if name else None


def twin(row: Row) -> tuple[str, str]:
    """(technique, backend), with operator/technique but for the first operator."""
    return techniques.qualified(row["technique"], row.get("operator")), row["backend"]


def problem_of(row: Row) -> Any:
    return operators.problem_of(row["problem"], row.get("operator"))


def slug(row: Row) -> str:
    return str(problem_of(row).slug)


def tile_slug(row: Row) -> str:
    """The slug of the row's tile, such as 64x128-s2-w4; empty for a peer."""
    return Tile.from_dict(row["tile"]).slug if row.get("tile") else ""


def name_of(row: Row) -> str:
    """The technique, or file and function of a user's kernel; empty for a peer."""
    return row.get("technique") or row.get("kernel") or ""


def status_word(row: Row) -> str:
    """The row's status as people are told it: a kernel that does not support a cell declined it."""
    return "declined" if row["status"] == "unsupported" else str(row["status"])


def cell(row: Row) -> str:
    """Backend, technique, problem and tile in one line, as tables, summaries and `history` name a case."""
    return " ".join(filter(None, (row["backend"], name_of(row), slug(row), tile_slug(row))))


def case(row: Row) -> str:
    """The same with the technique first, as a Case is printed and errors begin."""
    return " ".join(filter(None, (name_of(row), row["backend"], slug(row), tile_slug(row))))


def median_ms(row: Row) -> float:
    return statistics.median(row["samples_ms"])


def tflops(row: Row) -> float:
    return float(problem_of(row).flops / median_ms(row) / 1e9)


def error_over_yardstick(gate: Row) -> dict[str, float | None]:
    """Distribution -> the largest |O - truth|, over the careful 16-bit computation's or over half a rounding step (the
    floor), whichever is larger; None where it is not finite."""

    def ratio(of: Mapping[str, float | None]) -> float | None:
        if of.get("max_abs") is None:
            return None
        return float(of["max_abs"] or 0) / max(of["yardstick"] or 0, of["floor"] or 0)

    return {name: ratio(of) for name, of in (gate.get("numerics") or {}).items()}


def clock_ghz(row: Row) -> float | None:
    """Median SM clock of the kernel itself, None where it was not read."""
    return statistics.median(row["clock_ghz"]) if row.get("clock_ghz") else None


def is_of_checkout(row: Row, hashes: Hashes) -> bool:
    """Whether the row is about this checkout's kernel. Library peers always are."""
    return row.get("technique") is None or hashes.get(twin(row)) == row.get("source_sha256")


def is_current(row: Row, hashes: Hashes) -> bool:
    """Whether the row measured this checkout's kernel: its source, or one that kernels.lock vouches for. A case counts,
    too, that the registry declines now as it did then: nothing of a kernel's source was in it."""
    if is_of_checkout(row, hashes) or (row["status"] == "unsupported" and _is_declined(row)):
        return True
    return lock.vouches(row, twin(row), hashes.get(twin(row)), tile_slug(row))


def _is_declined(row: Row) -> bool:
    """Whether the registry gives the row's reason for declining its case."""
    technique = technique_of(row)
    if technique is None or not row.get("tile"):
        return False
    problem, tile = problem_of(row), Tile.from_dict(row["tile"])
    return techniques.unsupported(technique, row["backend"], problem, tile) == row.get("reason")


def of_earlier_gate(gate: Row) -> bool:
    """Whether a gate row is of a gate whose inputs or limits were others than this checkout's, which may judge
    otherwise."""
    operator = operators.get(gate.get("operator") or operators.FIRST)
    return not operator.is_current(gate.get("gate"), passed=gate["status"] == "passed")


def is_final(row: Row) -> bool:
    """Whether the row is from a problem's final group: the fastest kernel of each series, timed together once more."""
    return bool((row.get("details") or {}).get("final"))


def page(row: Row) -> str | None:
    """The name by which pages and notes call the row's experiment."""
    experiment: str | None = row.get("experiment")
    return f"{experiment}{SHARED_PTXAS}" if experiment and row.get("assembler") else experiment


def gpu_name(environment: Row) -> str:
    """The GPU of an environment row, "a CPU" where there was none."""
    return ((environment.get("details") or {}).get("gpu") or {}).get("name") or "a CPU"
