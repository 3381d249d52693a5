"""The best of each language and library as ranked bars, a panel for each class of tensor-core instructions."""

from matplotlib.axes import Axes

from reports.draw.style import COLORS, HEAD, INK, LIBRARY, MARKERS, MUTED, PANEL, PAPER, TICK, canvas, to_svg, write
from reports.facts.answer import Answer, Bar, printed

TITLES = {"wgmma": ("wgmma", "Hopper’s instruction"), "mma_sync": ("mma.sync", "Ampere’s, on the same GPU")}
ROWS = {"wgmma": (24, 15), "mma_sync": (18, 8)}
"""Panel -> pixels of a bar's line, and of the bar. The limits of an answer name its panels."""
HEADING, LIMIT, GAP, FOOT = 24, 16, 8, 28
"""LIMIT: below a heading on a phone, for what the line of a limit says."""
WIDE, NARROW = 520, 358
LEFT, RIGHT, COLUMN, NUMBER = 130, 44, 40, 38
"""Pixels of the labels, of the column of shares, of the column of speeds on a phone, of a speed beside its bar."""


def bars(found: Answer, width: int = WIDE) -> str:
    """SVG. `width`: WIDE or NARROW."""
    narrow = width == NARROW
    right = RIGHT + COLUMN * narrow
    figure, axes = canvas(width, height_of(found, narrow=narrow), LEFT, right, 0, 0)
    draw(axes, found, width - LEFT - right, narrow=narrow)
    return to_svg(figure, f"bars {width} {found.problem.slug}", alt=in_words(found), css="n" if narrow else "w")


def height_of(found: Answer, *, narrow: bool = False) -> int:
    """Pixels of both panels."""
    rows = {panel: ROWS[panel][0] * len(found.of(panel)) for panel in found.limits}
    return FOOT + sum(_heading(found, panel, narrow=narrow) + high + GAP for panel, high in rows.items())


def _heading(found: Answer, panel: str, *, narrow: bool) -> int:
    return HEADING + (LIMIT if narrow and found.limits[panel] else 0)


def draw(axes: Axes, found: Answer, width: int, *, narrow: bool = False) -> None:
    """Into axes of `width` pixels, as high as `height_of` says. On a phone speeds have a column of their own."""
    right = RIGHT + COLUMN * narrow
    height = height_of(found, narrow=narrow)
    lengths = (bar.length or bar.earlier or 0 for bar in found.bars)
    top = 1.04 * max([*filter(None, found.limits.values()), *lengths], default=1)
    axes.set(xlim=(0, top), ylim=(height, 0))
    y = 0.0
    for panel in found.limits:
        row, thick = ROWS[panel]
        start = y + _heading(found, panel, narrow=narrow)
        name, meaning = TITLES[panel]
        wide = write(axes, name, (0, y + 12), (-LEFT, 0), size=HEAD, weight="bold")
        write(axes, meaning, (0, y + 12), (-LEFT + wide + 8, 0), size=TICK, color=MUTED)
        write(axes, "of best", (top, y + 12), (right, 0), size=TICK, color=MUTED, ha="right")
        y = start
        for bar in found.of(panel):
            middle = y + row / 2
            _bar(axes, bar, middle, thick, top / width, narrow=narrow)
            if bar.tflops:
                _speed(axes, bar, found.limits[panel], (top, middle), top / width, narrow=narrow)
            if share := found.share(bar):
                write(axes, printed(share), (top, middle), (right, 0), ha="right")
            y += row
        axes.plot([0, 0], [start, y], color=INK, lw=1)
        if limit := found.limits[panel]:
            axes.plot([limit, limit], [start, y], color=INK, lw=1.8, ls=(0, (1, 1.5)))
            clock = found.clocks[panel]
            text = f"limit {limit:.0f}{f' at the first bar’s {clock:.2f} GHz' if clock else f' of {name}'}"
            write(axes, text, (limit, start - (9 if narrow else 12)), (4, 0), size=TICK, color=MUTED, ha="right")
        y += GAP
    for tick in range(0, int(top) + 1, 400 if narrow else 200):
        axes.plot([tick, tick], [y, y + 4], color=MUTED, lw=1)
        write(axes, str(tick), (tick, y + 14), size=TICK, color=MUTED, ha="center")
    axes.plot([0, top], [y, y], color=MUTED, lw=1)
    write(axes, "TFLOPS", (0, y + 14), (-14, 0), size=TICK, color=MUTED, ha="right")


def in_words(found: Answer) -> str:
    parts = []
    for panel in found.limits:
        told = ", ".join(f"{bar.label} {bar.tflops:.0f}" for bar in found.of(panel) if bar.tflops)
        earlier = ", ".join(f"{bar.label} {bar.earlier:.0f}" for bar in found.of(panel) if bar.earlier)
        missing = ", ".join(bar.label for bar in found.of(panel) if not bar.tflops and not bar.earlier)
        before, yet = earlier and f"; in an earlier version: {earlier}", missing and f"; not measured yet: {missing}"
        parts.append(f"{TITLES[panel][0]}: {told or 'nothing'}{before}{yet}")
    return f"TFLOPS with {'. With '.join(parts)}."


def _bar(axes: Axes, bar: Bar, y: float, thick: int, pixel: float, *, narrow: bool) -> None:
    color = LIBRARY if bar.is_library else COLORS[bar.backend]
    mark, face = MARKERS.get(bar.backend, "o"), PAPER if bar.is_library else color
    axes.plot([(8 - LEFT) * pixel], [y], mark, ms=7, color=color, mfc=face, mew=1.3, clip_on=False)
    write(axes, bar.label, (0, y), (20 - LEFT, 0))
    if bar.length is None:  # words at the axis, where no line of a limit is
        what = "not measured yet"
        if bar.earlier:
            what = f"{bar.earlier:.0f}, earlier{'' if narrow else ' version'}"
            axes.barh(y, bar.earlier, max(thick, 14), facecolor=PANEL, edgecolor=MUTED, ls=(0, (3, 3)), lw=1)
        write(axes, what, (0, y), (6, 0), size=TICK, color=MUTED)
        return
    if bar.is_library:
        axes.barh(y, bar.length, thick, facecolor=PAPER, edgecolor=LIBRARY, lw=1.5)
    else:
        axes.barh(y, bar.length, thick, color=color, lw=0)


def _speed(axes: Axes, bar: Bar, limit: float | None, end: tuple[float, float], pixel: float, *, narrow: bool) -> None:
    """Right of the bar, or in it where the limit's line would cross the number. `end`: the right end of the row."""
    length = bar.length or 0
    place, offset, color, side = (length, end[1]), 6, INK, "left"
    if narrow:
        place, offset, side = end, COLUMN, "right"
    elif limit and 0 < limit - length < NUMBER * pixel:
        offset, color, side = -6, INK if bar.is_library else PAPER, "right"
    write(axes, f"{bar.tflops:.0f}", place, (offset, 0), color=color, weight="bold", ha=side)
