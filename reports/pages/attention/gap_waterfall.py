"""The ledger of a gap as a waterfall: from the best core Triton kernel up to the flagship, a bar for each term."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from matplotlib.axes import Axes

from harness.rows.ledger import Ledger, Line, percent
from harness.rows.stats import Estimate
from reports.draw import style as theme
from reports.draw.style import BEHIND, COLORS, GRID, INK, MUTED, PAPER, TICK, TILE, canvas, to_svg, write
from reports.pages.attention.ledger import cause, is_small, minus

WIDE, NARROW = 900, 358
CAUSE_COLORS = {
    "language": INK,
    "compiler": COLORS["triton"],
    "slower": theme.AUTO,
    "assembler": MUTED,
    "effort": theme.RULE,
    "unexplained": TILE,
    "both": GRID,
    "loss": theme.LIBRARY,
}
"""The cause stands in words beside each bar too. No hue of a language but Triton's, whose compiler decides, and no red,
which means impossible."""
IN_SHORT = {"language": "hatch", "assembler": "ptxas", "effort": "today", "both": "both gain"}
"""Causes as a narrow drawing names them, where that is not their key."""
STEPS, TICKS = (1, 2, 5, 10, 20, 50), 7
"""Percent between the lines of the axis, of which there are at most so many: the finest step that gives no more."""


def waterfall(one: Ledger, lines: Sequence[Line], width: int, alt: str) -> str:
    """Terms in the order of `lines`, then the remainder. The axis is of logarithms, so that bars add up: a bar of equal
    length is an equal factor. An open bar is a loss. A line goes from the smaller to the larger price of a term."""
    added = [(line, line.size) for line in lines if line.counts and line.size]
    sizes = [*(size.value for _, size in added), one.remainder.value if one.remainder else 0.0]
    places = list(pairwise(accumulate(sizes, initial=0.0)))  # where bars begin and end, the remainder's last
    ranges = [(begin, *_range(line, size)) for (line, size), (begin, _) in zip(added, places, strict=False)]
    narrow = width == NARROW
    left, row, right = (0, 44, 20) if narrow else (330, 26, 150)
    height = row * (len(added) + 2 + bool(one.remainder)) + 26
    ends = [0.0, *(end for both in places for end in both), *(begin + end for begin, *both in ranges for end in both)]
    low, high = min(ends), max(ends)
    figure, axes = canvas(width, height, left, right, 0, 0)
    axes.set(xlim=(low - 0.03 * (high - low), high + 0.02 * (high - low)), ylim=(height, 0))
    for tick in _ticks(low, high):
        x = math.log(1 + tick / 100)
        axes.plot([x, x], [0, height - 24], color=GRID, lw=1, zorder=0)
        write(axes, minus(f"{tick:+d}%"), (x, height - 12), size=TICK, color=MUTED, ha="center")

    def label(text: str, y: float, bold: bool = False) -> None:
        left_of = (0, 0) if narrow else (-8, 0)
        style = {"weight": "bold" if bold else "normal", **({"size": TICK} if narrow else {"ha": "right"})}
        write(axes, text, (axes.get_xlim()[0], y + (10 if narrow else row / 2)), left_of, bbox=BEHIND, **style)

    def middle(y: float) -> float:
        return y + (30 if narrow else row / 2)

    label("Best core Triton", 0, bold=True)
    axes.plot([0, 0], [middle(0) - 8, middle(0) + 8], color=COLORS["triton"], lw=3)
    y = float(row)
    for (line, _), (begin, end), (_, *between) in zip(added, places, ranges, strict=False):
        label(line.term.title, y)
        reached = _bar(axes, begin, end, middle(y), CAUSE_COLORS[line.cause], between)
        short = "chance" if is_small(line) else IN_SHORT.get(line.cause, line.cause)
        told = f"{percent(end - begin):+.1f}%"
        told = f"{short} {told}" if narrow else f"{told}  {cause(line)}"
        _told(axes, told, reached, middle(y), narrow)
        y += row
    if one.remainder:
        begin, end = places[-1]
        label("Remainder: what the terms leave", y)
        reached = _bar(axes, begin, end, middle(y), TILE, _interval(one.remainder))
        _told(axes, f"{percent(end - begin):+.1f}%", reached, middle(y), narrow)
        y += row
    label("Flagship", y, bold=True)
    top = places[-1][1]
    _told(axes, f"{percent(top):+.1f}%", top, middle(y), narrow)
    axes.plot([top, top], [middle(y) - 8, middle(y) + 8], color=COLORS["cuda"], lw=3)
    return to_svg(figure, f"ledger {one.problem.slug} {width}", alt=alt, css="n" if narrow else "w")


def _ticks(low: float, high: float) -> range:
    """Percent over the start."""
    first, last = (100 * math.expm1(end) for end in (low, high))
    step = next(step for step in STEPS if last // step - first // step <= TICKS)
    return range(math.ceil(first / step) * step, math.floor(last / step) * step + 1, step)


def _range(line: Line, size: Estimate) -> Sequence[float]:
    """The smaller and the larger price; of one price its interval, where it has one."""
    prices = [price.value for price in line.prices]
    return (min(prices), max(prices)) if len(prices) > 1 else _interval(size)


def _interval(size: Estimate) -> Sequence[float]:
    found = size.interval
    return (math.log(found.low), math.log(found.high)) if found.low and found.high else ()


def _bar(axes: Axes, begin: float, end: float, y: float, color: str, between: Sequence[float]) -> float:
    """Draws a bar and a line over what its length may be; returns how far to the right they reach."""
    if end < begin:
        axes.barh(y, begin - end, 11, left=end, facecolor=PAPER, edgecolor=color, lw=2)
    else:
        axes.barh(y, end - begin, 13, left=begin, facecolor=color, lw=0)
    line = [begin + one for one in between]
    axes.plot(line, [y] * len(line), color=INK, lw=1.5, zorder=2)
    return max(begin, end, *line)


def _told(axes: Axes, text: str, x: float, y: float, narrow: bool) -> None:
    """Beside the bar; where the drawing is narrow above it, at the right. No line of the axis goes through it."""
    where, shift = ((axes.get_xlim()[1], y - 20), (0, 0)) if narrow else ((x, y), (10, 0))
    style = {"ha": "right", "weight": "bold"} if narrow else {}
    write(axes, minus(text), where, shift, size=TICK, bbox=BEHIND, **style)
