"""Copies the rows of a run into reports/recorded, from which a machine without a GPU makes its report."""

import lzma
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.catalog import sources
from harness.rows import files, reading, results, schema, summary
from harness.rows.reading import Row

AnyRow = TypeVar("AnyRow", bound=Row)
Proofs = Collection[tuple[str, str]]
"""(technique, proof) of all claims of expressibility."""


class Refused(ValueError):
    """The run cannot be recorded."""


def record(runs: Iterable[Path], root: Path, proofs: Proofs | None = None) -> list[Path]:
    """Writes each run to `root`/<gpu>/<operator>/<experiment>/<run>.jsonl.xz and returns these files. With `proofs`,
    rows of other proofs are left out.

    A recorded run never changes. Rows of interrupted cases and environments without rows are left out. Nothing is
    written when one row is refused: raises results.NotRows for a row that schema.admit does not take, Refused for a
    run without measured rows, rows without an environment or measured on a CPU, and for a run that was recorded with
    other rows.
    """
    new: dict[Path, list[dict[str, Any]]] = {}
    for run in runs:
        for folder, rows in _placed(run, root, proofs).items():
            new[folder / f"{run.stem}{results.RECORDED}"] = rows
    with sources.locked(root):
        for path, rows in new.items():
            if path.exists() and results.read(path) != rows:
                raise Refused(
                    f"{path.name}: recorded already, with other rows; a recorded run never changes: measure what is "
                    "new into a run of its own and record that"
                )
        write(new)
    return sorted(new)


def write(runs: Mapping[Path, Sequence[Row]]) -> None:
    """Writes recorded runs, and the summaries of their folders; where one does not fit on the disk, none."""
    contents = {path: packed(rows) for path, rows in runs.items()}
    for folder in {path.parent for path in runs}:
        others = [path for path in sorted(folder.glob(f"*{results.RECORDED}")) if path not in runs]
        rows: list[Row] = [row for path in others for row in results.read(path)]
        rows += [row for path, mine in runs.items() if path.parent == folder for row in mine]
        contents[folder / summary.NAME] = summary.summary(rows).encode()
    files.replace(contents)


def packed(rows: Iterable[Row]) -> bytes:
    """The content of a recorded file: one row a line, compressed."""
    return lzma.compress("".join(f"{results.json_line(row)}\n" for row in rows).encode())


def is_recordable(rows: Sequence[Row]) -> bool:
    """Whether a finished run of these rows can be recorded: some are measured, and none of those on a CPU."""
    described = {row["id"]: row for row in rows if row["kind"] == "environment"}
    measured = _measured(rows)
    return bool(measured) and not any(_of_cpu(row, described.get(row.get("environment"))) for row in measured)


def _placed(run: Path, root: Path, proofs: Proofs | None) -> dict[Path, list[dict[str, Any]]]:
    """The rows of a run by the folder that each belongs in, after their environments."""
    rows = results.read(run, schema.admit)
    described = {row["id"]: row for row in rows if row["kind"] == "environment"}
    if not (measured := _measured(rows)):
        raise Refused(f"{run.name}: got no measured row, expected a finished run")
    by_folder: dict[Path, list[dict[str, Any]]] = {}
    for row in measured:
        origin = described.get(row["environment"])
        if origin is None:
            raise Refused(
                f"{run.name}: row of {_subject(row)} has no environment row; measure it anew with this checkout"
            )
        if _of_cpu(row, origin):
            raise Refused(
                f"{run.name}: row of {_subject(row)} was made on a CPU, expected on a GPU: only those are recorded"
            )
        if row["kind"] == "proof" and proofs is not None and (row["technique"], row["proof"]) not in proofs:
            continue
        gpu = results.COMPILERS if _of_compilers(row) else results.gpu_slug(origin["details"]["gpu"]["name"])
        by_folder.setdefault(root / gpu / row["operator"] / str(reading.page(row)), []).append(row)
    return {folder: [*_used(described, mine), *mine] for folder, mine in by_folder.items()}


def _used(described: Mapping[str, AnyRow], rows: Iterable[Row]) -> list[AnyRow]:
    used = {row["environment"] for row in rows}
    return [row for name, row in described.items() if name in used]


def _measured(rows: Iterable[AnyRow]) -> list[AnyRow]:
    return [row for row in rows if row["kind"] != "environment" and row["status"] != "interrupted"]


def _of_compilers(row: Row) -> bool:
    """Whether the row holds on every machine."""
    return row["kind"] in ("proof", "code")


def _of_cpu(row: Row, origin: Row | None) -> bool:
    """Whether a row about a GPU was made where there is none. `origin`: its environment row."""
    if _of_compilers(row):
        return False
    return row["on"] != "gpu" or (origin is not None and origin["details"]["gpu"] is None)


def _subject(row: Row) -> str:
    return " ".join(filter(None, (row["kind"], row.get("technique"), row.get("backend"))))
