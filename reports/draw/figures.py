"""The figures, from rows to SVG text. Equal rows give equal bytes.

One colour per language everywhere; series are labelled at their marks, not in a legend. A line joins a technique to the
one that it builds on and no other two. Open marker: an earlier version of the kernel. Dashed: the same program again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES, TWINS
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point, Row, fastest
from reports.data.names import LABELS, SHORT, cell_title, label
from reports.data.titles import title
from reports.draw.style import (
    COLORS,
    GREY,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    PEAK,
    WIDTH,
    end_label_beside,
    end_labels_below,
    new_axes,
    to_svg,
    vertical_lines,
)
from reports.facts import steps
from reports.facts.steps import Step

NAMES = {"triton": "Triton, mma.sync", "triton_native": "core Triton"}
"""The two series of core Triton, where both are shown."""
DROPPED = "hint dropped: only the tile"
"""Instead of a gain, where the compiler ignored what the source asks."""
TEXT = 24
"""Letters in a line of the column of a technique's figure."""
SHAPES = {**MARKERS, "triton_native": "D"}
"""Where an open mark means an earlier version, shape alone tells the two series of core Triton apart."""


def drawn_as(row: Row) -> str:
    """The series, of NAMES, that a row is drawn as: core Triton is restricted to mma.sync where the row says so,
    whatever the ladder calls its series."""
    backend: str = row.backend
    return "triton_native" if backend == "triton" and row.mma != "mma_sync" else backend


def ladder(data: Dataset, experiment: str, problem: Problem, rungs: Sequence[Technique]) -> str:
    """TFLOPS per rung at the reference tile, top to bottom, a mark per language, with a thin line to the best tile
    where that is faster; peers and the tensor-core peak, at the clock of the fastest rung, as vertical lines.
    """
    points = {backend: [data.point(experiment, problem, rung.name, backend) for rung in rungs] for backend in SERIES}
    best = {
        backend: [data.point(experiment, problem, rung.name, backend, best=True) for rung in rungs]
        for backend in SERIES
    }
    notes: dict[int, dict[str, list[str]]] = {}
    for backend in SERIES:
        for row, point in enumerate(points[backend]):
            told = point.kind == "hole" and point.reason != "not measured"
            if told and sources.has_series(backend, rungs[row].path):
                notes.setdefault(row, {}).setdefault(point.reason.partition(":")[0], []).append(LABELS[backend])
    peers = {
        name: point.tflops
        for name in data.peers(experiment)
        if (point := data.point(experiment, problem, None, name)).tflops
    }
    timed = [point for backend in SERIES for point in points[backend] if point.tflops]
    clocked = [point for point in timed if point.row and point.row.clock_ghz]
    peak = data.speed_of_light(fastest(clocked or timed).row)
    names = [title(rung.name) for rung in rungs]
    follows = [techniques.parent(rung) == above for rung, above in zip(rungs, [None, *rungs], strict=False)]
    heading = cell_title(problem)
    return _ladder(f"ladder {experiment} {problem.slug}", heading, names, follows, points, best, notes, peers, peak)


def _ladder(
    name: str,
    heading: str,
    rungs: Sequence[str],
    follows: Sequence[bool],
    points: Mapping[str, Sequence[Point]],
    best: Mapping[str, Sequence[Point]],
    notes: Mapping[int, Mapping[str, Sequence[str]]],
    peers: Mapping[str, float | None],
    peak: float | None,
) -> str:
    """`rungs`: titles. `follows`: whether a rung builds on the one above. `points` and `best`: backend -> a point for
    each rung. `notes`: row -> why there is none -> where."""
    figure, axes = new_axes(WIDTH, 1.65 + 0.32 * len(rungs))
    labels: dict[str, tuple[float, str]] = {}
    for backend in SERIES:
        _climb(axes, points[backend], follows, backend)
        _tuned(axes, points[backend], best[backend], backend)
        drawn = [point for point in points[backend] if point.tflops]
        top = max(drawn, key=lambda point: (point.counts, point.tflops or 0), default=None)
        if top and top.tflops:
            row = points[backend].index(top)
            if backend in TWINS:
                labels[backend] = (top.tflops, "" if top.counts else " (earlier)")
                axes.plot([top.tflops] * 2, [row, len(rungs) - 0.5], color=COLORS[backend], lw=1, ls=":", zorder=1)
            else:  # at its mark: it has few kernels
                end_label_beside(axes, backend, top.tflops, row)
    reached = [*(value for value, _ in labels.values()), *filter(None, peers.values())]
    right = max([*reached, peak or 0, 1]) * 1.03
    axes.set(
        xlim=(0, right), ylim=(len(rungs) - 0.5, -0.5), xlabel="TFLOPS; named: the best of each language", ylabel=""
    )
    axes.set_yticks(range(len(rungs)), [fill(rung, 21) for rung in rungs], size=9)
    for row, reasons in notes.items():
        why = ", ".join(
            what if set(where) >= {LABELS[twin] for twin in TWINS} else f"{' and '.join(where)}: {what}"
            for what, where in reasons.items()
        )
        # where nothing is drawn: left of the row's marks, or right of them
        marked = [series[row].tflops for series in points.values() if series[row].tflops]
        left = min((value for value in marked if value), default=right) > 0.4 * right
        place, side = (0.01 * right, "left") if left else ((peak or right) * 0.985, "right")
        axes.text(place, row, f"× {why}", color=MUTED, size=9, ha=side, va="center")
    lines = {SHORT.get(peer, label(peer)): value for peer, value in peers.items() if value}
    if peak:
        lines[PEAK] = peak
    levels = vertical_lines(axes, lines, right)
    end_labels_below(axes, labels, len(rungs), right)
    axes.grid(visible=False, axis="y")
    what, _, size = heading.partition("  ")
    axes.set_title(f"{what}  {size}", loc="left", pad=8 + 12 * levels, fontsize=9)
    return to_svg(figure, name)


@dataclass(frozen=True)
class StepLine:
    """One language at one problem. `series`: of NAMES or LABELS. `best`: the technique at its best tile, where that is
    another than the reference tile."""

    problem: str
    series: str
    step: Step
    best: Point | None


def step(data: Dataset, problems: Sequence[Problem], technique: Technique) -> str | None:
    """From the parent's TFLOPS (a tick) to the technique's (a mark) at their reference tiles, what the tile did by
    itself in grey, and the technique at its best tile (a ring), by problem and language; None when nothing was
    measured."""
    lines = []
    for problem in problems:
        for backend in SERIES:
            found = steps.one_step(data, problem, technique, backend, "reference")
            tuned = steps.point_of(data, problem, technique, backend, "best")
            best = tuned if tuned.counts and tuned.row and not tuned.row.reference_tile else None
            if row := found.point.row or (best and best.row):
                name = f"head_dim {problem.head_dim}, {problem.mask}"
                lines.append(StepLine(name, drawn_as(row), found, best))
    return _step(f"step {technique.name}", lines) if lines else None


def _step(name: str, lines: Sequence[StepLine]) -> str:
    """A heading for each problem, below it a row for each of its lines, with what is said of it in a column."""
    labels: list[tuple[float, str, str]] = []
    figure_rows = 0
    texts = [fill(_step_text(line), TEXT) for line in lines]
    for place, (line, text) in enumerate(zip(lines, texts, strict=True)):
        if place == 0 or line.problem != lines[place - 1].problem:
            labels.append((figure_rows, line.problem, ""))
            figure_rows += 1
        high = 1 + text.count("\n")
        labels.append((figure_rows + (high - 1) / 2, NAMES.get(line.series, LABELS[line.series]), line.series))
        figure_rows += high
    figure, axes = new_axes(WIDTH, 0.6 + 0.21 * figure_rows)
    rows = (row for row, _, series in labels if series)
    for row, line, text in zip(rows, lines, texts, strict=True):
        _draw_step(axes, line, row)
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (1, row), xytext=(6, -0.5), va="center", size=9, **at)
    axes.set_yticks([row for row, *_ in labels], [text for _, text, _ in labels], size=9)
    for tick, (*_, series) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set(color=COLORS.get(series, INK), weight="normal" if series else "bold")
    legend = [
        *(["tick: the parent"] if any(line.step.before for line in lines) else []),
        *(["grey: the tile"] if any(line.step.kind in ("tile", "dropped", "both") for line in lines) else []),
        *(["ring: at its best tile"] if any(line.best for line in lines) else []),
    ]
    right = 1.05 * max(filter(None, (value for line in lines for value in _ends(line))))
    axes.set(xlim=(0, right), ylim=(figure_rows - 0.5, -0.5), xlabel="; ".join(("TFLOPS", *legend)), ylabel="")
    axes.grid(visible=False, axis="y")
    return to_svg(figure, name)


def _ends(line: StepLine) -> tuple[float | None, ...]:
    """Every value of a line."""
    return line.step.before, line.step.between, line.step.point.tflops, line.best.tflops if line.best else None


def _draw_step(axes: Axes, line: StepLine, row: float) -> None:
    """The tick, what leads from it to the mark, the mark, and the ring."""
    step, color = line.step, COLORS[line.series]
    before, value = step.before, step.point.tflops
    if before and value:
        axes.plot([before], [row], marker="|", ms=10, mew=2, color=color)
        tile_ends = step.between or (value if step.kind in ("tile", "dropped", "both") else before)
        if tile_ends != before:
            half = step.kind == "both" and not step.between
            low, wide, thick = min(before, tile_ends), abs(tile_ends - before), 0.18 if half else 0.3
            axes.barh(row + (0.14 if half else 0), wide, thick, left=low, **GREY)
        if step.kind not in ("tile", "dropped"):
            start = step.between or before
            axes.plot([start, value], [row, row], color=color, lw=2, ls=":" if step.kind == "same" else "-")
    if line.best and line.best.tflops:
        if value:
            axes.plot([value, line.best.tflops], [row, row], color=color, lw=1, alpha=0.6, zorder=1)
        axes.plot([line.best.tflops], [row], "o", ms=8, color=color, mfc="none", mew=1.5)
    if value:
        face = PAPER if line.series == "triton" else color
        axes.plot([value], [row], MARKERS[line.series], ms=6, color=color, mfc=face, mew=1.5)


def _climb(axes: Axes, points: Sequence[Point], follows: Sequence[bool], backend: str) -> None:
    """One language's marks. A line leads to a rung from the one above it where it builds on that and both count."""
    color = COLORS[backend]
    for row, point in enumerate(points):
        if point.tflops is None:
            continue
        above = points[row - 1] if row and follows[row] else None
        if above and above.counts and point.counts:
            dashes = (0, (2, 2)) if point.kind == "same_program" else "-"
            axes.plot([above.tflops, point.tflops], [row - 1, row], color=color, lw=2, ls=dashes)
        size, fill_of = (3.5, color) if point.kind == "same_program" else (6.5, color if point.counts else PAPER)
        axes.plot([point.tflops], [row], SHAPES[backend], ms=size, color=color, mfc=fill_of, mew=1.5, zorder=3)


def _tuned(axes: Axes, points: Sequence[Point], best: Sequence[Point], backend: str) -> None:
    """From each rung to its best tile, where that is faster and the program is this rung's own."""
    for row, (point, other) in enumerate(zip(points, best, strict=True)):
        if point.kind == "measured" and other.counts and (other.tflops or 0) > (point.tflops or 0):
            ends = [point.tflops, other.tflops]
            axes.plot(ends, [row, row], color=COLORS[backend], lw=1, alpha=0.6, zorder=1)
            axes.plot(ends[1:], [row], "|", ms=7, mew=1.5, color=COLORS[backend], alpha=0.6, zorder=2)


def _step_text(line: StepLine) -> str:
    """420 (tile 1.25×, technique 0.96×), best tile 441."""
    step = line.step
    best = f"best tile {line.best.tflops:.0f}" if line.best else ""
    if not step.point.tflops:
        return best
    return ", ".join(filter(None, (f"{step.point.tflops:.0f}{_gain_text(step)}", best)))


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
