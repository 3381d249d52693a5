"""Rows from strangers: does a row say what it must, in the types that the rest of the project reads?

`check` is asked of every row of a file that was given, not only of those that are written here. `admit` is asked, on
top, of a row before it is recorded: its names become paths, its time decides which row wins. rows.models has the types.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.catalog import architectures, experiments, own, techniques
from harness.catalog.entries import Tile
from harness.rows import reading, results
from harness.rows.reading import Row

if TYPE_CHECKING:
    from harness.rows.models import Part

TOOLS = ("bench", "inspect", "ncu", "sanitizer", "sanitizer_planted", "tune", "expressibility")
"""Experiments that rows may name without a file in experiments/."""
SERIES = (*techniques.SERIES, *techniques.ON_REQUEST)
"""Backends of the registry's kernels."""
EARLIEST = "2024-01-01T00:00:00Z"
AHEAD = 24 * 3600
"""Seconds that a clock may be ahead of this one."""
LARGEST = 2**63
DEEPEST = 20
LONGEST = 50_000
"""Characters of a text, and entries of a list or an object."""
MOST_BYTES = 2**50
"""Most bytes of a problem's tensors: more than any machine holds."""


def check(row: Row) -> None:
    """Raises ValueError naming the field when a row is not of this format, in types and ranges too."""
    from harness.rows import models

    _plain("row", row, 0)
    results.check(row)
    what = results.what(row)
    _typed((models.PASSED if row.get("status") == "passed" else models.OF)[what], row)
    _moment("row.time", row["time"])
    if row["kind"] == "environment":
        return
    if "problem" in row:
        _known("operator", row["operator"], operators.names())
        one = _same_as(operators.get(row["operator"]).problem, "row.problem", row["problem"])
        if one.bytes > MOST_BYTES:
            raise ValueError(f"row.problem: got tensors of {one.bytes} bytes, expected at most {MOST_BYTES}")
    if "tile" in row:
        _same_as(Tile, "row.tile", row["tile"])
    if row["backend"] in SERIES:
        _need(row, "roof" if what == "roof" else "technique", "source_sha256")
    if row["backend"] == own.BACKEND:
        _need(row, "kernel", "source_sha256")
    if row.get("technique") and what != "proof":
        _need(row, "tile")
    if row.get("samples_ms"):
        _need(row, "mode", *(["group"] if what == "timing" else []))
    if what == "gate" and "found" in row.get("details", {}):
        _need(row, "tool")
    if what == "timing" and "again" in row.get("details", {}):
        _need(row, "group")


def _typed(model: type[Part], row: Row) -> None:
    """Raises ValueError for the first field that is not of the model's type: its path, what was got and expected."""
    from pydantic import ValidationError

    try:
        model.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    else:
        return
    path = [step for step in first["loc"] if not str(step).startswith("#")]
    place = "row"
    for step in path:
        if step == "[key]":
            place = place.rpartition(".")[0] + ": a name"
        else:
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
    if first["type"] == "missing":
        raise ValueError(f"{place}: got nothing, expected it in a row of kind {row['kind']}")
    raise _wrong(place, first["input"], re.sub(r"^\w+ should (be |have )?", "", first["msg"]))


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
    _known("operator", row["operator"], operators.names())
    _known("experiment", row["experiment"], _experiments())
    if row["backend"] == own.BACKEND:
        raise ValueError(
            f"row.backend: got own ({row.get('kernel')}), expected kernels of this checkout; `twinkernels compare` "
            "takes the run's file as it is, and a kernel to record becomes a rung first"
        )
    _admit_names(row)
    if row.get("technique") and row["kind"] != "proof" and not reading.technique_of(row):
        raise ValueError(
            f"row.technique: got {row['technique']!r}, expected a name of the registry (`twinkernels list`); record a "
            "run with the checkout that measured it"
        )


def _admit_names(row: Row) -> None:
    what = results.what(row)
    language, _, version = row["backend"].partition("@")
    versioned = techniques.RIVALS if what == "proof" else () if what == "roof" else operators.peers()
    if not version or language not in versioned:
        own_names = {"proof": ("cuda", *techniques.AS_CUBINS), "roof": ("cuda", "cublas")}
        _known("backend", row["backend"], (*own_names.get(what, SERIES), *(() if what == "proof" else versioned)))
    if row.get("technique") and what != "proof":
        _known("backend", row["backend"], SERIES)
    if "arch" in row:
        _known("arch", row["arch"], architectures.CAPABILITY)
    if "roof" in row:
        _known("roof", row["roof"], _roofs())
    if "problem" in row:
        of = operators.get(row["operator"])
        keys = {key for technique in of.techniques for key in technique.tile}
        _known(f"problem.{of.problem.tile_field}", of.problem.from_dict(row["problem"]).tile_key, keys)


def _known(field: str, got: Any, names: Iterable[Any]) -> None:
    if got not in names:
        raise ValueError(f"row.{field}: got {got!r}, expected one of {', '.join(map(str, sorted(names)))}")


@cache
def _experiments() -> frozenset[str]:
    return frozenset((*(name.rpartition("/")[2] for name in experiments.names()), *TOOLS))


@cache
def _roofs() -> frozenset[str]:
    return frozenset(roof.name for name in experiments.names() for roof in experiments.load(name).roofs)


def _need(row: Row, *names: str) -> None:
    for name in names:
        if name not in row:
            raise ValueError(f"row.{name}: got nothing, expected it in a row of kind {row['kind']}")


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
            if not _is_plain(key):
                _plain(name, key, depth + 1)
            if not _is_plain(item):
                _plain(f"{name}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            if not _is_plain(item):
                _plain(f"{name}[{position}]", item, depth + 1)


def _is_plain(value: Any) -> bool:
    """True of most of a row's hundreds of values. `_plain` looks at the others, for which it needs a name."""
    of = type(value)
    if of is str:
        return value.isascii() and len(value) <= LONGEST
    if of is float:
        return math.isfinite(value)
    return value is None or (of is int and -LARGEST < value < LARGEST)


def _same_as(kind: type[Any], name: str, value: Any) -> Any:
    """What `kind` reads of the value, which must be what it writes, value for value: a number of another type that
    equals the right one is refused too."""
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object")
    text = json.dumps(value, sort_keys=True)
    if (kind, text) not in _SAME:
        try:
            one = kind.from_dict(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{name}: {error}") from None
        again = one.to_dict()
        if text != json.dumps(again, sort_keys=True):
            for field, item in again.items():
                if json.dumps(value.get(field), sort_keys=True) != json.dumps(item, sort_keys=True):
                    raise _wrong(f"{name}.{field}", value.get(field), f"{kind.__name__}.to_dict()'s {item!r}")
        _SAME[kind, text] = one
    return _SAME[kind, text]


_SAME: dict[tuple[type[Any], str], Any] = {}
"""(class, its JSON) -> the object of `_same_as`, because thousands of rows are about one problem."""


def _moment(name: str, value: Any) -> None:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
            datetime.fromisoformat(value)
            return
    except ValueError:
        pass
    raise _wrong(name, value, "UTC such as 2026-01-31T23:59:59Z")
