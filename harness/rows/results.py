"""Result rows as files: JSON lines, appended and synced one by one while a run measures, compressed when recorded.
Standard library only.

A row is a plain dict with the fields of `FIELDS`; a field that does not apply is absent. Statistics are computed
when they are shown, never stored. The first row of a run has kind "environment" and describes the machine.
reports/recorded/<gpu>/<operator>/<experiment>/<run>.jsonl.xz holds what a run measured; such a file never changes.

Counters with `on` cpu say what each instruction of a CUDA twin did to memory in one run on a CPU: `details` are
{"sites": [{file, line, column, mnemonic, path, width, executions, lanes, bytes, wavefronts, bank_conflicts,
example_addresses, sectors, least_sectors, ...}], "totals": {...}, "ncu": {metric: what ncu should count}} as
cuda_kernels/cpu_library.py describes them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.catalog.sources import Unreadable

SCHEMA = 3
LONGEST_LINE = 10_000_000
"""Bytes of a row: a hundred times what the longest one has."""
LARGEST_FILE = 256 * 2**20
"""Bytes that a compressed file may unpack to: a few bytes must not fill the memory."""
RECORDED = ".jsonl.xz"
"""How the name of a recorded run ends."""
COMPILERS = "compilers"
"""Folder of reports/recorded for what holds on every machine: rows of kinds proof and code, about compilers alone."""
ONE_OFF = "one-off"
"""Folder of reports/runs for what is no experiment and no report."""
KINDS = {
    "environment": "the machine of the rows that follow",
    "gate": "whether an output is right: by its numbers, or, with a tool, by compute-sanitizer",
    "timing": "how long a kernel takes",
    "code": "what the compilers made",
    "counters": "what ncu counted, or the CPU runtime",
    "proof": "what a proof of expressibility showed",
}
PURPOSES = {
    "tune": "one tile among others",
    "cupti": "time by CUPTI, and what that saw",
    "roof": "what a multiprocessor does in a clock",
}
"""What a row of kind timing is for, where it is not the time of a kernel in its group."""
STATUSES = (
    "passed",
    "wrong",
    "wrong_instruction",
    "compile_error",
    "import_error",
    "launch_error",
    "data_race",
    "cuda_error",
    "crashed",
    "timeout",
    "out_of_memory",
    "unsupported",
    "implausible",
    "not_converged",
    "interrupted",
)
SANITIZERS = ("memcheck", "synccheck", "racecheck", "initcheck")
KEY = (
    *("kind", "purpose", "operator", "experiment", "assembler", "technique", "backend", "kernel", "problem", "tile"),
    *("mode", "tool", "proof", "roof", "on", "arch", "source_sha256"),
)
_sorted_json = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each call
FIELDS = (
    *("schema", "kind", "purpose", "on", "operator", "experiment", "assembler", "technique", "backend", "kernel"),
    *("problem", "tile", "arch", "mma", "source_sha256", "compiler", "status", "reason", "check", "gate", "numerics"),
    *("samples_ms", "mode", "tool", "proof", "roof", "per_clock", "tflops", "clock_ghz", "group", "order", "clocks"),
    *("code", "sass_sha256", "compile_s", "call_us", "environment", "time"),
)
"""In the order of a line; rows.models has their types. What a name does not say:

- backend: with @version where it is not the installed one, such as gluon@3.9.0; `own` is a user's kernel, of which
  `kernel` has file and function; a row without a technique and a kernel is about a library.
- assembler: "shared" where nvcc's ptxas assembled Triton's programs too.
- source_sha256: code of the kernel's file and of all that it includes. sass_sha256: of a row without `code`.
- gate: of a gate, the version of the operator's comparison. check: which check failed.
- per_clock: of a roof, {what: rates} of one multiprocessor and clock, the median one of each launch; what:
  flop (of tensor cores), exponentials, instructions (of fp32, lane by lane), units (of a softmax). tflops: of the GPU.
- clock_ghz: SM clock launch by launch: clock64 over globaltimer, median multiprocessor; of a roof inside the kernel,
  of a timing around launches that are no samples, of counters what ncu says, whose launches stand alone.
- group, order: id of the interleaved group, and what was in it. call_us: the host's time of a call, in idle mode.
"""


def spelled_out(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as files have it: whoever makes a timing may call its purpose its kind."""
    kind = row.get("kind")
    is_purpose = isinstance(kind, str) and kind in PURPOSES
    return {**row, "kind": "timing", "purpose": kind} if is_purpose else dict(row)


def what(row: Mapping[str, Any]) -> str:
    """The short name of a row's kind; timing and gate are those of a kernel in its group and of its numbers."""
    if row["kind"] == "gate" and row.get("tool"):
        return "sanitizer"
    if row["kind"] == "counters" and row.get("on") == "cpu":
        return "memory"
    purpose = row.get("purpose")  # another than those is no row, as its type says
    return purpose if isinstance(purpose, str) and purpose in PURPOSES else str(row["kind"])


def json_line(row: Mapping[str, Any]) -> str:
    """The row as JSON, fields in the order of FIELDS. Raises ValueError for what JSON cannot hold, NaN included."""
    order = {name: position for position, name in enumerate(FIELDS)}
    fields = sorted(row.items(), key=lambda field: (order.get(field[0], len(order)), field[0]))
    return json.dumps(dict(fields), allow_nan=False, separators=(",", ":"))


def _encodable(value: Any) -> Any:
    """The value with halves of UTF-16 pairs, which no file of text takes, written out as \\ud800."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def utc_now() -> str:
    """The time of a row: 2026-01-31T23:59:59Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def key(row: Mapping[str, Any]) -> str:
    """What makes two rows the same measurement; the newest row per key wins."""
    row = spelled_out(row)
    return _sorted_json([row.get(name) for name in KEY])


def check(row: Mapping[str, Any]) -> None:
    """Raises ValueError naming the field when a row is not of this format."""
    unknown = sorted(set(row) - set(FIELDS) - {"id", "details"})
    if unknown:
        raise ValueError(f"row: got unknown fields {unknown}, expected some of {sorted(FIELDS)}")
    if row.get("kind") not in list(KINDS):  # a list, because a stranger's kind may have no hash
        raise ValueError(f"row.kind: got {row.get('kind')!r}, expected one of {tuple(KINDS)}")
    if row["kind"] != "environment" and row.get("status") not in STATUSES:
        raise ValueError(f"row.status: got {row.get('status')!r}, expected one of {STATUSES}")
    if row.get("status", "passed") != "passed" and not row.get("reason"):
        raise ValueError(f"row.reason: got nothing, expected why the status is {row['status']!r}")


class NotRows(Unreadable):
    """A file does not hold rows, or a row has the wrong format. The message names the file and the line."""


class Writer:
    """Appends rows to a JSON-lines file; each row is on disk before `write` returns. A torn last row, which a killed
    run left, is cut off first: the next row would be a part of it.

    Raises NotRows for a folder, a pipe, a device or a file that holds anything but rows, which stays as it is;
    ValueError on a row that is not of this format, NaN included.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            raise NotRows(f"{path}: got a compressed file, expected one to write rows to, such as run.jsonl")
        if path.exists():
            read(path)
            whole, newline, last = path.read_bytes().rpartition(b"\n")
        else:
            last = b""
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if last.strip():
            try:
                _parsed(last, once=False)
                os.write(self._fd, b"\n")
            except ValueError:
                os.ftruncate(self._fd, len(whole) + len(newline))

    def write(self, row: Mapping[str, Any]) -> dict[str, Any]:
        complete = completed(row)
        check(complete)
        line = json_line(complete) + "\n"
        begin = os.fstat(self._fd).st_size
        rest = line.encode()
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            os.fsync(self._fd)
        except OSError as error:  # a full disk takes a part of the line
            os.ftruncate(self._fd, begin)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        return complete

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def completed(row: Mapping[str, Any]) -> dict[str, Any]:
    return _encodable(spelled_out({"schema": SCHEMA, "time": utc_now(), **row}))


def read(
    path: str | Path,
    check: Callable[[dict[str, Any]], None] | None = None,
    kinds: Collection[str] = KINDS,
    field: str = "",
) -> list[dict[str, Any]]:
    """All rows of these kinds in a file, and those that have this `field`. A torn last line (a killed run) is dropped;
    where there is a `check`, stderr says so. Raises NotRows for anything else that is not a row, with its line; so it
    does where `check` (rows.schema has one for files of strangers) raises ValueError."""
    path = Path(path)
    _require_file(path)
    rows = []
    left_out = tuple(f'{{"schema":{SCHEMA},"kind":"{kind}",'.encode() for kind in KINDS if kind not in kinds)
    lines = content(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        is_asked = field and f'"{field}"'.encode() in line
        if not line.strip() or (left_out and not is_asked and line.startswith(left_out)):
            continue
        try:
            row = _parsed(line, once=check is not None)
        except TooLong as error:
            raise NotRows(f"{path}:{number}: {error}") from None
        except ValueError as error:
            if number == len(lines) and _begins_like_a_row(line):
                if check:
                    print(f"{path}:{number}: the last row is cut off and left out; copy the file anew", file=sys.stderr)
                continue
            raise NotRows(
                f"{path}:{number}: not JSON ({error}), expected a row of reports/runs/*.jsonl; give another file, "
                "restore this one from git or delete the line"
            ) from None
        if not isinstance(row, dict) or row.get("kind") not in list(KINDS):
            raise NotRows(
                f"{path}:{number}: got {line[:40].decode(errors='replace')!r}, expected a row of reports/runs/*.jsonl: "
                "an object of a kind such as timing"
            )
        if row.get("schema", SCHEMA) != SCHEMA or isinstance(row.get("schema"), bool):
            raise NotRows(
                f"{path}:{number}: schema {row['schema']!r}, this checkout reads {SCHEMA}; read it with the checkout "
                "that wrote it"
            )
        if check:
            try:
                check(row)
            except ValueError as error:
                raise NotRows(f"{path}:{number}: {error}") from None
        if is_asked or row["kind"] in kinds:
            rows.append(row)
    return rows


def _begins_like_a_row(line: bytes) -> bool:
    begin = b'{"schema":'
    return line.startswith(begin) or begin.startswith(line)


def content(path: Path) -> bytes:
    """The lines of a file, unpacked where its name ends in .xz. Raises NotRows where it is damaged or too large."""
    data = path.read_bytes()
    if path.suffix != ".xz":
        return data
    unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_FILE)
    try:
        data = unpacking.decompress(data, LARGEST_FILE + 1)
    except lzma.LZMAError as error:
        raise NotRows(f"{path}: got no .xz file ({error}), expected a recorded run; restore it from git") from None
    if len(data) > LARGEST_FILE:
        raise NotRows(f"{path}: unpacks to more than {LARGEST_FILE} bytes, expected a recorded run")
    if not unpacking.eof or unpacking.unused_data:
        raise NotRows(f"{path}: got an .xz file that is cut off or continued, expected a recorded run; restore it")
    return data


class TooLong(ValueError):
    """A line has more bytes than a row may have."""


def parse(line: bytes) -> dict[str, Any]:
    """The object of one line from a stranger. Raises ValueError if it is none, is too long or repeats a key."""
    row = _parsed(line, once=True)
    if not isinstance(row, dict):
        raise ValueError(f"row: got {line[:40].decode(errors='replace')!r}, expected an object")
    return row


def _parsed(line: bytes, *, once: bool) -> Any:
    """`once`: of names that stand twice in an object none is taken. Raises ValueError."""
    if len(line) > LONGEST_LINE:
        raise TooLong(f"got {len(line)} bytes, expected a row of at most {LONGEST_LINE}")
    try:
        return json.loads(line.decode(), object_pairs_hook=_once if once else None)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _require_file(path: Path) -> None:
    """Refuses folders, pipes and devices: reading a pipe may wait for ever, and a device may have no end."""
    if path.exists() and not path.is_file():
        raise NotRows(f"{path}: got a folder, a pipe or a device, expected a file of rows; save them as one")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object that says nothing twice: of two values another reader might take the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def newest(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The newest row per key, in the order in which the keys first appeared, and every environment row. A library peer
    counts once in each of its groups, and so does each process that timed a case."""
    latest: dict[Any, dict[str, Any]] = {}
    for row in rows:
        name: Any = row["id"] if row["kind"] == "environment" else key(row)
        if row["kind"] != "environment":
            name = name, row.get("technique") is None and row.get("group"), (row.get("details") or {}).get("replicate")
        if name not in latest or row["time"] >= latest[name]["time"]:
            latest[name] = dict(row)
    return list(latest.values())


def without_interrupted(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows without those of interrupted cases: a command that continues a file does these again."""
    return [dict(row) for row in rows if row.get("status") != "interrupted"]


def environment_id(description: Mapping[str, Any]) -> str:
    """Twelve hex digits that name a machine and its software."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:12]


def gpu_slug(name: str) -> str:
    """Folder name of a GPU: "NVIDIA H200" -> h200, "NVIDIA H100 80GB HBM3" -> h100, "NVIDIA H100 PCIe" -> h100-pcie."""
    words = re.findall(r"[a-z0-9]+", name.lower().replace(" 80gb hbm3", ""))
    return "-".join(word for word in words if word not in ("nvidia", "geforce", "tesla"))


def slug_of(gpu: Mapping[str, Any] | None) -> str | None:
    """The folder name of a description's `gpu`; None where it has none."""
    return gpu_slug(gpu["name"]) if gpu else None


def recorded(root: Path, gpu: str = "*", experiment: str = "*", operator: str = "*") -> list[Path]:
    """The files of recorded runs below `root`, of one GPU (a slug, or COMPILERS), one experiment or one operator."""
    return sorted(root.glob(f"{gpu}/{operator}/{experiment}/*{RECORDED}"))


def iter_recorded(root: Path) -> Iterator[tuple[str, Path]]:
    """(gpu, file) for every recorded run. Not those of COMPILERS, which are of no GPU."""
    for path in recorded(root):
        if (gpu := path.parts[-4]) != COMPILERS:
            yield gpu, path


def read_recorded(root: Path, gpu: str = "*", experiment: str = "*") -> list[dict[str, Any]]:
    """The rows of these runs; none where nothing is recorded."""
    return [row for path in recorded(root, gpu, experiment) for row in read(path)]


def fresh_runs(runs: Path) -> list[Path]:
    """Files of the runs in reports/runs that pages and scorecard take: those of experiments and reports."""
    return sorted(runs.glob("*.jsonl"))
