"""Gain of each step of an article's ladder, there and here."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from harness.operators.attention.articles import Article
from reports.data.names import label
from reports.draw.style import COLORS, MARKERS, MUTED, WIDTH, new_grid, to_svg
from reports.pages.attention.published import LANGUAGES, Line

TICKS = {False: (0.5, 0.7, 1, 1.5, 2, 3, 5), True: (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)}
"""Gains that the axis names, where it is long in the last ones."""


def gains_figure(lines: Sequence[Line], article: Article) -> str | None:
    """Gain per step on a logarithmic axis: the article's, CUDA's and Triton's; None when nothing was measured."""
    drawn = [line for line in lines if any(line.here[backend].gain for backend in LANGUAGES)]
    if not drawn:
        return None
    height = 0.9 + 0.42 * len(drawn)
    figure, (axes, columns) = new_grid(1, 2, WIDTH, height, sharey=True, width_ratios=(4, 3))
    axes.axvline(1, color=MUTED, lw=1.2, zorder=1)
    seen = [1.0]
    article_has_gains = any(line.printed_gain for line in drawn)
    for column, name in enumerate(("article", *LANGUAGES) if article_has_gains else LANGUAGES):
        color = COLORS.get(name, MUTED)
        style: dict[str, Any] = {"color": color, "ha": "right", "va": "center", "size": 9}
        columns.text(column + 1, -1, label(name) if name in LANGUAGES else name, **style)
        for row, line in enumerate(drawn):
            ratio = line.here[name].as_printed if name in LANGUAGES else None
            value = ratio.value if ratio else line.printed_gain if name == "article" else None
            text = f"{value:.2f}×" if value else "–"
            columns.text(column + 1, row, text, **style)
            if value:
                seen.append(value)
                marker, size, edge = (MARKERS[name], 7, 1.0) if name in LANGUAGES else ("|", 15, 3.0)
                axes.plot([value], [row], marker, ms=size, mew=edge, color=color, zorder=3)
    axes.set_xscale("log")
    low, high = min(seen) / 1.15, max(seen) * 1.15
    ticks = [tick for tick in TICKS[high / low > 6] if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlim=(low, high), xlabel="gain of the step, logarithmic", ylabel="")
    axes.set_yticks(range(len(drawn)), [fill(line.step.name, 18) for line in drawn])
    axes.tick_params(axis="y", labelsize=9)
    axes.grid(visible=False, axis="y")
    columns.set(xlim=(0, 3), ylim=(len(drawn) - 0.5, -1.5))
    columns.set_axis_off()
    return to_svg(figure, f"gains {article.name}")
