"""The figures, from rows to SVG text. Equal rows give equal bytes.

One colour per language everywhere; series are labelled at their ends, not in a legend. A whisker is the
interquartile range of the samples. Open marker: an earlier version of the kernel. Dashed: the same program again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from harness import scorecard, techniques
from harness.problem import Problem
from harness.scorecard import Hashes
from harness.techniques import TWINS, Technique
from reports.dataset import Dataset, Point, load, quartiles

ROOT = Path(__file__).resolve().parent

INK, MUTED, GRID, PAPER = "#1b1f24", "#66707c", "#e3e7ec", "#ffffff"
COLORS = {"cuda": "#1a8754", "triton": "#2456d6", "triton_native": "#6a9fe0"}
MARKERS = {"cuda": "o", "triton": "s", "triton_native": "D"}
LABELS = {
    "cuda": "CUDA",
    "triton": "Triton",
    "triton_native": "Triton native",
    "gluon": "Gluon",
    "sdpa_cudnn": "cuDNN",
    "sdpa_flash": "FlashAttention-2 (SDPA)",
    "sdpa_math": "SDPA math",
    "flex": "FlexAttention",
    "fa2": "flash-attn 2",
    "fa3": "flash-attn 3",
    "fa4": "flash-attn 4",
}
PEAK = "tensor peak"
SHORT = {"sdpa_flash": "FA2", "sdpa_cudnn": "cuDNN", "flex": "Flex"}

WIDTH = 5.0
"""Inches of a figure in a page: at the width of a phone its text is still about 10 px high."""

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 10,
    "axes.labelsize": 9,
    "figure.dpi": 72,
}


def label(backend: str) -> str:
    """The name of a backend for people, a version kept: fa4@4.0.0 -> flash-attn 4 4.0.0."""
    name, _, version = backend.partition("@")
    return f"{LABELS.get(name, name)} {version}".strip()


def cell_title(problem: Problem) -> str:
    """head_dim 128, causal, the rest in words that fit a phone."""
    length = f"{problem.seq_q}" if problem.seq_q == problem.seq_kv else f"{problem.seq_q}x{problem.seq_kv}"
    heads = f"{problem.heads}" if problem.heads == problem.heads_kv else f"{problem.heads}/{problem.heads_kv}"
    mask = "causal" if problem.causal else "full"
    return f"d={problem.head_dim}, {mask}  (B={problem.batch} H={heads} N={length} {problem.dtype})"


def ladder(data: Dataset, experiment: str, problem: Problem, rungs: Sequence[Technique], *, embed: bool = True) -> str:
    """TFLOPS per rung, top to bottom, one line per language; peers and the tensor-core peak as vertical lines.

    The version that stands alone (not `embed`) also has each rung's gain and where the rows come from.
    """
    figure, axes = _axes(WIDTH if embed else 8.4, 1.65 + 0.32 * len(rungs) + (0 if embed else 0.3))
    peak = data.speed_of_light()
    ends: dict[str, float] = {}
    notes: dict[int, list[str]] = {}
    for backend in TWINS:
        points = [data.point(experiment, problem, rung.name, backend) for rung in rungs]
        _climb(axes, points, backend)
        for row, point in enumerate(points):
            if point.kind == "hole":
                notes.setdefault(row, []).append(f"{LABELS[backend]}: {point.reason.partition(':')[0]}")
        drawn = [point.tflops for point in points if point.tflops and point.counts]
        if drawn:
            ends[backend] = drawn[-1]
    peers = {
        name: point.tflops
        for name in sorted({row["backend"] for row in data.timings(experiment) if not row.get("technique")})
        if (point := data.point(experiment, problem, None, name)).tflops
    }
    right = max([*ends.values(), *(value for value in peers.values() if value), peak or 0, 1]) * 1.03
    axes.set(xlim=(0, right), ylim=(len(rungs) - 0.5, -0.5), xlabel="TFLOPS", ylabel="")
    axes.set_yticks(range(len(rungs)), [rung.name for rung in rungs])
    for row, texts in notes.items():
        place = (peak or right) * 0.985
        text = axes.text(place, row, "× " + ", ".join(texts), color=MUTED, size=8, ha="right", va="center")
        text.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1})
    lines = {SHORT.get(name, label(name)): value for name, value in peers.items() if value}
    if peak:
        lines[PEAK] = peak
    levels = _vertical_lines(axes, lines, right)
    _end_labels_below(axes, ends, len(rungs), right)
    axes.grid(visible=False, axis="y")
    axes.set_title(cell_title(problem), loc="left", pad=8 + 12 * levels)
    if not embed:
        _gains(axes, data, experiment, problem, rungs)
        figure.supxlabel(data.provenance(), size=8, color=MUTED, x=0.99, ha="right")
    return _svg(figure, f"ladder {experiment} {problem.slug}", embed)


def step(data: Dataset, experiment: str, problems: Sequence[Problem], technique: Technique) -> str | None:
    """From the parent's TFLOPS to the technique's, per problem and language; None when nothing was measured."""
    parent = techniques.parent(technique)
    lines: list[tuple[str, str, Point, Point | None]] = []
    for problem in problems:
        for backend in TWINS:
            point = data.point(experiment, problem, technique.name, backend)
            before = data.point(experiment, problem, parent.name, backend) if parent else None
            if point.tflops:
                name = f"d={problem.head_dim} {'causal' if problem.causal else 'full'}"
                lines.append((name, backend, point, before))
    if not lines:
        return None
    figure, axes = _axes(WIDTH, 0.7 + 0.26 * len(lines))
    right = max(point.tflops or 0 for *_, point, _ in lines) * 1.6
    for row, (_, backend, point, before) in enumerate(lines):
        color, filled = COLORS[backend], point.counts
        value = point.tflops or 0
        if before and before.tflops:
            axes.plot([before.tflops, value], [row, row], color=color, lw=2, ls="-" if point.row != before.row else ":")
            axes.plot([before.tflops], [row], marker="|", ms=10, mew=2, color=color)
        _whisker(axes, point, row, color)
        axes.plot([value], [row], MARKERS[backend], ms=7, color=color, mfc=color if filled else PAPER)
        text = _step_text(data, point, before)
        farthest = max(value, (before.tflops if before else 0) or 0)
        axes.annotate(text, (farthest, row), xytext=(9, -0.5), textcoords="offset points", va="center", size=9)
    names = [f"{name}  {LABELS[backend]}" for name, backend, *_ in lines]
    axes.set_yticks(range(len(lines)), names)
    for tick, (_, backend, *_) in zip(axes.get_yticklabels(), lines, strict=True):
        tick.set_color(COLORS[backend])
    axes.set(xlim=(0, right), ylim=(len(lines) - 0.5, -0.5), xlabel="TFLOPS", ylabel="")
    axes.grid(visible=False, axis="y")
    return _svg(figure, f"step {technique.name}", embed=True)


def lengths(data: Dataset, experiment: str, problems: Sequence[Problem]) -> str | None:
    """TFLOPS against sequence length: the best rung of each language at the longest length, and the peers.

    `problems` differ in length alone. None when no series has two lengths.
    """
    problems = sorted(problems, key=lambda problem: problem.seq_q)
    names = sorted({(row.get("technique"), row["backend"]) for row in data.timings(experiment)}, key=str)
    series: dict[str, tuple[str | None, list[Point]]] = {}
    for technique, backend in names:
        points = [data.point(experiment, problem, technique, backend) for problem in problems]
        best = series.get(backend)
        if sum(point.counts for point in points) > 1 and (best is None or _last(points) > _last(best[1])):
            series[backend] = (technique, points)
    if not series:
        return None
    samples = [
        {"backend": backend, "seq": problem.seq_q, "tflops": problem.tflops(ms)}
        for backend, (_, points) in series.items()
        for problem, point in zip(problems, points, strict=True)
        if point.counts and point.row
        for ms in point.row["samples_ms"]
    ]
    figure, axes = _axes(WIDTH, 3.6)
    palette = {backend: COLORS.get(backend, MUTED) for backend in series}
    sns.lineplot(
        pd.DataFrame(samples),
        x="seq",
        y="tflops",
        hue="backend",
        style="backend",
        palette=palette,
        markers={backend: MARKERS.get(backend, ".") for backend in series},
        dashes={backend: "" if backend in COLORS else (3, 2) for backend in series},
        estimator="median",
        errorbar=("pi", 50),
        legend=False,
        ax=axes,
    )
    top = max(sample["tflops"] for sample in samples) * 1.08
    axes.set_xscale("log", base=2)
    ticks = [problem.seq_q for problem in problems]
    axes.set_xticks(ticks, [f"{n // 1024}k" if n % 1024 == 0 else str(n) for n in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(ylim=(0, top), xlabel="sequence length (batch x length constant)", ylabel="TFLOPS")
    heights = _apart({backend: _last(points) for backend, (_, points) in series.items()}, top * 0.052)
    for backend, (technique, _) in series.items():
        text = f"{label(backend)} {technique}" if technique else SHORT.get(backend, label(backend))
        color = COLORS.get(backend, MUTED)
        axes.annotate(
            text,
            (1.015, heights[backend]),
            xycoords=("axes fraction", "data"),
            color=color,
            va="center",
            size=9,
            annotation_clip=False,
        )
    axes.grid(visible=False, axis="x")
    title = cell_title(problems[0])
    axes.set_title(re.sub(r"  \(.*", "", title), loc="left")
    return _svg(figure, f"lengths {problems[0].head_dim} {problems[0].causal}", embed=True)


def readme(output: Path, *, recorded: Path = ROOT / "recorded", hashes: Hashes | None = None) -> list[Path]:
    """Writes README's figures from recorded rows alone; an empty list while nothing is recorded."""
    datasets = load(recorded, (), scorecard.checkout_hashes() if hashes is None else hashes)
    data = next((data for data in datasets if "ladder" in data.experiments()), None)
    if data is None:
        return []
    output.mkdir(parents=True, exist_ok=True)
    problem = data.problems("ladder")[0]
    rungs = [technique for technique in techniques.TECHNIQUES if technique.ladder == "ampere"]
    path = output / "ladder.svg"
    path.write_text(ladder(data, "ladder", problem, rungs, embed=False))
    return [path]


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    sns.set_theme(context="notebook", style="whitegrid", rc=STYLE)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    sns.despine(fig=figure, left=True, bottom=True)
    return figure, axes


def _climb(axes: Axes, points: Sequence[Point], backend: str) -> None:
    """One language's way down the ladder. Segments join rungs that count, whatever holes lie between."""
    color, last = COLORS[backend], None
    for row, point in enumerate(points):
        if point.tflops is None:
            continue
        if point.counts:
            if last is not None:
                again = point.kind == "same_program"
                axes.plot([last[1], point.tflops], [last[0], row], color=color, lw=2, ls=(0, (2, 2)) if again else "-")
            last = (row, point.tflops)
        _whisker(axes, point, row, color)
        size, fill = (3.5, color) if point.kind == "same_program" else (6.5, color if point.counts else PAPER)
        axes.plot([point.tflops], [row], MARKERS[backend], ms=size, color=color, mfc=fill, mew=1.5, zorder=3)


def _whisker(axes: Axes, point: Point, row: float, color: str) -> None:
    if point.row:
        low, _, high = quartiles(point.row)
        axes.plot([low, high], [row, row], color=color, lw=5, alpha=0.35, solid_capstyle="butt", zorder=2)


def _vertical_lines(axes: Axes, lines: dict[str, float], right: float) -> int:
    """Peers and the peak as vertical lines, their names above, each in the lowest row where it collides with none.

    Returns how many rows of names there are.
    """
    per_character = 5.4 / 72 / (axes.get_figure(root=True).get_size_inches()[0] * 0.68) * right
    taken = [-right] * len(lines)
    for name, value in sorted(lines.items(), key=lambda item: item[1]):
        text = f"{name} {value:.0f}"
        align = "right" if value > 0.9 * right else "center"
        width = len(text) * per_character
        begin = value - (width if align == "right" else width / 2)
        level = next((place for place, end in enumerate(taken) if end < begin))
        taken[level] = begin + width
        axes.axvline(value, color=MUTED, lw=1.2, ls="-" if name == PEAK else (0, (5, 2)), zorder=1)
        axes.annotate(
            text,
            (value, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2 if align == "right" else 0, 4 + 11 * level),
            textcoords="offset points",
            color=MUTED,
            size=9,
            ha=align,
            va="bottom",
            annotation_clip=False,
        )
    return sum(end > -right for end in taken)


def _end_labels_below(axes: Axes, ends: dict[str, float], rungs: int, right: float) -> None:
    """The languages' names under the last rung, where their lines end."""
    order = sorted(ends, key=lambda backend: ends[backend])
    for place, backend in enumerate(order):
        value = ends[backend]
        align = "center" if len(order) == 1 else "right" if place == 0 else "left"
        text = f"{LABELS[backend]} {value:.0f}"
        close = place == 1 and len(order) == 3 and ends[order[2]] - value < 0.22 * right
        axes.annotate(
            text,
            (value, rungs - 0.5),
            xytext=(-4 if align == "right" else 4, -2 - 12 * close),
            textcoords="offset points",
            color=COLORS[backend],
            weight="bold",
            size=10,
            ha=align,
            va="top",
            annotation_clip=False,
        )
    axes.tick_params(axis="x", pad=26 if len(order) > 1 else 14)


def _gains(axes: Axes, data: Dataset, experiment: str, problem: Problem, rungs: Sequence[Technique]) -> None:
    """Two columns beside the plot: what each rung buys over its parent, in CUDA and in Triton."""
    for column, backend in enumerate(("cuda", "triton")):
        place = 1.1 + 0.12 * column
        style: dict[str, Any] = {"color": COLORS[backend], "ha": "right", "va": "center", "annotation_clip": False}
        axes.annotate(f"{LABELS[backend]}\nstep", (place, 1.06), xycoords="axes fraction", size=9, **style)
        for row, rung in enumerate(rungs):
            again = data.point(experiment, problem, rung.name, backend).kind == "same_program"
            gain = data.gain(experiment, problem, rung, backend)
            text = "=" if again else f"{gain.value:.2f}×" if gain else "–"
            axes.annotate(text, (place, row), xycoords=("axes fraction", "data"), size=10, **style)


def _step_text(data: Dataset, point: Point, before: Point | None) -> str:
    if point.kind == "earlier":
        return "earlier version"
    if point.kind == "same_program":
        return "same program"
    ratio = data.ratio(point, before) if before else None
    return f"{point.tflops:.0f}" + (f"  ({ratio.value:.2f}×)" if ratio else "")


def _last(points: Sequence[Point]) -> float:
    return next((point.tflops for point in reversed(points) if point.counts and point.tflops), 0.0)


def _apart(heights: dict[str, float], gap: float) -> dict[str, float]:
    """The heights, pushed upwards as little as it takes to be `gap` apart."""
    placed: dict[str, float] = {}
    floor = float("-inf")
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = floor = max(height, floor + gap)
    return placed


def _svg(figure: Figure, name: str, embed: bool) -> str:
    """SVG text. `embed`: for a page, with live text and with colours that follow the page's light or dark theme;
    otherwise a file of its own, text as outlines on white, the same wherever it is shown."""
    buffer = io.StringIO()
    rc: dict[str, Any] = {"svg.hashsalt": name, "svg.fonttype": "none" if embed else "path"}
    with mpl.rc_context(rc):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=embed, facecolor=PAPER)
    text = buffer.getvalue()
    if not embed:
        return text
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' id="(?:figure|axes|patch|text|line2d|matplotlib\.axis|[xy]tick|\w+Collection)_\d+"', "", text)
    text = re.sub(r'<svg ([^>]*?)width="[\d.]+pt" height="[\d.]+pt"|<svg ', r'<svg role="img" \1', text, count=1)
    theme = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"} | {color: name for name, color in COLORS.items()}
    for color, variable in theme.items():
        text = text.replace(color, f"var(--{variable})")
    return text


if __name__ == "__main__":
    for path in readme(ROOT / "figures"):
        print(path)
