"""A technique's figure, from rows to SVG text. Equal rows give equal bytes. One colour per language everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Row
from reports.data.names import label, short_title
from reports.draw.style import (
    BEHIND,
    COLORS,
    GREY,
    GRID,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    TICK,
    canvas,
    to_svg,
    width_of,
    write,
)
from reports.facts import steps
from reports.facts.steps import Step

NAMES = {"triton": "Triton, mma.sync", "triton_native": "core Triton"}
"""The two series of core Triton, where both are shown."""
DROPPED = "hint dropped: only the tile"
"""Instead of a gain, where the compiler ignored what the source asks."""
OF_TILES = ("tile", "dropped", "both")
"""Kinds of steps that change the tile."""
WORDS = {
    "tick: the parent": "A tick is the parent’s speed.",
    "grey: the tile": "Grey: what the tile alone changes, or below the line where nobody timed that.",
    "ring: at its best tile": "A ring is the technique at its best tile.",
}
"""What the legend of a technique's figure says where it applies -> what a page adds."""
WIDE, MARGIN, ROW = 390, 8, 18
"""Pixels of a technique's figure, which a page scales to its column, and of a line of it."""


def drawn_as(row: Row) -> str:
    """The series, of NAMES, that a row is drawn as: the instructions decide, not the ladder's name of the series."""
    backend: str = row.backend
    return "triton_native" if backend == "triton" and row.mma != "mma_sync" else backend


@dataclass(frozen=True)
class StepLine:
    """One language at one problem. `series`: see drawn_as. `best`: at the best tile, where that is another one."""

    problem: str
    series: str
    step: Step
    best: Point | None

    @property
    def value(self) -> float | None:
        """The technique's speed; None where it is an earlier version's and the best tile has one of this version."""
        return None if self.best and self.step.point.kind == "earlier" else self.step.point.tflops

    @property
    def ends(self) -> tuple[float | None, ...]:
        return self.step.before, self.step.between, self.value, self.best.tflops if self.best else None


def step(data: Dataset, problems: Sequence[Problem], technique: Technique) -> str | None:
    """From the parent's TFLOPS (a tick) to the technique's (a mark) at their reference tiles, what the tile did by
    itself in grey, and the technique at its best tile (a ring); None when nothing was measured. A heading for each
    problem, below it a bar for each language, with what is said of it above."""
    lines = []
    for problem in problems:
        for backend in SERIES:
            found = steps.one_step(data, problem, technique, backend)
            tuned = steps.point_of(data, problem, technique, backend, best=True)
            best = tuned if tuned.counts and tuned.row and not tuned.row.reference_tile else None
            if row := found.point.row or (best and best.row):
                lines.append(StepLine(short_title(problem), drawn_as(row), found, best))
    if not lines:
        return None
    asked = (
        any(line.step.before for line in lines),
        any(line.step.kind in OF_TILES for line in lines),
        any(line.best for line in lines),
    )
    legend = [word for word, is_asked in zip(WORDS, asked, strict=True) if is_asked]
    places: list[tuple[float, StepLine]] = []  # of the bars
    heads: list[tuple[float, str, str, str]] = []  # of the words above them: what is at the left, its series, the right
    y = 0.0
    for before, line in zip([None, *lines], lines, strict=False):
        if before is None or line.problem != before.problem:
            heads.append((y + ROW, line.problem, "", ""))
            y += 2 * ROW
        name, told = NAMES.get(line.series) or label(line.series), _step_text(line)
        fits = width_of(name, TICK) + width_of(told, TICK) < WIDE - 3 * MARGIN
        heads.append((y + 8, name, line.series, told if fits else ""))
        if not fits:
            y += ROW
            heads.append((y + 8, "", "", told))
        places.append((y + 24, line))
        y += 2 * ROW
    height = round(y) + 3 * ROW
    most = 1.1 * max(filter(None, (value for line in lines for value in line.ends)))
    figure, axes = canvas(WIDE, height, MARGIN, MARGIN, 0, 0)
    axes.set(xlim=(0, most), ylim=(height, 0))
    for tick in MaxNLocator(5).tick_values(0, most):
        if tick <= most:
            axes.plot([tick, tick], [2 * ROW, y], color=GRID, lw=1, zorder=0)
            write(axes, f"{tick:g}", (tick, y + 10), size=TICK, color=MUTED, ha="center")
    for place, left, series, right in heads:
        style: dict[str, Any] = {"size": TICK, "bbox": BEHIND}
        write(axes, left, (0, place), color=COLORS.get(series, INK), weight="normal" if series else "bold", **style)
        if right:
            write(axes, right, (most, place), ha="right", **style)
    for place, line in places:
        _draw_step(axes, line, place)
    for number, words in enumerate((["TFLOPS", *legend[:1]], legend[1:])):
        write(axes, "; ".join(words), (most / 2, y + 28 + 16 * number), size=TICK, color=MUTED, ha="center")
    return to_svg(figure, f"step {technique.name}", css="step")


def _draw_step(axes: Axes, line: StepLine, row: float) -> None:
    step, color = line.step, COLORS[line.series]
    before, value = step.before, line.value
    if before and value:
        axes.plot([before], [row], marker="|", ms=10, mew=2, color=color)
        tile_ends = step.between or (value if step.kind in OF_TILES else before)
        if tile_ends != before:
            half = step.kind == "both" and not step.between
            low, wide, thick = min(before, tile_ends), abs(tile_ends - before), 4 if half else 7
            axes.barh(row + (3 if half else 0), wide, thick, left=low, **GREY)
        if step.kind not in ("tile", "dropped"):
            start = step.between or before
            axes.plot([start, value], [row, row], color=color, lw=2, ls=":" if step.kind == "same" else "-")
    if line.best and line.best.tflops:
        if value:
            axes.plot([value, line.best.tflops], [row, row], color=color, lw=1, alpha=0.6, zorder=1)
        axes.plot([line.best.tflops], [row], "o", ms=8, color=color, mfc="none", mew=1.5, clip_on=False)
    if value:
        face = PAPER if line.series == "triton" else color
        axes.plot([value], [row], MARKERS[line.series], ms=6, color=color, mfc=face, mew=1.5, clip_on=False)


def _step_text(line: StepLine) -> str:
    """420 (tile 1.25×, technique 0.96×), best tile 441."""
    step = line.step
    best = f"best tile {_speed(line.best.tflops)}" if line.best else ""
    return ", ".join(filter(None, (f"{_speed(line.value)}{_gain_text(step)}" if line.value else "", best)))


def _speed(tflops: float | None) -> str:
    return f"{tflops:.{0 if tflops >= 100 else 1 if tflops >= 10 else 2}f}" if tflops else ""


def _gain_text(step: Step) -> str:
    if step.point.kind == "earlier":
        return ", earlier version"
    if step.kind == "dropped":
        return f", {DROPPED}"
    if step.kind == "same":
        return ", same program"
    if not step.ratio:
        return ""
    about = "~" if step.ratio.linked else ""
    if step.kind == "both" and step.alone:
        return f" (tile {about}{step.ratio.value / step.alone.value:.2f}×, technique {about}{step.alone.value:.2f}×)"
    what = {"both": "with its tile ", "tile": "tile "}.get(step.kind, "")
    return f" ({what}{about}{step.ratio.value:.2f}×)"
