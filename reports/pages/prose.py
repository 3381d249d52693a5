"""Notes on techniques: Markdown whose numbers are references to rows, resolved when the report is made.

A reference names a rung and a problem, such as {{ tflops("xor_swizzle", "cuda", "b4-h16-n4096-d128-bf16-full") }}.
What was not measured says so in the text; a name that does not exist raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from harness.catalog import techniques
from harness.catalog.problem import Problem, Tile
from harness.rows import reading
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Point, Ratio, Row
from reports.facts import answer, counters, roofs, scores, timelines
from reports.facts.resources import ARCH

ROOT = Path(__file__).resolve().parent.parent / "notes" / "attention"
NOT_MEASURED = "*not measured*"
EARLIER = "*not measured in this version*"


def render(name: str, data: Dataset, root: Path = ROOT) -> Markup | None:
    """The note of a technique as HTML, None where there is none. Raises ValueError that names it on a bad reference."""
    path = root / f"{name}.md"
    if not path.is_file():
        return None
    environment = Environment(undefined=StrictUndefined, autoescape=False)
    try:
        text = environment.from_string(timelines.without(path.read_text())).render(references(data))
    except Exception as error:
        raise ValueError(f"{path.name}: {error}; correct the reference in reports/notes/{path.name}") from error
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def _experiment(technique: str | None) -> str:
    """Where a technique is timed; library peers that are asked for alone are those of answer.LADDER."""
    return techniques.experiment_of(techniques.get(technique)) if technique else answer.LADDER


def references(data: Dataset) -> dict[str, Callable[..., str]]:
    """The functions that a note may call. `backend` is cuda, triton, triton_native, gluon or a peer
    (technique None)."""

    def tflops(technique: str | None, backend: str, problem: str, tile: str = "", experiment: str = "") -> str:
        """Median TFLOPS at the reference tile, or at another in an experiment that has it."""
        where, at = experiment or _experiment(technique), Tile.parse(tile) if tile else None
        point = data.point(where, Problem.parse(problem), technique, backend, tile=at)
        return f"{point.tflops:.0f} TFLOPS" if point.counts else _missing(point)

    def gain(technique: str, backend: str, problem: str) -> str:
        """Over the parent, in the same language."""
        cell, rung = Problem.parse(problem), techniques.get(technique)
        parent = techniques.parent(rung, backend)
        points = [data.point(_experiment(technique), cell, name.name, backend) for name in (rung, parent) if name]
        return _ratio(data.gain(_experiment(technique), cell, rung, backend), points)

    def versus(technique: str, ours: str, theirs: str, problem: str) -> str:
        """One language over the other, on the same rung."""
        cell, rung = Problem.parse(problem), techniques.get(technique)
        points = [data.point(_experiment(technique), cell, technique, backend) for backend in (ours, theirs)]
        return _ratio(data.versus(_experiment(technique), cell, rung, ours, theirs), points)

    def over(technique: str, backend: str, peer: str, problem: str, best: bool = False, experiment: str = "") -> str:
        """A rung over a library peer, at the reference tile or at the one that `tune` chose, in the ladder's experiment
        or another."""
        cell, where = Problem.parse(problem), experiment or _experiment(technique)
        ours = data.point(where, cell, technique, backend, best=best)
        theirs = data.point(where, cell, None, peer)
        return _ratio(data.ratio(ours, theirs), (ours, theirs))

    def ahead(which: str, head_dim: int = 0, mask: str = "", tokens: int = 0, tile: str = "") -> str:
        """The least or the most of the flagship's speed over the fastest library's, over the problems of its grid: of a
        head_dim, with a mask, from so many `tokens` on, and at tiles of a size such as 192x80."""
        extreme = {"least": min, "most": max}[which]
        cells = [cell for entry in data.scores if entry["name"] == scores.GRID for cell in entry["cells"]]
        values = [
            cell["value"]
            for cell in cells
            if "value" in cell and cell["case"].rpartition(" ")[2].startswith(f"{tile}-" if tile else "")
            if (problem := Problem.parse(cell["problem"])).head_dim in (head_dim or problem.head_dim,)
            and problem.mask in (mask or problem.mask,)
            and problem.seq_q >= tokens
        ]
        return f"{extreme(values):.2f}×" if values else NOT_MEASURED

    def code(technique: str, backend: str, problem: str, what: str, arch: str = ARCH) -> str:
        """A number from the machine code at the reference tile: registers, spill_bytes, smem_bytes or an instruction
        of the census."""
        techniques.get(technique)
        cell = Problem.parse(problem)
        for row in data.codes(technique, backend, arch, cell.head_dim):
            if Problem.from_dict(row["problem"]) == cell:
                return str(row["code"].get(what, (row["code"].get("census") or {}).get(what, 0)))
        return NOT_MEASURED

    def best(technique: str, backend: str, problem: str, experiment: str = "") -> str:
        """Median TFLOPS at the tile that `tune` chose, and that tile, in the ladder's experiment or another."""
        where = experiment or _experiment(technique)
        point = data.point(where, Problem.parse(problem), technique, backend, best=True)
        if not point.counts or not point.row:
            return _missing(point)
        return f"{point.tflops:.0f} TFLOPS at {tile_slug(point.row)}"

    def tried(technique: str, backend: str, problem: str, tile: str) -> str:
        """Median TFLOPS at a tile, in the run of `tune` that tried it: on this checkout's kernel, else it says so."""
        rows = _cells(data, technique, backend, problem, tile)
        timed = [row for row in rows if row["kind"] == "tune" and row.get("samples_ms")]
        current = [row for row in timed if reading.is_current(row, data.hashes)]
        if not timed:
            return NOT_MEASURED
        return f"{reading.tflops((current or timed)[-1]):.0f} TFLOPS" + ("" if current else " (earlier version)")

    def gain_at(technique: str, backend: str, problem: str, tile: str, experiment: str, over: str = "") -> str:
        """Over the parent, or another rung, at the same tile, in an experiment that has both."""
        rung = techniques.get(technique)
        before = techniques.get(over) if over else techniques.parent(rung, backend)
        which = [name.name for name in (rung, before) if name]
        cell, both = Problem.parse(problem), Tile.parse(tile)
        points = [data.point(experiment, cell, name, backend, tile=both) for name in which]
        return _ratio(data.ratio(*points), points)

    def gate(technique: str, backend: str, problem: str, tile: str, *, earlier: bool = False) -> str:
        """What the gates said of this checkout's kernel, or of earlier versions: passed, or status and check."""
        rows = [row for row in _cells(data, technique, backend, problem, tile) if row["kind"] == "gate"]
        asked = [row for row in rows if reading.is_current(row, data.hashes) is not earlier]
        said = {f"{row['status']} ({row['check']})" if row.get("check") else row["status"] for row in asked}
        return " and ".join(sorted(said)) or NOT_MEASURED

    def ncu(technique: str, problem: str, what: str, backend: str = "cuda", tile: str = "") -> str:
        """Under ncu, at the reference tile or another: hit_rate of L2 in percent, what went through it in GB (l2), read
        from DRAM in MB, bank conflicts and executed instructions in millions."""
        metric, unit, form = {
            "hit_rate": (counters.HIT_RATE, 1, "{:.0f}%"),
            "l2": (counters.L2_SECTORS, 1e9 / counters.SECTOR_BYTES, "{:.1f} GB"),
            "read": (counters.DRAM_READ, 1e6, "{:,.0f} MB"),
            "conflicts": (counters.CONFLICTS, 1e6, "{:,.0f} million"),
            "instructions": (counters.EXECUTED, 1e6, "{:,.0f} million"),
        }[what]
        for row, _ in counters.profiled([data], techniques.get(technique).name, backend):
            is_it = tile_slug(row) == tile if tile else reading.is_reference_tile(row)
            if reading.slug(row) == problem and is_it:
                return form.format((counters.metric(row, metric) or 0) / unit)
        return NOT_MEASURED

    def roof(name: str) -> str:
        """The share of the tensor cores' peak that a kernel of the hardware limits reaches."""
        share = roofs.found([data]).line(name).share
        return f"{100 * share:.0f}%" if share else NOT_MEASURED

    functions = (tflops, gain, versus, over, ahead, code, best, tried, gain_at, gate, ncu, roof)
    return {function.__name__: function for function in functions}


def _cells(data: Dataset, technique: str, backend: str, problem: str, tile: str) -> list[Row]:
    """All rows of one kernel on one problem at one tile, the newest last."""
    wanted = (techniques.get(technique).name, backend, Problem.parse(problem).slug, Tile.parse(tile).slug)
    found = [
        row
        for row in data.newest
        if (row.get("technique"), row["backend"]) == wanted[:2] and (reading.slug(row), tile_slug(row)) == wanted[2:]
    ]
    return sorted(found, key=lambda row: row["time"])


def _ratio(ratio: Ratio | None, points: Iterable[Point]) -> str:
    if ratio:
        return f"{'~' if ratio.linked else ''}{ratio.value:.2f}×"
    return _missing(*points)


def _missing(*points: Point) -> str:
    return EARLIER if any(point.kind == "earlier" for point in points) else NOT_MEASURED
