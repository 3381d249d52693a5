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

from harness import techniques
from harness.problem import Problem
from reports.dataset import Dataset, Point, Ratio
from reports.resources import ARCH

ROOT = Path(__file__).resolve().parent / "notes"
EXPERIMENT = "ladder"
NOT_MEASURED = "*not measured*"
EARLIER = "*of an earlier version*"


def render(name: str, data: Dataset, root: Path = ROOT) -> Markup | None:
    """The note of a technique as HTML, None where there is none. Raises ValueError that names it on a bad reference."""
    path = root / f"{name}.md"
    if not path.is_file():
        return None
    environment = Environment(undefined=StrictUndefined, autoescape=False)
    try:
        text = environment.from_string(path.read_text()).render(references(data))
    except Exception as error:
        raise ValueError(f"{path.name}: {error}; correct the reference in reports/notes/{path.name}") from error
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def references(data: Dataset) -> dict[str, Callable[..., str]]:
    """The functions that a note may call. `backend` is cuda, triton, triton_native or a peer (technique None)."""

    def tflops(technique: str | None, backend: str, problem: str, mode: str = "burst") -> str:
        """Median TFLOPS at the reference tile."""
        if technique:
            techniques.get(technique)
        point = data.point(EXPERIMENT, Problem.parse(problem), technique, backend, mode)
        if point.tflops is None:
            return NOT_MEASURED
        return f"{point.tflops:.0f} TFLOPS" + ("" if point.counts else " (earlier version)")

    def gain(technique: str, backend: str, problem: str) -> str:
        """Over the parent, in the same language."""
        cell, rung = Problem.parse(problem), techniques.get(technique)
        parent = techniques.parent(rung)
        points = [data.point(EXPERIMENT, cell, name.name, backend) for name in (rung, parent) if name]
        return _ratio(data.gain(EXPERIMENT, cell, rung, backend), points)

    def versus(technique: str, ours: str, theirs: str, problem: str) -> str:
        """One language over the other, on the same rung."""
        cell, rung = Problem.parse(problem), techniques.get(technique)
        points = [data.point(EXPERIMENT, cell, technique, backend) for backend in (ours, theirs)]
        return _ratio(data.versus(EXPERIMENT, cell, rung, ours, theirs), points)

    def over(technique: str, backend: str, peer: str, problem: str) -> str:
        """A rung over a library peer."""
        cell = Problem.parse(problem)
        points = [data.point(EXPERIMENT, cell, *which) for which in ((technique, backend), (None, peer))]
        return _ratio(data.ratio(*points), points)

    def code(technique: str, backend: str, problem: str, what: str, arch: str = ARCH) -> str:
        """A number from the machine code at the reference tile: registers, spill_bytes, smem_bytes or an instruction
        of the census."""
        techniques.get(technique)
        cell = Problem.parse(problem)
        for row in data.codes(technique, backend, arch, cell.head_dim):
            if Problem.from_dict(row["problem"]) == cell:
                return str(row["code"].get(what, (row["code"].get("census") or {}).get(what, 0)))
        return NOT_MEASURED

    return {function.__name__: function for function in (tflops, gain, versus, over, code)}


def _ratio(ratio: Ratio | None, points: Iterable[Point]) -> str:
    if ratio:
        return f"{ratio.value:.2f}×"
    return EARLIER if any(point.kind == "earlier" for point in points) else NOT_MEASURED
