"""Rows from strangers: does a row say what it must, in the types that the rest of the project reads? Standard library
only.

`check` is asked of every row of a file that was given, not only of those that are written here. `admit` is asked, on
top, of a row before it is recorded: its names become paths, its time decides which row wins.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache, reduce
from typing import Any

from harness.catalog import architectures, experiments, own, techniques
from harness.catalog.problem import ALL_PEERS, Problem, Tile
from harness.rows import packing, results
from harness.rows.reading import Row

Check = Callable[[str, Any], None]
"""(name of the field, its value): raises ValueError naming the field, what was got and what is expected."""

TOOLS = (
    *("bench", "inspect", "memory", "ncu", "outputs", "sanitizer", "sanitizer_planted", "structured_heads", "tune"),
    *("expressibility", "fleet"),
)
"""Experiments that rows may name without a file in experiments/."""
SERIES = (*techniques.SERIES, *techniques.ON_REQUEST)
"""Backends of the registry's kernels."""
OTHERS = {
    "probe": ("cuda", *techniques.AS_CUBINS),
    "roof": ("cuda", "cublas"),
    "fp8": ("torch",),
}
"""Kind -> its backends, where they are not SERIES and libraries."""
HEAD_DIMS = (64, 128, 256)
"""Those of recorded rows."""
ON_A_CPU = ("fp8", "heads", "memory", "outputs")
"""Kinds of rows that a CPU makes."""
EARLIEST = "2024-01-01T00:00:00Z"
AHEAD = 24 * 3600
"""Seconds that a clock may be ahead of this one."""
LARGEST = 2**63
DEEPEST = 20
LONGEST = packing.LONGEST
"""Characters of a text, and entries of a list or an object."""
MOST_BYTES = 2**50
"""Most bytes of a problem's tensors: more than any machine holds."""


def check(row: Row) -> None:
    """Raises ValueError naming the field when a row is not of this format, in types and ranges too."""
    _plain("row", row, 0)
    results.check(row)
    for name, value in row.items():
        if name in _FIELDS:
            _FIELDS[name](f"row.{name}", value)
    if row["kind"] == "environment":
        _need(row, "id", "details", "time")
        _ENVIRONMENT("row.details", row["details"])
        return
    _need(row, "on", "experiment", "environment", "time", *(_OF_FLEET if row["kind"] == "fleet" else ["backend"]))
    if row["kind"] not in ("probe", "roof", "fleet"):
        _need(row, "problem")
    _need(row, *_OF_KIND.get(row["kind"], ()))
    if row.get("backend") in SERIES:
        _need(row, "roof" if row["kind"] == "roof" else "technique", "source_sha256")
    if row.get("backend") == own.BACKEND:
        _need(row, "kernel", "source_sha256")
    if row.get("technique") and row["kind"] != "probe":
        _need(row, "tile")
    if row.get("samples_ms"):
        _need(row, "mode", *(["group"] if row["kind"] == "timing" else []))
    _DETAILS.get(row["kind"], _ANY_DETAILS)("row.details", row.get("details", {}))
    if row["kind"] == "timing" and "again" in row.get("details", {}):
        _need(row, "group")
    if row["status"] == "passed":
        _check_passed(row)


def _check_passed(row: Row) -> None:
    """What a row that failed may lack."""
    if row["kind"] in _DETAILS:
        _need(row, "details")
    measured = _PASSED.get(row["kind"])
    if measured and not _at(row, measured):
        raise ValueError(f"row.{measured}: got nothing, expected it in a row that passed")
    for field, ask in _IN_FULL.get(row["kind"], {}).items():
        ask(f"row.{field}", row[field])


def admit(row: Row) -> None:
    """`check`, and whether the row may be recorded. Raises ValueError naming the field for a name that this checkout
    does not know (of an experiment, a technique, a backend, an architecture, a roof), a time that cannot be, an
    environment whose id is not the hash of its details, and a GPU without multiprocessors or a name that gives a
    folder."""
    check(row)
    latest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + AHEAD))
    if not EARLIEST <= row["time"] <= latest:
        raise ValueError(f"row.time: got {row['time']}, expected between {EARLIEST} and {latest}: now, and a day")
    if row["kind"] == "environment":
        if (expected := results.environment_id(row["details"])) != row["id"]:
            raise ValueError(f"row.id: got {row['id']!r}, expected {expected}: the hash of row.details")
        gpu = row["details"]["gpu"]
        if gpu and results.gpu_slug(gpu["name"]) in ("", results.COMPILERS):
            raise ValueError(f"row.details.gpu.name: got {gpu['name']!r}, expected a name with letters, such as H200")
        if gpu and "sm_count" not in gpu:
            raise ValueError("row.details.gpu.sm_count: got nothing, expected its multiprocessors")
        return
    _known("experiment", row["experiment"], _experiments())
    if row.get("backend") == own.BACKEND:
        raise ValueError(
            f"row.backend: got own ({row.get('kernel')}), expected kernels of this checkout; `twinkernels compare` "
            "takes the run's file as it is, and a kernel to record becomes a rung first"
        )
    _admit_names(row)
    if row.get("technique") and row["kind"] != "probe" and not techniques.find(row["technique"]):
        raise ValueError(
            f"row.technique: got {row['technique']!r}, expected a name of the registry (`twinkernels list`); a rung "
            "that got another name is recorded with the checkout that measured it, and renamed by `record --rename`"
        )


def _admit_names(row: Row) -> None:
    kind = row["kind"]
    if kind in ON_A_CPU and row["on"] != "cpu":
        raise ValueError(f"row.on: got {row['on']}, expected cpu in a row of kind {kind}")
    if "backend" in row:
        language, _, version = row["backend"].partition("@")
        versioned = techniques.RIVALS if kind == "probe" else () if kind in OTHERS else ALL_PEERS
        if not version or language not in versioned:
            _known("backend", row["backend"], (*OTHERS.get(kind, SERIES), *(() if kind == "probe" else versioned)))
        if row.get("technique") and kind != "probe":
            _known("backend", row["backend"], SERIES)
    if "arch" in row:
        _known("arch", row["arch"], architectures.CAPABILITY)
    if "roof" in row:
        _known("roof", row["roof"], _roofs())
    if "problem" in row:
        _known("problem.head_dim", row["problem"]["head_dim"], HEAD_DIMS)


def _known(field: str, got: Any, names: Iterable[Any]) -> None:
    if got not in names:
        raise ValueError(f"row.{field}: got {got!r}, expected one of {', '.join(map(str, sorted(names)))}")


@cache
def _experiments() -> frozenset[str]:
    return frozenset((*experiments.names(), *TOOLS))


@cache
def _roofs() -> frozenset[str]:
    return frozenset(roof.name for name in experiments.names() for roof in experiments.load(name).roofs)


def _need(row: Row, *names: str) -> None:
    for name in names:
        if name not in row:
            raise ValueError(f"row.{name}: got nothing, expected it in a row of kind {row['kind']}")


def _at(row: Row, path: str) -> Any:
    """What stands at a path such as details.metrics; nothing where a step is missing."""
    return reduce(lambda part, name: part.get(name) or {}, path.split("."), row)


def _wrong(name: str, got: Any, expected: str) -> ValueError:
    said = repr(got)
    return ValueError(f"{name}: got {said if len(said) <= 60 else said[:57] + '...'}, expected {expected}")


def _plain(name: str, value: Any, depth: int) -> None:
    """Refuses what JSON cannot hold, a terminal cannot show or a statistic cannot take, at any depth."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise _wrong(name, value, "text (half of a pair of UTF-16 is none)")
        if len(value) > LONGEST:
            raise _wrong(name, value, f"at most {LONGEST} characters")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _wrong(name, value, "a finite number")
    elif isinstance(value, int):
        if not -LARGEST < value < LARGEST:
            raise _wrong(name, value, "a finite number")
    elif depth > DEEPEST:
        raise ValueError(f"{name}: got more than {DEEPEST} levels of lists and objects, expected a row")
    elif isinstance(value, dict | list) and len(value) > LONGEST:
        raise ValueError(f"{name}: got {len(value)} entries, expected at most {LONGEST}")
    elif isinstance(value, dict):
        for key, item in value.items():
            _plain(name, key, depth + 1)
            if type(item) is not int or not -LARGEST < item < LARGEST:  # a census has a hundred that are
                _plain(f"{name}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _plain(f"{name}[{position}]", item, depth + 1)


def _text(pattern: str, expected: str) -> Check:
    compiled = re.compile(pattern)

    def ask(name: str, value: Any) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise _wrong(name, value, expected)

    return ask


def _one_of(*values: str) -> Check:
    return _text("|".join(map(re.escape, values)), f"one of {', '.join(values)}")


def _one_of_numbers(*values: int) -> Check:
    def ask(name: str, value: Any) -> None:
        if type(value) is not int or value not in values:
            raise _wrong(name, value, f"one of {', '.join(map(str, values))}")

    return ask


def _number(
    *, least: float | None = None, above: float | None = None, most: float | None = None, whole: bool = False
) -> Check:
    bound = f" of at least {least:g}" if least is not None else f" above {above:g}" if above is not None else ""
    bound += f" and at most {most:g}" if most is not None else ""
    expected = f"{'a whole' if whole else 'a'} number{bound}"

    def ask(name: str, value: Any) -> None:
        kind = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind):
            raise _wrong(name, value, expected)
        if (least is not None and value < least) or (above is not None and value <= above):
            raise _wrong(name, value, expected)
        if most is not None and value > most:
            raise _wrong(name, value, expected)

    return ask


def _truth(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")


def _maybe(other: Check) -> Check:
    def ask(name: str, value: Any) -> None:
        if value is not None:
            other(name, value)

    return ask


def _list(each: Check, least: int = 0, *, exactly: int | None = None) -> Check:
    expected = "a list"
    if exactly is not None or least:
        expected += f" of {exactly}" if exactly is not None else f" of at least {least}"

    def ask(name: str, value: Any) -> None:
        if not isinstance(value, list) or len(value) < least or len(value) != (exactly or len(value)):
            raise _wrong(name, value, expected)
        for position, item in enumerate(value):
            each(f"{name}[{position}]", item)

    return ask


def _table(each: Check) -> Check:
    """An object with names of one line each, because tables and pages show them."""

    def ask(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _wrong(name, value, "an object")
        for key, item in value.items():
            _LINE(f"{name}: a name", key)
            each(f"{name}.{key}", item)

    return ask


def _object(needed: Mapping[str, Check] | None = None, /, **known: Check) -> Check:
    """An object with the needed fields, and the known ones where it has them; others may be there."""

    def ask(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _wrong(name, value, "an object")
        for field in needed or {}:
            if field not in value:
                raise ValueError(f"{name}.{field}: got nothing, expected it")
        for field, other in {**(needed or {}), **known}.items():
            if field in value:
                other(f"{name}.{field}", value[field])

    return ask


def _same_as(kind: type[Problem] | type[Tile]) -> Check:
    """What `kind` writes, value for value: a number of another type that equals the right one is refused too."""

    def ask(name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise _wrong(name, value, "an object")
        try:
            again = kind.from_dict(value).to_dict()
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{name}: {error}") from None
        for field, item in again.items():
            if json.dumps(value.get(field), sort_keys=True) != json.dumps(item, sort_keys=True):
                raise _wrong(f"{name}.{field}", value.get(field), f"{kind.__name__}.to_dict()'s {item!r}")
        if kind is Problem and (size := kind.from_dict(value).bytes) > MOST_BYTES:
            raise ValueError(f"{name}: got tensors of {size} bytes, expected at most {MOST_BYTES}")
        for option in again.get("extra", ()):
            _NAME(f"{name}.extra: an option", option)

    return ask


def _moment(name: str, value: Any) -> None:
    try:
        datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
    except (TypeError, ValueError):
        raise _wrong(name, value, "UTC such as 2026-01-31T23:59:59Z") from None
    _text(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "UTC such as 2026-01-31T23:59:59Z")(name, value)


_WORDS = _text(r"(?s).*", "text")
_SAID = _text(r"(?s).+", "text")
_NAME = _text(r"[a-z][a-z0-9_]*", "a name of small letters, digits and _")
_PRINTED = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
_LINE = _text(_PRINTED + "{1,1000}", "one line of text, without control characters")
_LONG_LINE = _text(_PRINTED + "+", "one line of text, without control characters")
_HASH = _text(r"[0-9a-f]{64}", "a SHA-256 in hexadecimal")
_COUNT = _number(least=0, whole=True)
_ANY_NUMBER = _number()

_SHARE = _number(least=0)

_LOOP_COUNTS = _object(dict.fromkeys(("exponentials", "maxima", "shuffles", "conversions"), _COUNT))
_MAIN_LOOP = _object(
    {
        "instructions": _COUNT,
        "products": _COUNT,
        "serialized": _truth,
        "local_memory": _COUNT,
        "all": _LOOP_COUNTS,
        "under_products": _LOOP_COUNTS,
        "in_lock": _maybe(_LOOP_COUNTS),
        "sequence": _LONG_LINE,
    }
)
"""What harness.variants.instruction_order reads."""

_FIELDS: dict[str, Check] = {
    "schema": _number(least=1, whole=True),
    "kind": _one_of(*results.KINDS),
    "on": _one_of("gpu", "cpu"),
    "experiment": _NAME,
    "assembler": _one_of("shared"),
    "technique": _NAME,
    "backend": _text(r"[a-z][a-z0-9_]*(@[A-Za-z0-9][A-Za-z0-9.+-]{0,99})?", "a name such as cuda or fa3@2.8"),
    "kernel": _LINE,
    "problem": _same_as(Problem),
    "tile": _same_as(Tile),
    "arch": _text(r"sm_\d{2,3}[a-z]?", "an architecture such as sm_90a"),
    "mma": _one_of("fma", "mma_sync", "wgmma"),
    "source_sha256": _HASH,
    "renewed_from": _HASH,
    "differs_from": _HASH,
    "compiler": _object({"front_end": _LINE}, ptxas=_LINE, flags=_WORDS),
    "status": _one_of(*results.STATUSES),
    "reason": _SAID,
    "check": _LINE,
    "gate": _text(r"[0-9a-f]{12}", "twelve hexadecimal digits"),
    "numerics": _table(_table(_maybe(_SHARE))),
    "samples_ms": _list(_number(least=1e-6, most=1e9)),  # a nanosecond, eleven days
    "mode": _one_of("burst", "sustained"),
    "per_clock": _table(_list(_number(above=0))),
    "tflops": _list(_number(above=0)),
    "clock_ghz": _list(_number(above=0, most=10), least=1),
    "tool": _one_of(*results.SANITIZERS),
    "roof": _NAME,
    "proof": _LINE,
    "command": _LINE,
    "gpus": _number(least=1, whole=True),
    "gpu": _text(r"[a-z0-9]+(-[a-z0-9]+)*", "the folder of a GPU, such as h200"),
    "group": _LINE,
    "order": _list(_LINE),
    "clocks": _object(sm_mhz=_maybe(_number(least=0)), power_w=_maybe(_number(least=0)), throttle=_maybe(_list(_LINE))),
    "code": _object(
        {
            "registers": _number(least=1, whole=True),
            "spill_bytes": _COUNT,
            "smem_bytes": _COUNT,
            "sass_sha256": _HASH,
        },
        census=_table(_COUNT),
        main_loop=_MAIN_LOOP,
        setmaxnreg=_list(_COUNT),
        remarks=_list(_LINE),
    ),
    "sass_sha256": _HASH,
    "compile_s": _number(least=0),
    "call_us": _table(_number(above=0)),
    "environment": _LINE,
    "time": _moment,
    "id": _LINE,
}

_OF_FLEET = ("command", "gpus", "details")
_OF_KIND = {
    "sanitizer": ("technique", "tool"),
    "probe": ("technique", "proof", "details"),
    "roof": ("roof",),
    "counters": ("technique",),
    "memory": ("technique",),
    "heads": ("technique",),
    "outputs": ("technique", "gpu", "details"),
}
"""What every row of a kind names."""
_PASSED = {
    "timing": "samples_ms",
    "referee": "samples_ms",
    "code": "code",
    "gate": "numerics",
    "fp8": "numerics",
    "counters": "details.metrics",
}
"""What a row of a kind has when it passed."""

_COMMON: dict[str, Check] = {
    "again": _object(
        {"of": _LINE, "difference": _ANY_NUMBER, "flagged": _truth},
        limit=_maybe(_ANY_NUMBER),
        before=_maybe(_ANY_NUMBER),
    ),
    "diagnosis": _list(_WORDS),
    "final": _truth,
    "label": _maybe(_WORDS),
    "launch_hidden": _maybe(_truth),
    "launch_ms": _number(least=0),
    "neighbours": _COUNT,
    "log": _WORDS,
    "padded": _truth,
    "planted": _NAME,
    "replicate": _COUNT,
    "same_program": _NAME,
    "sharing": _COUNT,
    "stage": _LINE,
}
_ANY_DETAILS = _object(**_COMMON)

_ADDRESSED = {"width": _one_of_numbers(1, 2, 4, 8, 16), "wavefronts": _COUNT, "bank_conflicts": _COUNT}
"""What a site says, beside an example, of lanes that address shared memory."""
_WAITED = ("bytes_in_flight", "bytes_left", "groups_in_flight", "groups_left")
_SITE = _object(
    {"file": _LINE, "line": _COUNT, "mnemonic": _LINE, "executions": _number(least=1, whole=True)},
    **dict.fromkeys(("width", "bytes", "wavefronts", "bank_conflicts", "sectors", "least_sectors", *_WAITED), _COUNT),
    example_addresses=_list(_maybe(_COUNT), exactly=32),
)


def _site(name: str, value: Any) -> None:
    """What one instruction of a kernel did to memory, as cuda_kernels/cpu_library.py describes it."""
    _SITE(name, value)
    if value["mnemonic"].startswith("ldmatrix") or "example_addresses" in value:
        _object({"example_addresses": _list(_maybe(_COUNT)), **_ADDRESSED})(name, value)
    if any(field in value for field in _WAITED):
        _object(dict.fromkeys(_WAITED, _COUNT))(name, value)


_TOTALS = _object(
    {
        **dict.fromkeys(("bank_conflicts", "wavefronts", "sectors", "least_sectors"), _COUNT),
        "bytes": _table(_COUNT),
        "executions": _table(_COUNT),
    }
)


def _structured_heads(name: str, value: Any) -> None:
    """Errors of heads by position, in as many bins as there are."""
    _object({"seq": _number(least=1, whole=True), "bin": _number(least=1, whole=True)})(name, value)
    bins = value["seq"] // value["bin"]
    if not 1 <= bins <= LONGEST:
        raise _wrong(f"{name}.bin", value["bin"], f"at most seq={value['seq']}, in at most {LONGEST} bins")
    errors = _list(_SHARE, exactly=bins)
    head = _object(
        {
            "name": _LINE,
            "attention": _list(_list(_number(least=0, most=255), exactly=bins), exactly=bins),
            "row_sums": _list(_ANY_NUMBER, exactly=2),
            "error_max": errors,
            "error_median": errors,
            **dict.fromkeys(("max_abs", "median_abs", "rounding"), _SHARE),
        }
    )
    _object({"heads": _list(head, exactly=4)})(name, value)


_REFEREED: dict[str, Check] = {
    "cupti_ms": _number(above=0),
    "events_ms": _number(above=0),
    "gap_ms": _ANY_NUMBER,
    "difference": _ANY_NUMBER,
}
_JUDGED = {"max_abs": _SHARE, "yardstick": _SHARE, "floor": _number(above=0)}
_EIGHT = ("tensor", "block", "rotated"), ("p", "p_scaled", "sums")
"""Columns of fp8: by inputs, by the kernel's roundings."""

_DETAILS: dict[str, Check] = {
    "counters": _object(metrics=_table(_maybe(_ANY_NUMBER)), totals=_table(_ANY_NUMBER), **_COMMON),
    "memory": _object(sites=_list(_site), totals=_TOTALS, ncu=_table(_COUNT), **_COMMON),
    "outputs": _object({"differing": _SHARE}, **_COMMON),
    "sanitizer": _object(findings=_list(_WORDS), found=_COUNT, **_COMMON),
    "fleet": _object(
        {"problems": _COUNT, "seconds": _number(above=0), "built": _COUNT, "lost": _COUNT},
        **_COMMON,
    ),
    "probe": _object(
        {"verdict": _one_of("proven", "refuted", "broken")},
        lines=_list(_WORDS),
        control_lines=_list(_WORDS),
        seen=_truth,
        **_COMMON,
    ),
    "referee": _object(findings=_list(_WORDS), **_REFEREED, **_COMMON),
    "heads": _object(**_COMMON),
    "fp8": _object(**_COMMON),
}
"""The details that pages and tables read, by kind."""

_IN_FULL: dict[str, dict[str, Check]] = {
    "gate": {"numerics": _table(_object(_JUDGED))},
    "referee": {"details": _object(_REFEREED)},
    "memory": {"details": _object({"sites": _list(_site), "totals": _TOTALS})},
    "heads": {"details": _structured_heads},
    "fp8": {
        "numerics": _table(_object(dict.fromkeys(("bf16", *_EIGHT[0], *_EIGHT[1], "tensor lse", "sums lse"), _SHARE))),
        "details": _object(
            {
                "inputs": _object(dict.fromkeys(_EIGHT[0], _LINE)),
                "kernel": _object(dict.fromkeys(_EIGHT[1], _LINE)),
                "order": _list(_COUNT),
            }
        ),
    },
}
"""Kind -> field -> what a row that passed says there in full."""

_ENVIRONMENT = _object(
    {
        "gpu": _maybe(
            _object(
                {"name": _text(r"[ -~]{1,100}", "a name of at most 100 letters, digits and signs")},
                capability=_list(_COUNT, least=2),
                uuid_sha256=_LINE,
                sm_count=_number(least=1, whole=True),
                driver=_maybe(_LINE),
                max_sm_mhz=_maybe(_number(least=0)),
                power_limit_w=_maybe(_number(least=0)),
            )
        )
    },
    peaks=_maybe(_table(_maybe(_number(least=0)))),
    software=_table(_maybe(lambda name, value: None if isinstance(value, int) else _LINE(name, value))),
    toolchain=_table(_maybe(_LINE)),
    variables=_table(_WORDS),
    git=_object(sha=_maybe(_text(r"[0-9a-f]{7,64}", "a commit in hexadecimal")), dirty=_maybe(_truth)),
    argv=_list(_WORDS),
    warnings=_list(_WORDS),
)
