"""All rows of one kind as a typed pandas table, with the machine of each row joined: what scorecard, compare, tune and
pages read. Raw rows are read in harness/rows alone.

    from harness.rows.frame import frame
    timing = frame("timing")
    fastest = timing[timing.usable & (timing.purpose == "timing")].groupby("problem").speed.max()

A missing text is NaN (ask with `.isna()`), a missing number NaN, a missing object None; bools are never missing. Most
columns are a row's own fields (results.FIELDS says what they mean). These are more, or read otherwise:

| column | what it is |
|---|---|
| version | 3.9.0 of gluon@3.9.0; missing where it is the installed one |
| name | technique or kernel; missing for peers |
| problem, tile | slugs; the tile is "" for peers. problem_fields and tile_fields are the same as dictionaries |
| case | "technique backend problem tile" in one line, as errors and tables name it |
| assembler | own, or shared where nvcc's ptxas assembled Triton's programs too |
| same_program | the technique whose program this twin re-exports |
| reference_tile | bool: the registry's tile, or a peer |
| current | bool: about this checkout's program; peers and proofs always are (see verdicts.source_sha256) |
| recorded, run | bool: below reports/recorded; stem of the row's file |
| gpu, gpu_slug, board | "NVIDIA H200"; h200; which board of its kind. `major` and the rest are of the environment |
| time | UTC, such as 2026-01-31T23:59:59Z; sorts as text |
| purpose | timing; tune: one tile among others; cupti: CUPTI's time of a launch; roof: a limit of the hardware |
| ms, speed, unit | of timings: median; the same in the operator's unit of speed; TFLOPS |
| difference, findings | of purpose cupti: of its median to the events', and what it saw beside the kernel |
| replicate, final | process of the run, 0 for the first; bool: of a final group (each series' fastest kernel) |
| again | A/A pair of the group {of, difference, limit, flagged} (object) |
| usable | bool: passed, measured and current |
| sass_sha256 | of a timing that did not read its machine code, what its gate read |
| program | key of the machine code on one problem with its compilers, libraries and driver (rows/stats.py) |
| distributions, numerics | of gates: names of the inputs; distribution -> {max_abs, yardstick, floor, ...} (object) |
| errors, error | distribution -> largest error over the yardstick, None where not finite; the largest of them or inf |
| planted | the bug that was put in |
| of | of code, which has a row for every row of any kind that read the machine code: that row's kind |
| metrics, totals, sites, ncu | of counters (objects); `on` is gpu for Nsight Compute, cpu for the CPU runtime |

The table "environment" is indexed by id and has what a run's machine was.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import pickle
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.catalog import entries, sources, techniques
from harness.rows import reading, results, schema

if TYPE_CHECKING:
    import pandas

KINDS = ("timing", "gate", "code", "counters", "proof", "environment")
RECORDED = sources.ROOT / "reports" / "recorded"
UNIT = "TFLOPS"
KEPT_TABLES = 4
"""Of each kind, in the build folder."""
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
    found = _frame(kind, Path(root), tuple(path for path in map(Path, runs) if path.stem not in known))
    if operator is None or kind == "environment":
        return found
    return found[found.operator == operator]


def newest(table: pandas.DataFrame, *cell: str) -> pandas.DataFrame:
    """The newest row of each cell: columns that name one, such as "experiment", "problem", "technique", "backend"."""
    return table.sort_values("time", kind="stable").drop_duplicates(list(cell), keep="last")


def in_groups(ours: pandas.DataFrame, theirs: pandas.DataFrame) -> pandas.DataFrame:
    """Pairs of timings that were interleaved with each other, as columns x_ours and x_theirs, one row a pair, and
    `ratio`: speed of ours over theirs."""
    both = ours.merge(theirs, on=["environment", "group"], suffixes=("_ours", "_theirs"))
    return both.assign(ratio=both.speed_ours / both.speed_theirs)


@cache
def rows(kind: str | None = None, root: Path = RECORDED, runs: tuple[Path, ...] = ()) -> tuple[dict[str, Any], ...]:
    """The rows of a kind and all environments, or all rows, each with `run` (the stem of its file) and `recorded`."""
    return tuple(_read(kind, (*results.recorded(root), *runs)))


def _read(kind: str | None, files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    kinds = tuple(results.KINDS) if kind is None else (kind, "environment")
    field = "registers" if kind in ("code", "timing") else ""  # of any row that read machine code

    def found() -> Iterator[dict[str, Any]]:
        for path in files:
            recorded = path.name.endswith(results.RECORDED)
            about = {"run": path.name.partition(".")[0], "recorded": recorded}
            yield from (
                {**row, **about} for row in results.read(path, None if recorded else schema.check, kinds, field)
            )

    return found() if kind == "proof" else _with_machine_code(list(found()))


_BUILT = ("operator", "technique", "backend", "problem", "tile", "arch", "assembler", "source_sha256", "compiler")


def _with_machine_code(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Gives timings that did not read their machine code the `sass_sha256` that a gate read: of the same problem and
    tile, by the same compiler from the same source. None where two such gates differ. But for CUDA the gate is of the
    same run: Triton 3.6 makes other machine code of some kernels in another run."""

    def built(row: Row) -> str:
        run = "" if row.get("backend") == "cuda" else row["run"]
        return json.dumps([run, *(row.get(name) for name in _BUILT)], sort_keys=True)

    known: dict[str, set[str]] = {}
    for row in found:
        if row["kind"] == "gate" and row.get("technique") and "sass_sha256" in (row.get("code") or {}):
            known.setdefault(built(row), set()).add(row["code"]["sass_sha256"])
    for row in found:
        asks = row["kind"] == "timing" and not (row.get("code") or row.get("sass_sha256"))
        read = known.get(built(row), ()) if asks else ()
        yield {**row, "sass_sha256": next(iter(read))} if len(read) == 1 else row


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without collections of garbage: each would walk all rows read so far, which are in no cycles. They took a fifth
    of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@cache
@uncollected()
def _frame(kind: str, root: Path, runs: tuple[Path, ...]) -> pandas.DataFrame:
    import pandas

    found = _of_checkout(kind) if root == RECORDED else _read_table(kind, results.recorded(root))
    if runs:
        both = pandas.concat([found, _read_table(kind, runs)], ignore_index=kind != "environment")
        found = both[~both.index.duplicated()]
    return found if kind == "environment" else _judged(kind, found)


def _read_table(kind: str, files: Iterable[Path]) -> pandas.DataFrame:
    return _table(kind, _read(kind, files))


@cache
def _of_checkout(kind: str) -> pandas.DataFrame:
    """The table of recorded rows, from the build folder where it was made before: a second instead of ten."""
    import pandas

    files = results.recorded(RECORDED)
    code = [Path(str(module.__file__)) for module in (entries, reading, results)]
    code += [Path(__file__), *sorted((sources.ROOT / "harness" / "operators").glob("*/problem.py"))]
    digest = hashlib.sha256("\0".join(map(sources.code, code)).encode())
    for path in files:
        digest.update(f"\0{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    made = sources.CACHE / "tables" / f"{kind}-{digest.hexdigest()[:24]}.pickle"
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
        found: pandas.DataFrame = pandas.read_pickle(made)
        return found
    found = _read_table(kind, files)
    with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else's
        sources.put(made, pickle.dumps(found))
        for old in sorted(made.parent.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT_TABLES]:
            old.unlink(missing_ok=True)
    return found


def table(kind: str, every: Iterable[Row]) -> pandas.DataFrame:
    """The table of `kind` of these rows. Rows without `run` and `recorded` are taken for fresh ones."""
    found = _table(kind, every)
    return found if kind == "environment" else _judged(kind, found)


def _table(kind: str, every: Iterable[Row]) -> pandas.DataFrame:
    """What rows say by themselves."""
    import pandas

    every = [results.spelled_out(row) for row in every]
    environments = {row["id"]: _environment(row) for row in every if row["kind"] == "environment"}
    if kind == "environment":
        names = list(_environment({"id": "", "details": {}, "time": ""}))
        return pandas.DataFrame(list(environments.values()), columns=names).set_index("id", drop=False)
    chosen = [row for row in every if row["kind"] == kind or (kind == "code" and "registers" in row.get("code", ()))]
    around = [environments.get(row.get("environment"), {}) for row in chosen]
    found = {
        name: pandas.Series([read(row) for row in chosen], dtype=of)
        for name, (of, read) in {**_COMMON, **_COLUMNS[kind]}.items()
    }
    for name in _OF_ENVIRONMENT:
        of = float if name in _NUMBERS else "str"
        found[name] = pandas.Series([environment.get(name) for environment in around], dtype=of)
    if kind == "timing":
        programs = [_program(row, environment) for row, environment in zip(chosen, around, strict=True)]
        found["program"] = pandas.Series(programs, dtype="str")
    return pandas.DataFrame(found)


def _judged(kind: str, found: pandas.DataFrame) -> pandas.DataFrame:
    """The table with what the checkout's kernels decide: `reference_tile`, `current` and `usable`."""
    columns = (found.operator, found.technique, found.problem, found.tile)
    reference = [isinstance(one[2], str) and _is_reference(*one) for one in zip(*columns, strict=True)]
    if kind == "proof":
        current = [True] * len(found)
    else:
        hashes = reading.checkout_hashes()
        twins = zip(found.technique, found.backend, found.source_sha256, strict=True)
        current = [not isinstance(name, str) or hashes.get((name, by)) == source for name, by, source in twins]
        rest = [place for place, is_current in enumerate(current) if not is_current]
        names = {"problem_fields": "problem", "tile_fields": "tile"}
        fields = ("operator", "technique", "backend", "source_sha256", "sass_sha256", "status", "reason", *names)
        others = found.iloc[rest][list(fields)].rename(columns=names).astype(object)
        for place, row in zip(rest, others.where(others.notna(), None).to_dict("records"), strict=True):
            current[place] = reading.is_current(row, hashes)
    found = found.assign(reference_tile=reference, current=current).astype(dict.fromkeys(_JUDGED, bool))
    if kind == "timing":
        measured = found.ms.notna() | found.per_clock.map(bool)
        found = found.assign(usable=found.current & (found.status == "passed") & measured)
    return found


def _is_reference(operator: str, technique: str, problem: str, tile: str) -> bool:
    if not isinstance(technique, str) or not tile:
        return True
    operator = operator if isinstance(operator, str) else operators.FIRST
    return tile == _reference_tile(operator, technique, _tile_key(operator, problem))


@cache
def _reference_tile(operator: str, technique: str, key: Any) -> str | None:
    known = techniques.find(f"{operator}/{technique}")
    return None if known is None else techniques.reference_tile(known, key).slug


@cache
def _tile_key(operator: str, problem: str) -> Any:
    return operators.get(operator).problem.parse(problem).tile_key


_PROGRAM = ("technique", "kernel", "backend", "problem", "tile", "mode", "arch", "source_sha256", "compiler")
_LIBRARIES = ("torch", "cuda_runtime", "cudnn", "triton")


def _program(row: Row, environment: Mapping[str, Any]) -> str:
    details = environment.get("details") or {}
    software, gpu = details.get("software") or {}, details.get("gpu") or {}
    operator = row.get("operator") or operators.FIRST
    own = operators.get(operator).libraries.get(row["backend"].partition("@")[0])
    libraries = (*_LIBRARIES, own and own.software)
    around = [gpu.get("name"), gpu.get("driver"), *(software.get(name) for name in libraries), operator]
    return json.dumps([*(row.get(name) for name in _PROGRAM), *around], sort_keys=True)


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


def _field(name: str) -> Column:
    return lambda row: row.get(name)


def _detail(name: str, missing: Any = None) -> Column:
    return lambda row: (row.get("details") or {}).get(name, missing)


def _of_code(name: str) -> Column:
    return lambda row: (row.get("code") or {}).get(name)


def _ms(row: Row) -> float | None:
    return reading.median_ms(row) if row.get("samples_ms") else None


def _speed(row: Row) -> float | None:
    if row.get("purpose") == "roof":
        return statistics.median(row["tflops"]) if row.get("tflops") else None
    return reading.tflops(row) if row.get("samples_ms") else None


def _errors(row: Row) -> dict[str, float | None] | None:
    return reading.error_over_yardstick(row) if row.get("numerics") else None


def _error(row: Row) -> float | None:
    return max((float("inf") if error is None else error for error in (_errors(row) or {}).values()), default=None)


def _fields(of: Any, *names: str, read: Callable[[str], Column] = _field) -> dict[str, tuple[Any, Column]]:
    """Columns of one type."""
    return {name: (of, read(name)) for name in names}


_COMMON: dict[str, tuple[Any, Column]] = {
    **_fields("str", "operator", "experiment", "technique", "kernel", "backend"),
    "version": ("str", lambda row: str(row.get("backend", "")).partition("@")[2] or None),
    "name": ("str", lambda row: reading.name_of(row) or None),
    "problem": ("str", lambda row: reading.slug(row) if "problem" in row else None),
    "tile": ("str", reading.tile_slug),
    "problem_fields": (object, _field("problem")),
    "tile_fields": (object, _field("tile")),
    "case": ("str", lambda row: reading.case(row) if "problem" in row else None),
    **_fields("str", "arch", "mma", "on", "status", "reason", "check"),
    "assembler": ("str", lambda row: row.get("assembler") or "own"),
    **_fields("str", "source_sha256"),
    "sass_sha256": ("str", lambda row: (row.get("code") or {}).get("sass_sha256") or row.get("sass_sha256")),
    **_fields(object, "compiler", "details"),
    **_fields(float, "compile_s"),
    **_fields("str", "same_program", read=_detail),
    "recorded": (bool, lambda row: row.get("recorded", False)),
    **_fields("str", "run", "environment", "time"),
}
_OF_ENVIRONMENT = ("gpu", "gpu_slug", "board", "major", "sm_count", "max_sm_mhz", "process", "commit")
_NUMBERS = ("major", "sm_count", "max_sm_mhz")
_JUDGED = ("reference_tile", "current")
_COLUMNS: dict[str, dict[str, tuple[Any, Column]]] = {
    "timing": {
        "purpose": ("str", lambda row: row.get("purpose", "timing")),
        **_fields("str", "mode", "group"),
        **_fields(object, "order", "samples_ms", "call_us"),
        "ms": (float, _ms),
        "speed": (float, _speed),
        "unit": ("str", lambda row: UNIT),
        **_fields(float, "difference", read=_detail),
        **_fields(object, "findings", read=_detail),
        "clock_ghz": (float, reading.clock_ghz),
        **_fields(object, "clocks"),
        "replicate": (float, _detail("replicate", 0)),
        "final": (bool, _detail("final", False)),
        **_fields(object, "again", read=_detail),
        **_fields("str", "label", read=_detail),
        **_fields("str", "roof"),
        **_fields(object, "per_clock", "tflops"),
    },
    "gate": {
        **_fields("str", "tool", "gate"),
        "distributions": (object, lambda row: tuple(row.get("numerics") or ())),
        **_fields(object, "numerics"),
        "errors": (object, _errors),
        "error": (float, _error),
        "padded": (bool, _detail("padded", False)),
        **_fields("str", "planted", "label", read=_detail),
        **_fields(float, "sharing", "launch_ms", "found", read=_detail),
        **_fields(object, "findings", read=_detail),
    },
    "code": {
        "of": ("str", _field("kind")),
        **_fields(float, "registers", "spill_bytes", "smem_bytes", read=_of_code),
        **_fields(object, "census", "main_loop", "setmaxnreg", "remarks", read=_of_code),
    },
    "counters": {
        **_fields(object, "metrics", "totals", "sites", "ncu", read=_detail),
        **_fields("str", "grid", read=_detail),
        "clock_ghz": (float, reading.clock_ghz),
    },
    "proof": {
        **_fields("str", "proof"),
        **_fields("str", "verdict", "subject", "control", read=_detail),
        **_fields(object, "lines", "control_lines", "seen", read=_detail),
    },
}
