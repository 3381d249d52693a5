"""All rows of one kind as a typed pandas table, with the machine of each row joined: what scorecard, compare, tune and
pages read. Raw rows are read in harness/rows alone.

    from harness.rows.frame import frame
    timing = frame("timing")
    fastest = timing[timing.usable & (timing.purpose == "timing")].groupby("problem").speed.max()

A missing text is NaN (ask with `.isna()`), a missing number NaN, a missing object None; bools are never missing.

Columns of every kind:

| column | what it is |
|---|---|
| operator | what is computed, such as gemm |
| experiment | name of the experiment; bench, tune, inspect, ncu, sanitizer, expressibility for commands |
| technique | name in the registry; missing for peers and for a user's own kernel |
| kernel | file:function of a user's own kernel |
| backend, language, version | gluon@3.9.0, gluon, 3.9.0; the version is missing where it is the installed one |
| name | technique or kernel; missing for peers |
| problem, tile | slugs; the tile is "" for peers |
| problem_fields, tile_fields | the same as dictionaries (object) |
| reference_tile | bool: the registry's tile, or a peer |
| case | "technique backend problem tile" in one line, as errors and tables name it |
| arch, mma | sm_90a; fma, mma_sync or wgmma |
| on | gpu or cpu |
| status, reason, check | passed or why not; which check failed |
| assembler | own, or shared where nvcc's ptxas assembled Triton's programs too |
| source_sha256 | code of the kernel's sources; missing for peers |
| sass_sha256 | its machine code, where known |
| compiler | {front_end, ptxas, flags} (object) |
| current | bool: about this checkout's program; peers and proofs always are (see verdicts.source_sha256) |
| same_program | the technique whose program this twin re-exports |
| details | what else the row says (object) |
| recorded, run | bool: below reports/recorded; stem of the row's file |
| environment, gpu, gpu_slug, board | id; "NVIDIA H200"; h200; which board of its kind |
| major, sm_count, max_sm_mhz, power_limit_w | of the GPU; its major compute capability |
| process, driver, torch, triton, cuda, commit | of the run |
| time | UTC, such as 2026-01-31T23:59:59Z; sorts as text |

timing:

| column | what it is |
|---|---|
| purpose | timing; tune: one tile among others; cupti: CUPTI's time of a launch; roof: a limit of the hardware |
| mode | burst or sustained |
| group, order | id of the interleaved group, unique with `environment`; labels of its variants (object) |
| samples_ms | every sample (object: list); None where nothing was timed |
| ms, speed, unit | median; the same in the operator's unit of speed; TFLOPS |
| cupti_ms, events_ms, gap_ms, difference | of purpose cupti: both medians, idle time between launches, the rest |
| findings | of purpose cupti: what it saw beside the kernel (object: list) |
| clock_ghz | median SM clock of the kernel |
| clocks, call_us | {sm_mhz, power_w, throttle}; host latency {launcher, graph} (objects) |
| replicate, final | process of the run, 0 for the first; bool: of a final group (each series' fastest kernel) |
| again | A/A pair of the group {of, difference, limit, flagged} (object) |
| label, launch_hidden | as measured |
| roof, per_clock, tflops | of purpose roof: its name, {what: rates}, TFLOPS launch by launch (objects) |
| usable | bool: passed, measured and current |
| program | key of the machine code on one problem with its compilers, libraries and driver (rows/stats.py) |

gate:

| column | what it is |
|---|---|
| tool | of a sanitizer: memcheck, synccheck, racecheck or initcheck; missing for the gate of numerics |
| distributions | names of the inputs that were checked (object: tuple) |
| numerics | distribution -> {max_abs, yardstick, floor, rel_l2, ...} (object) |
| errors | distribution -> largest error over the yardstick, None where not finite (object) |
| error, error_in | the largest of `errors`, inf where not finite; in which distribution |
| gate, covers_all | id of inputs and limits; bool: every distribution, by this checkout's comparison |
| padded, sharing, planted, label, launch_ms | as checked; `planted`: the bug that was put in |
| found, findings | of a sanitizer |

code (one row for every row of any kind that read the machine code; `of`: that row's kind):
registers, spill_bytes, smem_bytes, census (object), main_loop (object), setmaxnreg (object), remarks (object).

counters: metrics, totals, sites, ncu (objects), grid, block, symbol, clock_ghz, tool_version. `on` is gpu for Nsight
Compute, cpu for the CPU runtime.

proof: proof, verdict, subject, control, lines, control_lines (objects), seen.

environment (indexed by id): gpu, gpu_slug, board, sm_count, major, max_sm_mhz, power_limit_w, driver, tensor_tflops,
bytes_per_s, torch, triton, cuda, cudnn, nvcc, ptxas, triton_ptxas, commit, dirty, process, details (object), time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.catalog import sources
from harness.rows import lock, reading, results, schema

if TYPE_CHECKING:
    import pandas

KINDS = ("timing", "gate", "code", "counters", "proof", "environment")
RECORDED = sources.ROOT / "reports" / "recorded"
UNIT = "TFLOPS"
KEPT_TABLES = 4
"""Of each kind, in the build folder."""
SUFFIXES = (".cu", ".cuh", ".py", ".patch", ".toml")
Row = Mapping[str, Any]
Column = Callable[[Row], Any]


def frame(kind: str, *, root: Path = RECORDED, runs: Iterable[Path] = (), operator: str | None = None) -> Any:
    """The table of `kind` (one of KINDS): rows recorded below `root`, and those of `runs`, files of fresh rows. A run
    that was recorded since is not read twice.

    One table for each argument is made in a process and shared: never change it in place. Raises ValueError for another
    kind, results.NotRows for a file that holds no rows.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: got {kind!r}, expected one of {', '.join(KINDS)}")
    known = {path.name.partition(".")[0] for path in results.recorded(Path(root))}
    table = _frame(kind, Path(root), tuple(path for path in map(Path, runs) if path.stem not in known))
    if operator is None or kind == "environment":
        return table
    return table[table.operator == operator]


def newest(table: pandas.DataFrame, *cell: str) -> pandas.DataFrame:
    """The newest row of each cell: columns that name one, such as "experiment", "problem", "technique", "backend"."""
    return table.sort_values("time", kind="stable").drop_duplicates(list(cell), keep="last")


def in_groups(ours: pandas.DataFrame, theirs: pandas.DataFrame) -> pandas.DataFrame:
    """Pairs of timings that were interleaved with each other, as columns x_ours and x_theirs, one row a pair, and
    `ratio`: speed of ours over theirs."""
    both = ours.merge(theirs, on=["environment", "group"], suffixes=("_ours", "_theirs"))
    return both.assign(ratio=both.speed_ours / both.speed_theirs)


def ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float | None:
    """Speed of one timing over another's (rows of the table), None unless one process interleaved them."""
    if (ours["environment"], ours["group"]) != (theirs["environment"], theirs["group"]) or ours["group"] is None:
        return None
    return float(ours["speed"] / theirs["speed"])


@cache
def rows(kind: str | None = None, root: Path = RECORDED, runs: tuple[Path, ...] = ()) -> tuple[dict[str, Any], ...]:
    """The rows of a kind and all environments, or all rows, each with `run` (the stem of its file) and `recorded`."""
    return tuple(_read(kind, (*results.recorded(root), *runs)))


def _read(kind: str | None, files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    kinds = tuple(results.KINDS) if kind is None else (kind, "environment")
    for path in files:
        recorded = path.name.endswith(results.RECORDED)
        about = {"run": path.name.partition(".")[0], "recorded": recorded}
        yield from ({**row, **about} for row in results.read(path, None if recorded else schema.check, kinds))


@cache
def _frame(kind: str, root: Path, runs: tuple[Path, ...]) -> pandas.DataFrame:
    import pandas

    found = _of_checkout(kind) if root == RECORDED else _made(kind, results.recorded(root))
    if not runs:
        return found
    both = pandas.concat([found, _made(kind, runs)], ignore_index=kind != "environment")
    return both[~both.index.duplicated()]


def _made(kind: str, files: Iterable[Path]) -> pandas.DataFrame:
    return table(kind, _read(None if kind == "code" else kind, files))


@cache
def _of_checkout(kind: str) -> pandas.DataFrame:
    """The table of recorded rows, from the build folder where the same files made it before: reading it takes a second,
    making it ten."""
    import pandas

    files = results.recorded(RECORDED)
    made = sources.CACHE / "tables" / f"{kind}-{_inputs(*files)}.pickle"
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
        found: pandas.DataFrame = pandas.read_pickle(made)
        return found
    found = _made(kind, files)
    with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else's
        sources.put(made, pickle.dumps(found))
        for old in sorted(made.parent.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT_TABLES]:
            old.unlink(missing_ok=True)
    return found


def _inputs(*files: Path) -> str:
    """Names what a table is made from: the rows, the kernels, which decide which rows are current, and this code."""
    folders = ("cuda_kernels", "triton_kernels", *(f"harness/{room}" for room in ("rows", "catalog", "operators")))
    found = (path for folder in folders for path in sorted((sources.ROOT / folder).rglob("*")))
    code = [path for path in found if path.suffix in SUFFIXES]
    digest = hashlib.sha256()
    for path in (*code, *filter(Path.is_file, [lock.PATH]), *files):
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def table(kind: str, every: Iterable[Row]) -> pandas.DataFrame:
    """The table of `kind` of these rows. Rows without `run` and `recorded` are taken for fresh ones."""
    import pandas

    every = [results.spelled_out(row) for row in every]
    environments = {row["id"]: _environment(row) for row in every if row["kind"] == "environment"}
    if kind == "environment":
        names = list(_environment({"id": "", "details": {}, "time": ""}))
        return pandas.DataFrame(list(environments.values()), columns=names).set_index("id", drop=False)
    chosen = [row for row in every if row["kind"] == kind or (kind == "code" and "registers" in row.get("code", ()))]
    columns = {**_COMMON, **_COLUMNS[kind]}
    found = {name: [read(row) for row in chosen] for name, read in columns.items()}
    for name in _OF_ENVIRONMENT:
        found[name] = [environments.get(row.get("environment"), {}).get(name) for row in chosen]
    if kind == "timing":
        found["usable"] = [
            current and row["status"] == "passed" and bool(row.get("samples_ms") or row.get("per_clock"))
            for row, current in zip(chosen, found["current"], strict=True)
        ]
        found["program"] = [_program(row, environments.get(row.get("environment"), {})) for row in chosen]
    return pandas.DataFrame(_typed(found, pandas))


_PROGRAM = ("technique", "kernel", "backend", "problem", "tile", "mode", "arch", "source_sha256", "compiler")
_LIBRARIES = ("torch", "cuda_runtime", "cudnn", "triton")


def _program(row: Row, environment: Mapping[str, Any]) -> str:
    details = environment.get("details") or {}
    software, gpu = details.get("software") or {}, details.get("gpu") or {}
    peers = operators.get(row.get("operator") or operators.FIRST).libraries
    own = peers.get(row["backend"].partition("@")[0])
    libraries = (*_LIBRARIES, own and own.software)
    around = [gpu.get("name"), gpu.get("driver"), *(software.get(name) for name in libraries)]
    return json.dumps([*(row.get(name) for name in _PROGRAM), *around], sort_keys=True)


def _typed(table: Mapping[str, list[Any]], pandas: Any) -> dict[str, Any]:
    """Lists and dictionaries stay objects, numbers become floats, texts pandas' strings."""
    typed = {}
    for name, values in table.items():
        if name in _OBJECTS:
            typed[name] = pandas.Series(values, dtype=object)
        elif name in _NUMBERS:
            typed[name] = pandas.Series(values, dtype=float)
        elif name in _TRUTHS:
            typed[name] = pandas.Series(values, dtype=bool)
        else:
            typed[name] = pandas.Series(values, dtype="str")
    return typed


def _environment(row: Row) -> dict[str, Any]:
    details = row["details"]
    gpu, peaks, git = (details.get(name) or {} for name in ("gpu", "peaks", "git"))
    software, tools = details.get("software") or {}, details.get("toolchain") or {}
    return {
        "id": row["id"],
        "gpu": gpu.get("name") or "a CPU",
        "gpu_slug": results.slug_of(gpu),
        "board": gpu.get("uuid_sha256"),
        "sm_count": gpu.get("sm_count"),
        "major": (gpu.get("capability") or [None])[0],
        "max_sm_mhz": gpu.get("max_sm_mhz"),
        "power_limit_w": gpu.get("power_limit_w"),
        "driver": gpu.get("driver"),
        "tensor_tflops": peaks.get("tensor_tflops"),
        "bytes_per_s": peaks.get("bytes_per_s"),
        "torch": software.get("torch"),
        "triton": software.get("triton"),
        "cuda": software.get("cuda_runtime"),
        "cudnn": software.get("cudnn"),
        "nvcc": tools.get("nvcc"),
        "ptxas": tools.get("ptxas"),
        "triton_ptxas": tools.get("triton_ptxas"),
        "commit": git.get("sha"),
        "dirty": bool(git.get("dirty")),
        "process": details.get("process"),
        "details": details,
        "time": row["time"],
        "recorded": row.get("recorded", False),
    }


@cache
def checkout_hashes() -> dict[tuple[str, str], str]:
    """(technique, backend) -> hash of this checkout's sources."""
    return reading.checkout_hashes()


def _field(name: str) -> Column:
    return lambda row: row.get(name)


def _detail(name: str, missing: Any = None) -> Column:
    return lambda row: (row.get("details") or {}).get(name, missing)


def _of_code(name: str) -> Column:
    return lambda row: (row.get("code") or {}).get(name)


def _version(row: Row) -> str | None:
    return str(row.get("backend", "")).partition("@")[2] or None


def _is_current(row: Row) -> bool:
    return row["kind"] == "proof" or reading.is_current(row, checkout_hashes())


def _is_reference(row: Row) -> bool:
    return "problem" in row and reading.is_reference_tile(row)


def _ms(row: Row) -> float | None:
    return reading.median_ms(row) if row.get("samples_ms") else None


def _speed(row: Row) -> float | None:
    if row.get("purpose") == "roof":
        return statistics.median(row["tflops"]) if row.get("tflops") else None
    return reading.tflops(row) if row.get("samples_ms") else None


def _errors(row: Row) -> dict[str, float | None] | None:
    return reading.error_over_yardstick(row) if row.get("numerics") else None


def _worst(row: Row) -> tuple[float | None, str | None]:
    errors = {name: float("inf") if error is None else error for name, error in (_errors(row) or {}).items()}
    worst = max(errors, key=errors.__getitem__, default=None)
    return (None, None) if worst is None else (errors[worst], worst)


def _covers_all(row: Row) -> bool:
    asked = operators.get(row["operator"]).distributions
    return not reading.of_earlier_gate(row) and set(asked) <= set(row.get("numerics") or ())


_COMMON: dict[str, Column] = {
    **{name: _field(name) for name in ("operator", "experiment", "technique", "kernel", "backend")},
    "language": lambda row: str(row.get("backend", "")).partition("@")[0],
    "version": _version,
    "name": lambda row: reading.name_of(row) or None,
    "problem": lambda row: reading.slug(row) if "problem" in row else None,
    "tile": reading.tile_slug,
    "problem_fields": _field("problem"),
    "tile_fields": _field("tile"),
    "reference_tile": _is_reference,
    "case": lambda row: reading.case(row) if "problem" in row else None,
    **{name: _field(name) for name in ("arch", "mma", "on", "status", "reason", "check")},
    "assembler": lambda row: row.get("assembler") or "own",
    "source_sha256": _field("source_sha256"),
    "sass_sha256": lambda row: (row.get("code") or {}).get("sass_sha256") or row.get("sass_sha256"),
    "compiler": _field("compiler"),
    "current": _is_current,
    "same_program": _detail("same_program"),
    **{name: _field(name) for name in ("details", "recorded", "run", "environment", "time")},
}
_OF_ENVIRONMENT = (
    *("gpu", "gpu_slug", "board", "major", "sm_count", "max_sm_mhz", "power_limit_w"),
    *("process", "driver", "torch", "triton", "cuda", "commit"),
)
_COLUMNS: dict[str, dict[str, Column]] = {
    "timing": {
        "purpose": lambda row: row.get("purpose", "timing"),
        **{name: _field(name) for name in ("mode", "group", "order", "samples_ms")},
        "ms": _ms,
        "speed": _speed,
        "unit": lambda row: UNIT,
        **{name: _detail(name) for name in ("cupti_ms", "events_ms", "gap_ms", "difference", "findings")},
        "clock_ghz": reading.clock_ghz,
        **{name: _field(name) for name in ("clocks", "call_us")},
        "replicate": _detail("replicate", 0),
        "final": _detail("final", False),
        **{name: _detail(name) for name in ("again", "label", "launch_hidden")},
        **{name: _field(name) for name in ("roof", "per_clock", "tflops")},
    },
    "gate": {
        "tool": _field("tool"),
        "distributions": lambda row: tuple(row.get("numerics") or ()),
        "numerics": _field("numerics"),
        "errors": _errors,
        "error": lambda row: _worst(row)[0],
        "error_in": lambda row: _worst(row)[1],
        "gate": _field("gate"),
        "covers_all": _covers_all,
        "padded": _detail("padded", False),
        **{name: _detail(name) for name in ("sharing", "planted", "label", "launch_ms", "found", "findings")},
    },
    "code": {
        "of": _field("kind"),
        **{
            name: _of_code(name)
            for name in ("registers", "spill_bytes", "smem_bytes", "census", "main_loop", "setmaxnreg", "remarks")
        },
    },
    "counters": {
        **{name: _detail(name) for name in ("metrics", "totals", "sites", "ncu", "grid", "block", "tool_version")},
        "symbol": _detail("kernel"),
        "clock_ghz": reading.clock_ghz,
    },
    "proof": {
        "proof": _field("proof"),
        **{name: _detail(name) for name in ("verdict", "subject", "control", "lines", "control_lines", "seen")},
    },
}
_OBJECTS = frozenset(
    (
        *("problem_fields", "tile_fields", "compiler", "details", "order", "samples_ms", "findings", "clocks"),
        *("call_us", "again", "per_clock", "tflops", "distributions", "numerics", "errors", "census", "main_loop"),
        *("setmaxnreg", "remarks", "metrics", "totals", "sites", "ncu", "lines", "control_lines", "launch_hidden"),
        "seen",
    )
)
_NUMBERS = frozenset(
    (
        *("ms", "speed", "cupti_ms", "events_ms", "gap_ms", "difference", "clock_ghz", "replicate", "neighbours"),
        *("error", "sharing", "launch_ms", "found", "registers", "spill_bytes", "smem_bytes"),
        *("major", "sm_count", "max_sm_mhz", "power_limit_w"),
    )
)
_TRUTHS = frozenset(("reference_tile", "current", "recorded", "final", "usable", "covers_all", "padded"))
