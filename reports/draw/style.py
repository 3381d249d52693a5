"""What all figures share: one colour per language, labels at lines instead of legends, SVG of equal bytes."""

import io
import re
from functools import cache
from typing import Any

import matplotlib as mpl
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

INK, MUTED, GRID, PAPER = "#1a1d21", "#565e69", "#e3e6ea", "#ffffff"
LIBRARY, TILE, PANEL, BAD, RULE, AUTO = "#5b6470", "#d5dae0", "#f5f6f8", "#b3122f", "#c9ced5", "#8b939e"
COLORS = {"cuda": "#b84a00", "triton": "#1556c0", "triton_native": "#1556c0", "gluon": "#00796b", "tlx": "#6a1560"}
"""One hue a language. Core Triton restricted to mma.sync has an open mark."""
THEME = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    LIBRARY: "lib",
    TILE: "tile",
    PANEL: "panel",
    BAD: "bad",
    RULE: "rule",
    AUTO: "auto",
    **{color: name for name, color in COLORS.items() if name != "triton_native"},
}
"""Colour -> the variable of the page's style that it follows, in light and in dark."""
GREY: dict[str, Any] = {"facecolor": TILE, "edgecolor": MUTED, "lw": 1}
"""Of what the tile alone buys."""
MARKERS = {"cuda": "o", "triton": "s", "triton_native": "s", "gluon": "^", "tlx": "D"}

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


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Axes alone in a figure of that many inches."""
    figure, (axes,) = new_grid(1, 1, width, height)
    return figure, axes


def new_grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Several axes, row by row. `options` go to Figure.subplots."""
    import seaborn as sns  # takes a second, and most who import this module draw nothing

    sns.set_theme(context="notebook", style="whitegrid", rc=STYLE)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    sns.despine(fig=figure, left=True, bottom=True)
    return figure, list(grid.flat)


def canvas(width: int, height: int, left: int, right: int, top: int, bottom: int) -> tuple[Figure, Axes]:
    """Axes without ticks in a figure of that many pixels, with margins of that many: a unit of type is a pixel."""
    import seaborn as sns

    mpl.rcParams.update(mpl.rcParamsDefault)
    sns.set_theme(context="notebook", style="white", rc=STYLE)
    figure = Figure(figsize=(width / 72, height / 72))
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    axes = figure.add_axes(box)
    axes.set_axis_off()
    return figure, axes


TICK, LABEL, HEAD = 12, 13, 14
BEHIND: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}
"""Of a text that no line goes through."""


def width_of(text: str, size: float = LABEL, bold: bool = False) -> float:
    """Pixels that a text takes in the page's font, which is narrower than the one that is measured here."""
    return sum(_advance(letter, bold) for letter in text) * size * (0.9 if bold else 0.92)


@cache
def _advance(letter: str, bold: bool) -> float:
    """Of a letter, in sizes of the font."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(100, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance / 65536 / 100)


def write(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float] = (0, 0), **style: Any) -> float:
    """A text, the middle of its line `shift` pixels right of and below a point. Returns its width in pixels."""
    size, bold = style.get("size", LABEL), style.get("weight") == "bold"
    options = {"size": size, "va": "baseline", "color": INK, "annotation_clip": False, **style}
    axes.annotate(text, at, xytext=(shift[0], -shift[1] - 0.34 * size), textcoords="offset points", **options)
    return width_of(text, size, bold)


def to_svg(figure: Figure, name: str, *, embed: bool = True, alt: str = "", css: str = "") -> str:
    """SVG text with live letters. `embed`: for a page, with colours that follow its light or dark theme; otherwise a
    file of its own, on white. `alt` tells the finding, `css` is the class of the drawing. A unit is a pixel; where a
    drawing for a page has no class it is a point, so that its type of 9 is 12 pixels high."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=embed, facecolor=PAPER)
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' id="(?:figure|axes|patch|text|line2d|matplotlib\.axis|[xy]tick|\w+Collection)_\d+"', "", text)
    text = re.sub(r"\s*<!--.*?-->", "", text)
    about = (f' aria-label="{escape(alt)}"' if alt else "") + (f' class="{css}"' if css else "")
    unit = 1.0 if css or not embed else 4 / 3

    def sized(found: re.Match[str]) -> str:
        width, height = (f"{unit * float(found[side]):.6g}" for side in (2, 3))
        return f'<svg role="img"{about} width="{width}" height="{height}" {found[1]}'

    text = re.sub(r'<svg ([^>]*?)width="([\d.]+)pt" height="([\d.]+)pt"', sized, text, count=1)
    if not embed:
        drawn = f"<!-- drawn by matplotlib {mpl.__version__} -->\n"
        return drawn + text.replace("'DejaVu Sans'", "Arial, 'Liberation Sans', Helvetica")
    for color, variable in THEME.items():
        text = text.replace(color, f"var(--{variable})")
    return text
