"""What all figures share: one colour per language, labels at lines instead of legends, SVG of equal bytes."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.dataset import Point, quartiles

INK, MUTED, GRID, PAPER = "#1b1f24", "#66707c", "#e3e7ec", "#ffffff"
COLORS = {"cuda": "#1a8754", "triton": "#2456d6", "triton_native": "#6a9fe0", "gluon": "#9a3fb5"}
MARKERS = {"cuda": "o", "triton": "s", "triton_native": "D", "gluon": "^"}
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


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure, (axes,) = new_grid(1, 1, width, height)
    return figure, axes


def new_grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Several axes, row by row. `options` go to Figure.subplots."""
    sns.set_theme(context="notebook", style="whitegrid", rc=STYLE)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    sns.despine(fig=figure, left=True, bottom=True)
    return figure, list(grid.flat)


def whisker(axes: Axes, point: Point, row: float, color: str) -> None:
    if point.row:
        low, _, high = quartiles(point.row)
        axes.plot([low, high], [row, row], color=color, lw=5, alpha=0.35, solid_capstyle="butt", zorder=2)


def vertical_lines(axes: Axes, lines: dict[str, float], right: float) -> int:
    """Peers and the peak as vertical lines, their names above, each in the lowest row where it collides with none.

    Returns how many rows of names there are.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    per_character = 6 / 72 / (figure.get_size_inches()[0] * 0.66) * right
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


LETTER = 0.031
"""Width of a letter of an end label, in widths of the axes."""


def end_labels_below(axes: Axes, ends: dict[str, tuple[float, str]], rungs: int, right: float) -> None:
    """The languages' names under the last rung, where their lines end: {backend: (value, what to add)}."""
    order = sorted(ends, key=lambda backend: ends[backend])
    for place, backend in enumerate(order):
        value, more = ends[backend]
        align = "center" if len(order) == 1 else "right" if place == 0 else "left"
        text = f"{LABELS[backend]} {value:.0f}{more}"
        close = place == 1 and len(order) == 3 and ends[order[2]][0] - value < LETTER * len(text) * right
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


def end_label_beside(axes: Axes, backend: str, value: float, row: int) -> None:
    """A series' name at a rung that is not the last: below the point, to its left."""
    axes.annotate(
        LABELS[backend],
        (value, row),
        xytext=(-12, -9),
        textcoords="offset points",
        color=COLORS[backend],
        weight="bold",
        size=10,
        ha="right",
        va="center",
    )


def apart(heights: dict[str, float], gap: float) -> dict[str, float]:
    """The heights, pushed upwards as little as it takes to be `gap` apart."""
    placed: dict[str, float] = {}
    floor = float("-inf")
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = floor = max(height, floor + gap)
    return placed


def to_svg(figure: Figure, name: str, embed: bool) -> str:
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
