"""The figures, from rows to SVG text. Equal rows give equal bytes.

One colour per language everywhere; series are labelled at their ends, not in a legend. A whisker is the
interquartile range of the samples. Open marker: an earlier version of the kernel. Dashed: the same program again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.problem import Problem
from harness.catalog.techniques import SERIES, TWINS
from harness.rows import reading
from reports.data.dataset import Dataset, Point, fastest
from reports.data.names import LABELS, SHORT, cell_title, label
from reports.draw.reuse import once
from reports.draw.style import (
    COLORS,
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
    whisker,
)
from reports.facts import steps

NAMES = {"triton": "Triton, mma.sync", "triton_native": "core Triton"}
"""The two series of core Triton, where both are shown."""
DROPPED = "hint dropped: only the tile"
"""Instead of a gain, where the compiler ignored what the source asks."""
SHAPES = {**MARKERS, "triton_native": "D"}
"""Where an open mark means an earlier version, shape alone tells the two series of core Triton apart."""


def ladder(data: Dataset, experiment: str, problem: Problem, rungs: Sequence[Technique]) -> str:
    """TFLOPS per rung at the reference tile, top to bottom, one line per language, with a thin line to the best tile
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
    clocked = [point for point in timed if point.row and reading.clock_ghz(point.row)]
    peak = data.speed_of_light(fastest(clocked or timed).row)
    names = [rung.name for rung in rungs]
    return _ladder(f"ladder {experiment} {problem.slug}", cell_title(problem), names, points, best, notes, peers, peak)


@once
def _ladder(
    name: str,
    heading: str,
    rungs: Sequence[str],
    points: Mapping[str, Sequence[Point]],
    best: Mapping[str, Sequence[Point]],
    notes: Mapping[int, Mapping[str, Sequence[str]]],
    peers: Mapping[str, float | None],
    peak: float | None,
) -> str:
    """`points` and `best`: backend -> a point for each rung. `notes`: row -> why there is none -> where."""
    figure, axes = new_axes(WIDTH, 1.65 + 0.32 * len(rungs))
    ends: dict[str, tuple[float, str]] = {}
    for backend in SERIES:
        _climb(axes, points[backend], backend)
        _tuned(axes, points[backend], best[backend], backend)
        drawn = [point for point in points[backend] if point.tflops]
        last = next((point for point in reversed(drawn) if point.counts), drawn[-1] if drawn else None)
        if last and last.tflops:
            if backend in TWINS:
                ends[backend] = (last.tflops, "" if last.counts else " (earlier)")
            else:  # it ends where its kernels do
                end_label_beside(axes, backend, last.tflops, points[backend].index(last))
    reached = [*(value for value, _ in ends.values()), *filter(None, peers.values())]
    right = max([*reached, peak or 0, 1]) * 1.03
    axes.set(xlim=(0, right), ylim=(len(rungs) - 0.5, -0.5), xlabel="TFLOPS", ylabel="")
    axes.set_yticks(range(len(rungs)), rungs)
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
    end_labels_below(axes, ends, len(rungs), right)
    axes.grid(visible=False, axis="y")
    what, _, size = heading.partition("  ")
    axes.set_title(f"{what}  {size}", loc="left", pad=8 + 12 * levels, fontsize=9)
    return to_svg(figure, name)


def step(data: Dataset, experiment: str, problems: Sequence[Problem], technique: Technique) -> str | None:
    """From the parent's TFLOPS (a tick) to the technique's (a mark), by problem and language; None when nothing was
    measured."""
    parent = techniques.parent(technique)
    lines: list[tuple[str, str, str, Point, Point | None]] = []
    for problem in problems:
        for backend in SERIES:
            point = data.point(experiment, problem, technique.name, backend)
            before = data.point(experiment, problem, parent.name, backend) if parent else None
            if point.tflops:
                name = f"head_dim {problem.head_dim}, {problem.mask}"
                dropped = steps.hint_dropped(data, technique, backend, problem, point)
                text = f"{point.tflops:.0f}, {DROPPED}" if dropped else _step_text(data, point, before)
                lines.append((name, backend, text, point, before))
    return _step(f"step {technique.name}", lines) if lines else None


@once
def _step(title: str, lines: Sequence[tuple[str, str, str, Point, Point | None]]) -> str:
    """`lines`: the problem, the backend, what is said of the step, where it ends and where it begins."""
    right = max(point.tflops or 0 for *_, point, _ in lines) * 1.4
    labels: list[tuple[str, str]] = []
    for place, (name, backend, *_) in enumerate(lines):
        if place == 0 or name != lines[place - 1][0]:
            labels.append((name, ""))
        labels.append((NAMES.get(backend, LABELS[backend]), backend))
    figure, axes = new_axes(WIDTH, 0.5 + 0.21 * len(labels))
    rows = (row for row, (_, backend) in enumerate(labels) if backend)
    for row, (_, backend, text, point, before) in zip(rows, lines, strict=True):
        color, filled = COLORS[backend], backend != "triton"
        value = point.tflops or 0
        if before and before.tflops:
            axes.plot(
                [before.tflops, value], [row, row], color=color, lw=2, ls=":" if point.kind == "same_program" else "-"
            )
            axes.plot([before.tflops], [row], marker="|", ms=10, mew=2, color=color)
        whisker(axes, point, row, color)
        axes.plot([value], [row], MARKERS[backend], ms=6, color=color, mfc=color if filled else PAPER, mew=1.5)
        farthest = max(value, (before.tflops if before else 0) or 0)
        axes.annotate(text, (farthest, row), xytext=(9, -0.5), textcoords="offset points", va="center", size=9)
    axes.set_yticks(range(len(labels)), [name for name, _ in labels], size=9)
    for tick, (_, backend) in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set(color=COLORS.get(backend, INK), weight="normal" if backend else "bold")
    axes.set(xlim=(0, right), ylim=(len(labels) - 0.5, -0.5), xlabel="TFLOPS", ylabel="")
    axes.grid(visible=False, axis="y")
    return to_svg(figure, title)


def _climb(axes: Axes, points: Sequence[Point], backend: str) -> None:
    """One language's way down the ladder. Segments join rungs that count, pale where holes lie between."""
    color, last = COLORS[backend], None
    for row, point in enumerate(points):
        if point.tflops is None:
            continue
        if point.counts:
            if last is not None:
                again = point.kind == "same_program"
                style: dict[str, Any] = {
                    "ls": (0, (2, 2)) if again else "-",
                    "alpha": 1 if last[0] == row - 1 else 0.35,
                }
                axes.plot([last[1], point.tflops], [last[0], row], color=color, lw=2, **style)
            last = (row, point.tflops)
        whisker(axes, point, row, color)
        size, fill = (3.5, color) if point.kind == "same_program" else (6.5, color if point.counts else PAPER)
        axes.plot([point.tflops], [row], SHAPES[backend], ms=size, color=color, mfc=fill, mew=1.5, zorder=3)


def _tuned(axes: Axes, points: Sequence[Point], best: Sequence[Point], backend: str) -> None:
    """From each rung to its best tile, where that is faster and the program is this rung's own."""
    for row, (point, other) in enumerate(zip(points, best, strict=True)):
        if point.kind == "measured" and other.counts and (other.tflops or 0) > (point.tflops or 0):
            ends = [point.tflops, other.tflops]
            axes.plot(ends, [row, row], color=COLORS[backend], lw=1, alpha=0.6, zorder=1)
            axes.plot(ends[1:], [row], "|", ms=7, mew=1.5, color=COLORS[backend], alpha=0.6, zorder=2)


def _step_text(data: Dataset, point: Point, before: Point | None) -> str:
    if point.kind == "earlier":
        return f"{point.tflops:.0f}, earlier version"
    if point.kind == "same_program":
        return "same program"
    ratio = data.ratio(point, before) if before else None
    return f"{point.tflops:.0f}" + (f"  ({'~' if ratio.linked else ''}{ratio.value:.2f}×)" if ratio else "")
