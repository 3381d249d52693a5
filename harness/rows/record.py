"""Merges a run into the recorded rows, which a machine without a GPU makes its report from."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.catalog import sources, techniques
from harness.rows import files, packing, reading, results, schema, summary
from harness.rows import renew as renewing
from harness.rows.reading import Row
from harness.rows.rename import REFERENCE, rename_rows

REPLACEABLE = ("gate", "tune", "sanitizer", "code", "probe")
"""Kinds of which only the newest row of a case is kept. Of timings, all rows of the newest source are: they say how far
replicates lie apart. `tune` obeys both rules: a newer source's tiles replace all tiles that an earlier one tried. Git
keeps the others, and `history` reads them there."""
TIMED = ("kind", "technique", "backend", "problem", "mode", "arch", "assembler")
"""What timings of a newer source must share with those that they replace: not the tile, which each source chooses."""
_CITATION = re.compile(r"\b(?:gate|tried)\(\s*" + r",\s*".join([r'"([^"]+)"'] * 4))
"""What a note cites: technique, backend, problem, tile."""


class Refused(ValueError):
    """The run does not say where it comes from, or does not come from a GPU."""


AnyRow = TypeVar("AnyRow", bound=Row)
Proofs = Collection[tuple[str, str]]
"""(technique, proof) of all claims of expressibility."""


def record(runs: Iterable[Path], root: Path, proofs: Proofs | None = None) -> list[Path]:
    """Merges the runs into `root`/<gpu>/<experiment>.jsonl; the newest row per key wins. Returns the files written.

    Timings of the same source by several runs are each kept. Environment rows that no kept row refers to are dropped,
    and so are timings and gates that a newer source replaced, unless a note beside `root` cites the case, and, with
    `proofs`, probes that are none of them. The same rows give the same bytes, in whatever order the runs were
    recorded. Nothing is written when one row is refused: raises results.NotRows for a row that schema.admit does not
    take, Refused when one has no environment row or was not measured on a GPU.
    """
    new: dict[Path, list[dict[str, Any]]] = {}
    for run in runs:
        for path, rows in _placed(run, root).items():
            new.setdefault(path, []).extend(rows)
    cited = citations(root.parent / "notes" / "attention")
    with files.locked(root):
        kept = {}
        for path, mine in new.items():
            rows = [*(results.read(path) if path.exists() else []), *mine]
            renewing.take_machine_code(rows)
            kept[path] = merge(pruned(rows, cited, proofs))
        keep_all(kept)
    return sorted(new)


def _placed(run: Path, root: Path) -> dict[Path, list[dict[str, Any]]]:
    """The rows of a run by the file that each belongs in, environments before them. An interrupted case says nothing
    about its kernel, so its row has no place."""
    rows = results.read(run, schema.admit)
    described = {row["id"]: row for row in rows if row["kind"] == "environment"}
    if not (measured := _measured(rows)):
        raise Refused(f"{run.name}: got no measured row, expected a finished run")
    by_file: dict[Path, list[dict[str, Any]]] = {}
    for row in measured:
        origin = described.get(row["environment"])
        if origin is None:
            raise Refused(
                f"{run.name}: row of {_subject(row)} has no environment row; measure it anew with this checkout"
            )
        if row["kind"] in ("probe", "code"):
            by_file.setdefault(root / results.COMPILERS / f"{reading.page(row)}.jsonl", []).append(row)
            continue
        gpu = origin["details"]["gpu"]
        if _of_cpu(row, origin):
            raise Refused(
                f"{run.name}: row of {_subject(row)} was made on a CPU, expected on a GPU: only those are recorded"
            )
        by_file.setdefault(root / results.gpu_slug(gpu["name"]) / f"{reading.page(row)}.jsonl", []).append(row)
    return {path: [*described.values(), *rows] for path, rows in by_file.items()}


def takes(rows: Sequence[Row]) -> bool:
    """Whether a finished run of these rows can be recorded: some are measured, and none of those on a CPU."""
    described = {row["id"]: row for row in rows if row["kind"] == "environment"}
    measured = _measured(rows)
    return bool(measured) and not any(_of_cpu(row, described.get(row.get("environment"))) for row in measured)


def _measured(rows: Iterable[AnyRow]) -> list[AnyRow]:
    return [row for row in rows if row["kind"] != "environment" and row["status"] != "interrupted"]


def _of_cpu(row: Row, origin: Row | None) -> bool:
    """Whether a row that is of a GPU or of none was made where there is none. `origin`: its environment row."""
    if row["kind"] in ("probe", "code"):
        return False
    return row["on"] != "gpu" or (origin is not None and origin["details"]["gpu"] is None)


def _of_programs(root: Path) -> list[Path]:
    """The recorded files about kernels: those of GPUs, and what compilers made."""
    made = root / results.COMPILERS / "inspect.jsonl"
    return [*(path for _, path in results.iter_recorded(root)), *([made] if made.is_file() else [])]


def renew(
    root: Path,
    hashes: renewing.Hashes,
    compile: renewing.Compile,
    names: Collection[str],
    identify: renewing.Identify = lambda programs: (),
) -> tuple[list[Path], renewing.Renewal]:
    """Compares the recorded rows of earlier sources of these techniques with this checkout (rows.renew). Returns the
    files that changed, and what became of the rows."""
    with files.locked(root):
        found = {path: results.read(path) for path in _of_programs(root)}
        before = _lines(found)
        all_rows = [row for rows in found.values() for row in rows]
        outcome = renewing.renew(all_rows, hashes, compile, lambda row: row["technique"] in names, identify)
        changed = [path for path, lines in _lines(found).items() if lines != before[path]]
        cited = citations(root.parent / "notes" / "attention")
        keep_all({path: merge(pruned(found[path], cited)) for path in changed})
    return changed, outcome


def due(root: Path, hashes: renewing.Hashes) -> int:
    """How many recorded rows `renew` would look at."""
    return sum(len(renewing.due(results.read(path), hashes)) for path in _of_programs(root))


def rename(root: Path, old: str, new: str, backends: Collection[str] = ()) -> tuple[list[Path], int]:
    """Gives a technique another name in all recorded rows, or in those of some backends. Returns the files that
    changed, and how many rows are about it. Raises Refused when there are none, or such rows of the new name."""
    with files.locked(root):
        found = {path: results.read(path) for path in _of_programs(root)}
        named = Counter(
            row.get("technique")
            for rows in found.values()
            for row in rows
            if not backends or row.get("backend") in backends
        )
        if not named[old] or named[new]:
            raise Refused(
                f"--rename: got {old}={new}, but there are {named[old]} rows of {old} and {named[new]} of {new}; "
                "expected rows of the first alone"
            )
        before = _lines(found)
        count = sum(rename_rows(rows, old, new, backends) for rows in found.values())
        changed = [path for path, lines in _lines(found).items() if lines != before[path]]
        keep_all({path: merge(found[path]) for path in changed})
    return changed, count


def standing(
    root: Path, experiment: str, description: Mapping[str, Any], hashes: Mapping[tuple[str, str], str]
) -> list[dict[str, Any]]:
    """Recorded rows that a run of this experiment need not measure again, and their environments: what passed, of this
    checkout's kernels (`hashes`), on this kind of GPU with these compilers (`description`: environment.describe())."""
    folder = root / results.gpu_slug(description["gpu"]["name"])
    files = (folder / f"{experiment}{name}.jsonl" for name in ("", reading.SHARED_PTXAS))
    rows = [row for path in files if path.is_file() for row in results.read(path)]
    environments = (row for row in rows if row["kind"] == "environment")
    alike = {row["id"]: row for row in environments if _compilers(row["details"]) == _compilers(description)}
    measured = (row for row in rows if row.get("environment") in alike)
    return [
        *alike.values(),
        *(row for row in measured if row["status"] == "passed" and reading.is_current(row, hashes)),
    ]


def _compilers(description: Mapping[str, Any]) -> dict[str, Any]:
    software = description["software"]
    return {
        **description["toolchain"],
        **{name: software[name] for name in ("torch", "cuda_runtime", "cudnn", "triton")},
    }


def citations(notes: Path) -> set[tuple[str, ...]]:
    """(technique, backend, problem, tile) of every case that a note cites by gate(...) or tried(...)."""
    texts = (path.read_text() for path in sorted(notes.glob("*.md")))
    references = (reference for text in texts for reference in REFERENCE.findall(text))
    return {case for reference in references for case in _CITATION.findall(reference)}


def pruned(rows: Sequence[Row], cited: Collection[tuple[str, ...]], proofs: Proofs | None = None) -> list[Row]:
    """The rows without those of a REPLACEABLE kind that a newer one of the same case replaced, whatever their sources,
    and without timings, those of `tune` too, of which a newer source's are there, unless the case is cited; without
    repeats of a program that the twin no longer is; and without probes that are none of `proofs`."""

    def case(row: Row) -> str:
        planted = (row.get("details") or {}).get("planted", "")
        return f"{planted} {results.key({name: value for name, value in row.items() if name != 'source_sha256'})}"

    def is_cited(row: Row) -> bool:
        if row["kind"] == "probe":
            return False
        return (row.get("technique"), row["backend"], reading.slug(row), reading.tile_slug(row)) in cited

    newest: dict[str, str] = {}
    timed: dict[str, tuple[str, str]] = {}
    for row in rows:
        if name := _timed(row):
            timed[name] = max((row["time"], row["source_sha256"]), timed.get(name, ("", "")))
        if row["kind"] in REPLACEABLE:
            newest[case(row)] = max(row["time"], newest.get(case(row), ""))

    def stays(row: Row) -> bool:
        unclaimed = row["kind"] == "probe" and proofs is not None and (row["technique"], row["proof"]) not in proofs
        if unclaimed or _repeats_another(row):
            return False
        if (name := _timed(row)) and timed[name][1] != row["source_sha256"]:
            return is_cited(row)
        if row["kind"] not in REPLACEABLE:
            return True
        return bool(row["time"] >= newest.get(case(row), "")) or is_cited(row)

    return [row for row in rows if stays(row)]


def _timed(row: Row) -> str | None:
    """What timings have alike that replace each other; None for a row that timed no kernel with a source here."""
    if row["kind"] not in ("timing", "tune") or row["status"] == "interrupted" or not row.get("source_sha256"):
        return None
    return json.dumps([row.get(name) for name in TIMED], sort_keys=True)


def _repeats_another(row: Row) -> bool:
    """Whether the row is that of another rung's program, under the name of a rung that has it no longer."""
    measured = (row.get("details") or {}).get("same_program")
    name: str | None = row.get("technique")
    if not measured or not name or not techniques.find(name):
        return False
    while name and name != measured and (technique := techniques.find(name)):
        name = sources.same_program(technique.path, row["backend"])
    return name != measured


def merge(rows: Sequence[Row]) -> list[Row]:
    """Environment rows first, then one row per key, of timings one per key and run, each part sorted."""
    final = {results.key(row) for row in rows if row["kind"] != "environment" and row["status"] != "interrupted"}
    # An interrupted row says why there is a hole; where there is none, it says nothing.
    kept = [row for row in rows if row.get("status") != "interrupted" or results.key(row) not in final]
    newest = results.newest(kept, replicates=True)
    rest = (row for row in newest if row["kind"] != "environment")
    measured = sorted(rest, key=lambda row: (results.key(row), row.get("group", ""), row["environment"]))
    used = {row["environment"] for row in measured}
    described = (row for row in newest if row["kind"] == "environment" and row["id"] in used)
    return [*sorted(described, key=lambda row: row["id"]), *measured]


def keep_all(contents: Mapping[Path, Iterable[Row]]) -> None:
    """Replaces files of recorded rows, packed, and their summaries; where one does not fit on the disk, none."""
    files.replace({place: text for path, rows in contents.items() for place, text in _texts(path, rows).items()})


def write(path: Path, rows: Iterable[Row]) -> None:
    """Replaces a file of rows, packed, and the summary that stands beside it if there is one."""
    files.replace({place: text for place, text in _texts(path, rows).items() if place == path or place.exists()})


def _texts(path: Path, rows: Iterable[Row]) -> dict[Path, str]:
    """What the file of these rows holds, and the summary beside it."""
    lean = [packing.lean(row) for row in rows]
    return {path: "".join(f"{_line(line)}\n" for line in packing.pack(lean)), summary.path(path): summary.summary(lean)}


def _lines(contents: Mapping[Path, Iterable[Row]]) -> dict[Path, list[str]]:
    return {path: [_line(row) for row in rows] for path, rows in contents.items()}


def _line(row: Row) -> str:
    """A row as JSON, fields in the order of results.FIELDS."""
    order = {name: position for position, name in enumerate(results.FIELDS)}
    fields = sorted(row.items(), key=lambda field: (order.get(field[0], len(order)), field[0]))
    return json.dumps(dict(fields), allow_nan=False, separators=(",", ":"))


def _subject(row: Row) -> str:
    return " ".join(filter(None, (row["kind"], row.get("technique"), row.get("backend"))))
