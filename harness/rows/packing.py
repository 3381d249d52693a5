"""Rows as they are kept: what several rows of a file say alike is written once. Standard library only.

A packed file is JSON lines too, one row a line. A line {"id", "fields"} is no row (files of earlier commits give it the
kind "shared"). A row names in `shared` the ids of such lines above it, which are of one length (files of earlier
commits have spaces between them), and says what they say: dictionaries are united, so that a row's `numerics` may come
from two of them, the yardstick of its problem and the errors that it measured itself. An id is made of what it stands
for; so a new row changes no other line, but for those of which it is the first to say the same.

Numerics are written by figure, so that no name stands five times: [the id of a line that has the names, `distributions`
and `figures`, then for each figure its value in each distribution]. Files of earlier commits have
{"of": distributions, figure: [its value in each]}; `of` is the id of a line that has their names, or the names.

A line has the variants of all groups of a problem, sorted, without the problem that they have in common,
`order_short`: [its slug, [each name, with * for the slug]]. `order_of` of a group are the places of its variants there:
[the line's id, bytes of each place, all of them as base64]; a new variant changes those of its problem. In files of
earlier commits each group has its own `order_short`.

Rows of ncu name the same counters: a line has the names, `metric_names`, and a row its id and their values,
`metrics_of`.

`code` is written by value: [the id of a line that has its names, `names`, then the values in their order]. The names of
a dictionary in it are a list that its own name opens, and its values stand where it does: ["registers", ["census",
"HMMA", "LDSM"]] are the names of three values. Files of earlier commits have the dictionary itself.

CUDA events count in ticks of 32 ns and give milliseconds as 32-bit floats. `samples_32ns` are `samples_ms` in ticks:
the smallest, and by how much each exceeds it, in so many bytes each, lowest first, as base64; the reader gives back the
same numbers. Files of earlier commits have a list of these differences instead. `samples_us_1024` are the same of the
traces by CUPTI, which torch.profiler gives in 1024ths of a microsecond.

Every SHA-256 is written as base64 for URLs, 43 characters; the reader gives back its 64 hexadecimal digits, which files
of earlier commits have themselves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, TypeGuard

Row = Mapping[str, Any]
Names = tuple[str, ...]

SHARED, FIELDS = "shared", "fields"
SAMPLES, SAMPLES_TICKS, SAMPLES_TRACED = "samples_ms", "samples_32ns", "samples_us_1024"
TICKS_PER_MS = {SAMPLES_TICKS: 31_250, SAMPLES_TRACED: 1_024_000}
NUMERICS, BY_FIGURE = "numerics", "numerics_by_figure"
ORDER, ORDER_SHORT, ORDER_OF = "order", "order_short", "order_of"
METRICS, METRIC_NAMES, METRICS_OF = "metrics", "metric_names", "metrics_of"
DISTRIBUTIONS, FIGURES = "distributions", "figures"
NAMES = "names"
BY_VALUE = ("code",)
"""Fields of a row that are dictionaries and are written without their names."""
DEEPEST = 3
"""Dictionaries in each other whose names stand in one line, as in code.main_loop.all: a value of few bytes must not
unfold to many."""
SASS = "sass_sha256"
HASHES = ("source_sha256", "renewed_from", "differs_from", SASS)
"""Fields of a row that are a SHA-256; its `code` has a SASS too."""
DIGITS = 4
"""Significant digits of errors and host latencies."""
OF_A_RUN = ("schema", "kind", "on", "experiment", "assembler", "arch", "mma", "mode", "status", "gate", "environment")
DETAILS_OF_A_RUN = (
    "label",
    "outputs",
    "launch_hidden",
    "screened",
    "same_program",
    "final",
    "replicate",
    "tool_version",
    "padded",
)
OF_A_GROUP = ("group", "order", "clocks")
TOGETHER = (
    OF_A_RUN,
    ("technique", "backend", "source_sha256", "renewed_from", "differs_from"),
    ("problem",),
    ("tile",),
    ("compiler",),
    ("sass_sha256",),
    ("code",),
    ("reason",),
    ("time",),
    OF_A_GROUP,
)
"""Fields that rows say alike, together or each for itself."""
DETAILS = {OF_A_RUN: DETAILS_OF_A_RUN, OF_A_GROUP: ("again",)}
"""Which of a row's details go with these fields."""
YARDSTICK = ("yardstick", "yardstick_rel_l2", "floor", "pytorch_max_abs", "pytorch_rel_l2", "lse_tolerance")
"""Numerics of a distribution that depend on the problem and not on the kernel."""
NOT_OF_TUNE = ("order", "clock_ghz", "call_us")
"""Fields that rows of kind tune are kept without."""
LADDERS = ("ladder", "hopper")
"""Experiments that have each kernel once."""
NOT_OF_A_PROOF = ("grade", "fault", "shows", "detector", "seen", "command")
"""Details that rows of proofs are kept without: claims say them, and a claim may be graded or worded anew."""
ONLY_GATED = ("any_length", "correctness", "random_problems")
"""Experiments that time nothing: their rows are kept without milliseconds of a launch, and without what is COUNTED in
machine code."""
OF_RANDOM = ("max_abs", "yardstick", "floor", "max_error_used", "rel_l2_used")
"""Numerics that are kept of a kernel that passed a random problem: no other row has that problem, so they are shared
with none."""
COUNTED = ("census", "main_loop")
"""What is counted in machine code."""
SLUG = re.compile(r"b\d+-h\d+\S*-d\d+-\S+")
"""How a problem is named."""
WORTH = 72
"""Characters that a shared line must save: as many as it has beside its fields, and its references."""
ID_LENGTH = 4
LONGEST = 50_000
"""Samples, variants of a group and characters of a name that a packed row unfolds to: ten times what any recorded one
has. A few bytes must not fill the memory."""
WIDEST = 8
"""Bytes of a packed sample or place."""
HEXADECIMAL = re.compile(r"[0-9a-f]{64}")
HASH_LENGTH = 43
"""Characters of a SHA-256 as base64."""


def lean(row: Row) -> dict[str, Any]:
    """The row without what nobody reads:

    - digits beyond DIGITS of errors and host latencies
    - how long it took to compile: it says more of the machine's other work than of the kernel
    - instructions that the machine code does not have
    - the log of a declined case: its reason says it all
    - clocks, host latency, order and the gate's launch time of a tile that `tune` tried (NOT_OF_TUNE)
    - host latency where other experiments than the LADDERS time a kernel again: no page shows it
    - what a proof looked for (NOT_OF_A_PROOF): its claim says it
    - launch times and what is COUNTED in machine code, of experiments that are ONLY_GATED: `inspect` and the ladders
      count in the same kernels
    - numerics of a random problem that was passed, but for those OF_RANDOM
    """
    only_gated = row.get("experiment") in ONLY_GATED
    left_out = {
        "compile_s",
        *(NOT_OF_TUNE if row["kind"] == "tune" else ()),
        *(("call_us",) if row.get("experiment") not in LADDERS else ()),
    }
    found = {name: value for name, value in row.items() if name not in left_out}
    if "call_us" in found:
        found["call_us"] = {name: _rounded(value) for name, value in row["call_us"].items()}
    if details := row.get("details"):
        unread = {
            *(("launch_ms",) if only_gated or row["kind"] == "tune" else ()),
            *(("log",) if row.get("status") == "unsupported" else ()),
            *(NOT_OF_A_PROOF if row.get("experiment") == "expressibility" else ()),
        }
        found["details"] = {
            name: _rounded(value) if name == "launch_ms" else value
            for name, value in details.items()
            if name not in unread
        }
    if numerics := row.get(NUMERICS):
        of_random = row.get("experiment") == "random_problems" and row["status"] == "passed"
        found[NUMERICS] = {
            name: {key: _rounded(value) for key, value in of.items() if not of_random or key in OF_RANDOM}
            for name, of in numerics.items()
        }
    if code := row.get("code"):
        found["code"] = {name: value for name, value in code.items() if not (only_gated and name in COUNTED)}
        if census := found["code"].get("census"):
            found["code"]["census"] = {name: count for name, count in census.items() if count}
    return found


def pack(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The lines of a file: the variants of each problem, what else is shared, both by id, then the rows in their
    order."""
    parts = [{_canonical(part): part for part in _parts(row)} for row in rows]
    occurrences = Counter(text for found in parts for text in found)
    repeated = [text for text, count in occurrences.items() if count > 1 and len(text) * (count - 1) >= WORTH]
    variants = _variants(rows)
    of_problem = {slug: _canonical({ORDER: names}) for slug, names in variants.items()}
    shared = {*of_problem.values(), *repeated}
    own = [
        reduce(_without, (part for text, part in found.items() if text in shared), _with_short_samples(row))
        for row, found in zip(rows, parts, strict=True)
    ]
    of_metrics = {names: _canonical({METRIC_NAMES: names}) for names in sorted({*map(_metrics, rows)} - {()})}
    said = [*map(json.loads, repeated), *own]
    by_figure = sorted({*map(_numerics, said)} - {()})
    of_numerics = {names: _canonical(dict(zip((DISTRIBUTIONS, FIGURES), names, strict=True))) for names in by_figure}
    of_values = sorted({text for fields in said for text in _names_by_field(fields).values()})
    # an order may be all that rows share
    named = (of_metrics.values(), of_numerics.values(), of_values)
    texts = list(dict.fromkeys([*of_problem.values(), *chain(*named), *repeated]))
    ids = dict(zip(texts, _ids(texts), strict=True))
    metrics = {names: ids[text] for names, text in of_metrics.items()}
    numerics = {names: ids[text] for names, text in of_numerics.items()}
    lists = {slug: (ids[of_problem[slug]], names) for slug, names in variants.items()}

    def packed(fields: Mapping[str, Any]) -> dict[str, Any]:
        found = _with_places(_by_figure(fields, numerics), lists)
        return _by_value(_with_short_hashes(_with_values(found, metrics)), ids)

    for slug, (line, listed) in sorted(lists.items(), key=lambda item: item[1]):
        yield {"id": line, FIELDS: {ORDER_SHORT: [slug, [_with_word(name, slug, "*") for name in listed]]}}
    for of_kind in named:
        for text in sorted(of_kind, key=ids.__getitem__):
            yield {"id": ids[text], FIELDS: json.loads(text)}
    for text in sorted(set(repeated) - set(of_problem.values()), key=ids.__getitem__):
        yield {"id": ids[text], FIELDS: packed(json.loads(text))}
    for fields, found in zip(own, parts, strict=True):
        used = "".join(ids[text] for text in found if text in shared)
        yield packed(fields) | ({SHARED: used} if used else {})


def unpack(line: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The row of a line; `shared` are the `whole` fields of each id. What rows share is one object: replace it, never
    change it in place. Raises ValueError naming the field for an id that is not known, for what `pack` does not write,
    and where a field is said twice and not alike."""
    names = line.get(SHARED, "")
    if not isinstance(names, str):
        raise ValueError(f"{SHARED}: got {type(names).__name__}, expected ids of lines with {FIELDS}")
    length = len(next(iter(shared), "")) or ID_LENGTH
    row: dict[str, Any] = {}
    for name in names.split() if " " in names else [names[at : at + length] for at in range(0, len(names), length)]:
        if name not in shared:
            raise ValueError(f"{SHARED}: got {name!r}, expected one of the {len(shared)} lines with {FIELDS} above it")
        row = _united(row, shared[name])
    return _united(row, whole({name: value for name, value in line.items() if name != SHARED}, shared))


def whole(fields: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields as a row has them; `shared` are those of each id above. Raises ValueError naming the field for what
    `pack` does not write."""
    named = _by_distribution(_by_name(fields, shared), shared)
    return _with_hashes(_with_samples(_with_metrics(_with_order(named, shared), shared)))


def _parts(row: Row) -> Iterator[dict[str, Any]]:
    """What other rows may say too."""
    details = row.get("details") or {}
    for names in TOGETHER:
        part = {name: row[name] for name in names if name in row}
        if more := {name: details[name] for name in DETAILS.get(names, ()) if name in details}:
            part["details"] = more
        if part:
            yield part
    if numerics := row.get(NUMERICS):
        for of_problem in (True, False):
            yield {
                NUMERICS: {
                    name: {key: value for key, value in of.items() if (key in YARDSTICK) is of_problem}
                    for name, of in numerics.items()
                }
            }
    if row["kind"] == "environment":
        yield from ({"details": {name: value}} for name, value in details.items())


def _numerics(fields: Mapping[str, Any]) -> tuple[Names, ...]:
    """The names of a row's distributions and those of their figures; none where they have not all the same figures."""
    numerics = fields.get(NUMERICS) or {}
    figures = {tuple(sorted(of)) for of in numerics.values()}
    return (tuple(numerics), *figures) if len(figures) == 1 and figures != {()} else ()


def _by_figure(fields: Mapping[str, Any], lines: Mapping[tuple[Names, ...], str]) -> dict[str, Any]:
    """Where every distribution has the same figures; others are left as they are. `lines` are the ids of the names."""
    names = _numerics(fields)
    if not names:
        return dict(fields)
    columns = ([of[figure] for of in fields[NUMERICS].values()] for figure in names[1])
    return {name: value for name, value in fields.items() if name != NUMERICS} | {BY_FIGURE: [lines[names], *columns]}


def _by_distribution(fields: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if BY_FIGURE not in fields:
        return fields
    line, columns = _columns(fields[BY_FIGURE], shared)
    if not columns:
        raise ValueError(f"{BY_FIGURE}: got no figure, expected at least one")
    of = shared.get(line, {}).get(DISTRIBUTIONS) if isinstance(line, str) else line
    if not _are_names(of):
        raise ValueError(
            f"{BY_FIGURE}.of: got {_shown(line)}, expected the id of a line with {DISTRIBUTIONS}, each once"
        )
    for figure, column in columns.items():
        if not isinstance(column, list) or len(column) != len(of):
            raise ValueError(f"{BY_FIGURE}.{figure}: got {_shown(column)}, expected {len(of)} values, of {_shown(of)}")
    numerics = {name: {figure: column[place] for figure, column in columns.items()} for place, name in enumerate(of)}
    return _instead(fields, BY_FIGURE, NUMERICS, numerics)


def _columns(value: Any, shared: Mapping[str, Mapping[str, Any]]) -> tuple[Any, dict[str, Any]]:
    """What names the distributions, and figure -> its value in each."""
    if isinstance(value, dict):
        return value.get("of"), {figure: column for figure, column in value.items() if figure != "of"}
    line = value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None
    figures = shared.get(line, {}).get(FIGURES) if line else None
    if not _are_names(figures):
        raise ValueError(f"{BY_FIGURE}: got {_shown(value)}, expected [id of a line with {FIGURES}, values of each]")
    if len(value) != len(figures) + 1:
        raise ValueError(f"{BY_FIGURE}: got values of {len(value) - 1} figures, expected those of {_shown(figures)}")
    return line, dict(zip(figures, value[1:], strict=True))


def _are_names(value: Any) -> TypeGuard[list[str]]:
    """Whether it is a list of names, each once."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _names_by_field(fields: Mapping[str, Any]) -> dict[str, str]:
    """Field -> the line of its names, of those that are written BY_VALUE."""
    names = {field: _nested(fields[field]) for field in BY_VALUE if isinstance(fields.get(field), dict)}
    return {field: _canonical({NAMES: nested}) for field, nested in names.items() if _are_nested(nested)}


def _by_value(fields: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    lines = _names_by_field(fields)
    return {name: [ids[lines[name]], *_values(value)] if name in lines else value for name, value in fields.items()}


def _by_name(fields: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    packed = [field for field in BY_VALUE if field in fields and not isinstance(fields[field], dict)]
    return {**fields, **{field: _filled(field, fields[field], shared) for field in packed}} if packed else fields


def _filled(field: str, value: Any, shared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The dictionary of these values."""
    line = value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None
    names = shared.get(line, {}).get(NAMES) if line else None
    if not _are_nested(names):
        raise ValueError(f"{field}: got {_shown(value)}, expected an object or [id of a line with {NAMES}, values]")
    if len(value) != (count := _count(names)) + 1:
        raise ValueError(f"{field}: got {len(value) - 1} values, expected {count}")
    if wrong := [each for each in value if each and isinstance(each, dict)]:
        raise ValueError(f"{field}: got {_shown(wrong[0])}, expected its values alone: a line has their {NAMES}")
    return _dictionary(names, iter(value[1:]))


def _nested(value: Mapping[str, Any]) -> list[Any]:
    """The names of a dictionary; those of one in it are a list that its own name opens."""
    return [[name, *_nested(each)] if each and isinstance(each, dict) else name for name, each in value.items()]


def _values(value: Mapping[str, Any]) -> Iterator[Any]:
    """In the order of _nested."""
    for each in value.values():
        if each and isinstance(each, dict):
            yield from _values(each)
        else:
            yield each


def _dictionary(names: list[Any], values: Iterator[Any]) -> dict[str, Any]:
    """Of which these are _nested and _values."""
    found = {}
    for each in names:
        if isinstance(each, str):
            found[each] = next(values)
        else:
            found[each[0]] = _dictionary(each[1:], values)
    return found


def _count(names: list[Any]) -> int:
    return sum(1 if isinstance(each, str) else _count(each[1:]) for each in names)


def _are_nested(names: Any, depth: int = DEEPEST) -> TypeGuard[list[Any]]:
    """Whether _nested gives such names: every dictionary has some, each once, and none lies deeper than DEEPEST."""
    if not names or not isinstance(names, list) or not depth:
        return False
    own = [each[0] if each and isinstance(each, list) else each for each in names]
    return _are_names(own) and all(_are_nested(each[1:], depth - 1) for each in names if isinstance(each, list))


def _variants(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Problem -> what its groups interleaved, sorted; of groups that name one problem alone."""
    found: dict[str, set[str]] = {}
    for order in {tuple(row.get(ORDER) or ()) for row in rows}:
        if slug := _problem(order):
            found.setdefault(slug, set()).update(order)
    return {slug: sorted(names) for slug, names in found.items()}


def _problem(order: Sequence[str]) -> str | None:
    """The slug that stands once in the name of every variant."""
    names = [name.split(" ") for name in order]
    common = (word for word in (names[0] if names else ()) if all(name.count(word) == 1 for name in names))
    return next((word for word in common if SLUG.fullmatch(word)), None)


def _with_places(fields: Mapping[str, Any], lists: Mapping[str, tuple[str, list[str]]]) -> dict[str, Any]:
    """The order by places in the list of its problem: problem -> (id of its line, names)."""
    order = fields.get(ORDER) or ()
    slug = _problem(order)
    if slug is None:
        return dict(fields)
    line, names = lists[slug]
    places = _bytes([names.index(name) for name in order])
    return {name: value for name, value in fields.items() if name != ORDER} | {ORDER_OF: [line, *places]}


def _with_order(fields: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if ORDER_SHORT in fields:
        fields = _instead(fields, ORDER_SHORT, ORDER, _named(fields[ORDER_SHORT]))
    if ORDER_OF in fields:
        fields = _instead(fields, ORDER_OF, ORDER, _at_places(fields[ORDER_OF], shared))
    return fields


def _metrics(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a row's counters."""
    return tuple((row.get("details") or {}).get(METRICS) or ())


def _with_values(fields: Mapping[str, Any], lines: Mapping[tuple[str, ...], str]) -> dict[str, Any]:
    """The counters by their values alone; `lines` are the ids of their names."""
    names = _metrics(fields)
    if not names:
        return dict(fields)
    details = {name: value for name, value in fields["details"].items() if name != METRICS}
    values = fields["details"][METRICS].values()
    return {**fields, "details": details} | {METRICS_OF: [lines[names], *values]}


def _with_metrics(fields: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if METRICS_OF not in fields:
        return fields
    value = fields[METRICS_OF]
    line = value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None
    names = shared.get(line, {}).get(METRIC_NAMES) if line else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{METRICS_OF}: got {_shown(value)}, expected [id of a line with {METRIC_NAMES}, values]")
    if len(value) != len(names) + 1:
        raise ValueError(f"{METRICS_OF}: got {len(value) - 1} values, expected {len(names)}")
    details = fields.get("details", {})
    if not isinstance(details, dict):
        raise ValueError(f"details: got {_shown(details)}, expected an object")
    whole = _instead(details, METRICS_OF, METRICS, dict(zip(names, value[1:], strict=True)))
    return {name: content for name, content in fields.items() if name != METRICS_OF} | {"details": whole}


def _named(value: Any) -> list[str]:
    """The names of a short order."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{ORDER_SHORT}: got {_shown(value)}, expected [the problem, names]")
    slug, short = value
    if not isinstance(slug, str) or len(slug) > 100 or not SLUG.fullmatch(slug):
        raise ValueError(f"{ORDER_SHORT}[0]: got {_shown(slug)}, expected the name of a problem")
    if not isinstance(short, list) or len(short) > LONGEST or not all(_names_it_once(name) for name in short):
        raise ValueError(f"{ORDER_SHORT}[1]: got {_shown(short)}, expected names, each with one * for the problem")
    return [_with_word(name, "*", slug) for name in short]


def _at_places(value: Any, shared: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The names at these places of a line above."""
    if not isinstance(value, list) or [type(each) for each in value] != [str, int, str]:
        raise ValueError(f"{ORDER_OF}: got {_shown(value)}, expected [id of a line, bytes of each place, base64]")
    line, width, text = value
    names = shared.get(line, {}).get(ORDER)
    if not isinstance(names, list):
        raise ValueError(f"{ORDER_OF}[0]: got {_shown(line)}, expected the id of a line above that has an {ORDER}")
    places = _integers(ORDER_OF, width, text)
    if max(places) >= len(names):
        raise ValueError(f"{ORDER_OF}[2]: got place {max(places)}, expected places below {len(names)}")
    return [names[place] for place in places]


def _with_word(name: str, old: str, new: str) -> str:
    return " ".join(new if word == old else word for word in name.split(" "))


def _names_it_once(name: Any) -> bool:
    return isinstance(name, str) and name.split(" ").count("*") == 1


def _with_samples(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    for packed in TICKS_PER_MS:
        if packed in fields:
            fields = _instead(fields, packed, SAMPLES, _unfolded(packed, fields[packed]))
    return fields


def _unfolded(packed: str, value: Any) -> list[float]:
    kinds = [type(each) for each in value] if isinstance(value, list) else []
    if kinds == [int, int, str]:
        smallest, differences = value[0], _integers(packed, value[1], value[2])
    elif len(kinds) > 1 and set(kinds) == {int}:
        smallest, *differences = value
    else:
        raise ValueError(f"{packed}: got {_shown(value)}, expected [smallest, bytes of each, base64]")
    ticks = [smallest + more for more in differences]
    if not (min(ticks) >= 0 and max(ticks) < 2**53):
        raise ValueError(f"{packed}: got {_shown(value)}, expected ticks of at least 0 and below 2**53")
    return [_milliseconds(packed, count) for count in ticks]


def _with_short_hashes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return _each_hash(fields, _shortened)


def _with_hashes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return _each_hash(fields, _lengthened)


def _each_hash(fields: Mapping[str, Any], form: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The fields with what `form` makes of the name and value of each SHA-256."""
    found = {name: form(name, value) if name in HASHES else value for name, value in fields.items()}
    code = fields.get("code")
    if isinstance(code, dict) and SASS in code:
        found["code"] = code | {SASS: form(f"code.{SASS}", code[SASS])}
    return found


def _shortened(_: str, value: Any) -> Any:
    """A SHA-256 as base64; what is none is left as it is."""
    return _base64(bytes.fromhex(value)) if isinstance(value, str) and HEXADECIMAL.fullmatch(value) else value


def _lengthened(name: str, value: Any) -> Any:
    """Its hexadecimal digits; what has another length than _shortened gives is left as it is."""
    if not isinstance(value, str) or len(value) != HASH_LENGTH:
        return value
    try:
        digest = base64.urlsafe_b64decode(f"{value}=")
    except ValueError:
        digest = b""
    if _base64(digest) != value:
        raise ValueError(f"{name}: got {_shown(value)}, expected a SHA-256 as base64 for URLs")
    return digest.hex()


def _base64(digest: bytes) -> str:
    """For URLs, without = at the end."""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _instead(fields: Mapping[str, Any], packed: str, name: str, value: Any) -> dict[str, Any]:
    """The fields with `name` in the place of what packs it."""
    if name in fields:
        raise ValueError(f"{packed}: got it beside {name}, expected one of them")
    return {field: content for field, content in fields.items() if field != packed} | {name: value}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _ids(texts: Sequence[str]) -> list[str]:
    """The first digits of their SHA-256, of 64 each: as many as tell them apart."""
    hashes = [_base64(hashlib.sha256(text.encode()).digest()) for text in texts]
    length = ID_LENGTH
    while len({name[:length] for name in hashes}) < len(hashes):
        length += 1
    return [name[:length] for name in hashes]


def _united(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in more.items():
        known = found.get(name, value)
        if isinstance(known, dict) and isinstance(value, dict) and known is not value:
            found[name] = _united(known, value)
        elif known is not value and known != value:
            raise ValueError(f"{name}: got {_shown(known)} and {_shown(value)}, expected one of them")
        else:
            found[name] = value
    return found


def _without(row: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The row less the part; a dictionary of which nothing is left goes too."""
    left = dict(row)
    for name, value in part.items():
        whole = left.pop(name, value)
        if whole != value and (rest := _without(whole, value)):
            left[name] = rest
    return left


def _with_short_samples(row: Row) -> dict[str, Any]:
    samples = row.get(SAMPLES)
    if not samples:
        return dict(row)
    for packed, per_ms in TICKS_PER_MS.items():
        ticks = [round(sample * per_ms) for sample in samples]
        if [_milliseconds(packed, count) for count in ticks] == samples:
            own = {name: value for name, value in row.items() if name != SAMPLES}
            return own | {packed: [min(ticks), *_bytes([count - min(ticks) for count in ticks])]}
    return dict(row)


def _bytes(integers: Sequence[int]) -> tuple[int, str]:
    """How many bytes each takes, and all of them as base64."""
    width = max(1, (max(integers).bit_length() + 7) // 8)
    return width, base64.b64encode(b"".join(one.to_bytes(width, "little") for one in integers)).decode().rstrip("=")


def _integers(packed: str, width: int, text: str) -> list[int]:
    """What _bytes made these of. Raises ValueError on anything else."""
    if not 1 <= width <= WIDEST or len(text) > LONGEST * width * 4 // 3:
        raise ValueError(
            f"{packed}: got {len(text)} characters for {width} bytes each, expected at most {LONGEST} numbers of 1 to "
            f"{WIDEST} bytes"
        )
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"{packed}: got {_shown(text)}, expected base64 ({error})") from None
    if not data or len(data) % width:
        raise ValueError(f"{packed}: got {len(data)} bytes, expected a multiple of {width}")
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def _milliseconds(packed: str, ticks: int) -> float:
    """CUDA gives milliseconds as 32-bit floats, a trace as 64-bit ones."""
    exact = ticks / TICKS_PER_MS[packed]
    return float(struct.unpack("f", struct.pack("f", exact))[0]) if packed == SAMPLES_TICKS else exact


def _canonical(part: Mapping[str, Any]) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
