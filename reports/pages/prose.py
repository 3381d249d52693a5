"""Numbers and claims in hand-written text: Markdown notes and page templates name them, rows fill them in.

    {{ tflops("xor_swizzle", "cuda", "b4-h16-n4096-d128-bf16-full") }}  prints "248 TFLOPS"
    {{ claim("the swizzle pays", 1, gain("xor_swizzle", "cuda", "b4-h16-n4096-d128-bf16-full")) }}

A number that was not measured says so in the text, a name that does not exist raises. A claim lists numbers that must
ascend. Where they do not, the text says so, and tests/unit/reports/test_claims.py fails with the claim's name.
"""

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from harness.catalog import techniques
from harness.catalog.entries import Technique, Tile
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row
from reports.data.names import short_gpu
from reports.facts import counters
from reports.pages.common import of_operator

ROOT = Path(__file__).resolve().parent.parent / "notes"
ARCH = "sm_90a"
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
BLOCK = re.compile(r"^```toml .*?^```\n", re.MULTILINE | re.DOTALL)
"""In a note, what a page draws instead of showing its text."""
NOT_MEASURED = "not measured"
EARLIER = "not measured in this version"
BROKEN = " (the rows used here say otherwise)"
UNKNOWN = " (not known: no rows of this version)"


Section = tuple[str, dict[str, Any], str]
"""The title, the block and the text of a part of a note."""


class Number(float):
    """A number that prints as its text. One that was not measured in this version is nan."""

    text: str

    def __new__(cls, value: float | None, text: str) -> Self:
        number = super().__new__(cls, math.nan if value is None else value)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


class Claims:
    """Directional claims of pages. `broken`: the names of false ones; `unknown`: of those about unmeasured numbers."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.unknown: list[str] = []

    def __call__(self, name: str, *ascending: Any) -> str:
        """Nothing where the numbers (floats, ratios, None) ascend, UNKNOWN where one is not measured, else BROKEN."""
        values = [getattr(number, "value", number) for number in ascending]
        known = [math.nan if value is None else float(value) for value in values]
        if any(map(math.isnan, known)):
            self.unknown.append(name)
            return UNKNOWN
        if all(low < high for low, high in pairwise(known)):
            return ""
        self.broken.append(f"{name}: {' < '.join(f'{value:.3g}' for value in known)}")
        return BROKEN


def render(
    name: str, data: Dataset, claims: Callable[..., str], root: Path = ROOT, datasets: Sequence[Dataset] = ()
) -> Markup | None:
    """The note of a technique as HTML, None without a note. A number that `data` lacks is shown as an earlier version
    of the kernel or another GPU of `datasets` has it, with a mark that is explained at the end. A bad reference raises
    ValueError that names the note."""
    path = root / data.operator.name / f"{name}.md"
    if not path.is_file():
        return None
    try:
        elsewhere = Elsewhere(data, datasets)
        text = elsewhere.explained(filled(BLOCK.sub("", path.read_text()), elsewhere.references, claim=claims))
    except Exception as error:
        raise ValueError(f"{path.name}: {error}; correct the reference in reports/notes/{path.name}") from error
    return Markup(MARKDOWN.render(text))


def filled(text: str, names: Mapping[str, Any], **others: Any) -> str:
    """The text with the values of its references, functions and variables of these names. Raises for any other name."""
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text).render(names, **others)


class Elsewhere:
    """The functions of a text. A number of an earlier version or another GPU gets a mark, and no claim may use it."""

    MARKS = "†‡§¶"

    def __init__(self, data: Dataset, datasets: Sequence[Dataset]) -> None:
        self._data, self._datasets = data, datasets
        self._marks: dict[str, str] = {}
        self.references = {name: self._also(name, function) for name, function in references(data).items()}

    def _places(self) -> Iterator[tuple[str, Dataset]]:
        """Where a number is looked for, one after the other."""
        if self._datasets:
            yield "Of an earlier version of the kernel.", self._data.of_any_version
        for other in self._datasets:
            if other.gpu != self._data.gpu:
                gpu = f"On an {short_gpu(other.gpu)}"
                yield f"{gpu}.", other
                yield f"{gpu}, of an earlier version of the kernel.", other.of_any_version

    def _also(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def found(*given: Any, **options: Any) -> Any:
            number = function(*given, **options)
            if not isinstance(number, Number) or not math.isnan(number):
                return number
            for told, place in self._places():
                there = references(place)[name](*given, **options)
                if isinstance(there, Number) and not math.isnan(there):
                    count = len(self._marks)
                    mark = self.MARKS[count % len(self.MARKS)] * (1 + count // len(self.MARKS))
                    return Number(None, f"{there}{self._marks.setdefault(told, mark)}")
            return number

        return found

    def explained(self, text: str) -> str:
        """The text, and after it a paragraph of what its marks mean."""
        used = [f"{mark} {told}" for told, mark in self._marks.items() if mark in text]
        return f"{text}\n\n{' '.join(used)}" if used else text


def sections(note: Path, kind: str) -> list[Section]:
    """Each section that begins with a block "```toml KIND", in the order of the note."""
    pattern = rf"^## ([^\n]+)\n\n```toml {kind}\n(.*?)^```\n(.*?)(?=^## |\Z)"
    found = re.finditer(pattern, note.read_text(), re.MULTILINE | re.DOTALL)
    return [(one[1], tomllib.loads(one[2]), one[3]) for one in found]


def references(data: Dataset) -> dict[str, Callable[..., Number]]:
    """The functions that a text may call. `backend` is a series of the ladders or a peer (technique None), `problem` a
    slug, `tile` a slug; without one it is the reference tile. `experiment` is that of the technique's ladder."""

    def rung(name: str) -> Technique:
        return techniques.get(f"{data.operator.name}/{name}")

    parse = data.operator.problem.parse

    def point(name: str | None, backend: str, problem: str, tile: str = "", experiment: str = "") -> Point:
        """`tile` may be "best": the one that `tune` chose."""
        where = experiment or (data.experiment_of(rung(name)) if name else data.operator.ladders[0].experiment)
        at = Tile.parse(tile) if tile not in ("", "best") else None
        return data.point(where, parse(problem), name, backend, best=tile == "best", tile=at)

    def tflops(technique: str | None, backend: str, problem: str, tile: str = "", experiment: str = "") -> Number:
        found = point(technique, backend, problem, tile, experiment)
        return Number(found.tflops, f"{found.tflops:.0f} TFLOPS") if found.counts else _missing(found)

    def best(technique: str, backend: str, problem: str, experiment: str = "") -> Number:
        """Median TFLOPS at the tile that `tune` chose, and that tile."""
        found = point(technique, backend, problem, "best", experiment)
        if not found.counts or not found.row:
            return _missing(found)
        return Number(found.tflops, f"{found.tflops:.0f} TFLOPS at {found.row.tile}")

    def gain(technique: str, backend: str, problem: str) -> Number:
        """Over the parent, in the same language, each at its reference tile."""
        return gain_at(technique, backend, problem, "", "")

    def gain_at(technique: str, backend: str, problem: str, tile: str, experiment: str, over: str = "") -> Number:
        """Over the parent, or another rung, at the same tile."""
        which = rung(technique)
        before = rung(over) if over else techniques.parent(which, backend)
        if before is None:
            return Number(None, NOT_MEASURED)
        where = experiment or data.experiment_of(which)
        return ratio(*(point(one.name, backend, problem, tile, where) for one in (which, before)))

    def versus(technique: str, ours: str, theirs: str, problem: str) -> Number:
        """One language over the other, on the same rung."""
        return ratio(*(point(technique, backend, problem) for backend in (ours, theirs)))

    def over(technique: str, backend: str, peer: str, problem: str, best: bool = False, experiment: str = "") -> Number:
        """A rung over a library peer, at the reference tile or at the one that `tune` chose."""
        where = experiment or data.experiment_of(rung(technique))
        ours = point(technique, backend, problem, "best" if best else "", where)
        return ratio(ours, point(None, peer, problem, "", where))

    def ratio(ours: Point, theirs: Point) -> Number:
        found = data.ratio(ours, theirs)
        if found is None:
            return _missing(ours, theirs)
        return Number(found.value, f"{'~' if found.linked else ''}{found.value:.2f}×")

    def code(technique: str, backend: str, problem: str, what: str, arch: str = ARCH) -> Number:
        """Of the machine code at the reference tile: registers, spill_bytes, smem_bytes or an instruction's count."""
        for row in data.codes(rung(technique).name, backend, arch, parse(problem).tile_key):
            if row.problem == parse(problem).slug:
                count = row["code"].get(what, (row["code"].get("census") or {}).get(what, 0))
                return Number(count, str(count))
        return Number(None, NOT_MEASURED)

    def tried(technique: str, backend: str, problem: str, tile: str) -> Number:
        """Median TFLOPS at a tile, in the run of `tune` that tried it: on this checkout's kernel, else it says so."""
        timed = [row for row in cells_of("tune", technique, backend, problem, tile) if row.samples_ms]
        current = [row for row in timed if row.current]
        if not timed:
            return Number(None, NOT_MEASURED)
        speed = reading.tflops((current or timed)[-1])
        return Number(speed, f"{speed:.0f} TFLOPS" + ("" if current else " (earlier version)"))

    def gate(technique: str, backend: str, problem: str, tile: str, *, earlier: bool = False) -> Number:
        """What gates said of this checkout's kernel or of earlier versions; its value: how many different things."""
        asked = [row for row in cells_of("gate", technique, backend, problem, tile) if row.current is not earlier]
        said = {f"{row['status']} ({row['check']})" if row.check else row.status for row in asked}
        return Number(len(said) or None, " and ".join(sorted(said)) or NOT_MEASURED)

    def cells_of(kind: str, technique: str, backend: str, problem: str, tile: str) -> list[Row]:
        """Rows of one kernel on one problem at one tile, the newest last."""
        where = parse(problem).slug, Tile.parse(tile).slug
        found = [row for row in data.of(kind, rung(technique).name, backend) if (row.problem, row.tile) == where]
        return sorted(found, key=lambda row: row.time)

    def ncu(technique: str, problem: str, what: str, backend: str = "cuda", tile: str = "") -> Number:
        """Under ncu, at the reference tile or another: hit_rate of L2 in percent, what went through it in GB (l2), read
        from DRAM in MB, bank conflicts and executed instructions in millions."""
        metric, unit, form = {
            "hit_rate": (counters.HIT_RATE, 1, "{:.0f}%"),
            "l2": (counters.L2_SECTORS, 1e9 / counters.SECTOR_BYTES, "{:.1f} GB"),
            "read": (counters.DRAM_READ, 1e6, "{:,.0f} MB"),
            "conflicts": (counters.CONFLICTS, 1e6, "{:,.0f} million"),
            "instructions": (counters.EXECUTED, 1e6, "{:,.0f} million"),
        }[what]
        for row, _ in counters.profiled([data], rung(technique).name, backend):
            is_it = row.tile == tile if tile else row.reference_tile
            if row.problem == problem and is_it:
                value = (row.details["metrics"].get(metric) or 0) / unit
                return Number(value, form.format(value))
        return Number(None, NOT_MEASURED)

    functions: list[Callable[..., Number]] = [tflops, best, tried, gain, gain_at, versus, over, code, gate, ncu]
    further: Any = getattr(of_operator(data.operator.name), "references", lambda _: {})
    return {one.__name__: one for one in functions} | further(data)


def _missing(*points: Point) -> Number:
    return Number(None, EARLIER if any(point.kind == "earlier" for point in points) else NOT_MEASURED)
