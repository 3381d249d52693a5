"""What each step buys, as bars from the value before to the value after, both languages on one axis of TFLOPS.

Full colour: the technique alone. Grey: the tile alone. Upper half colour, lower half grey: both at once. Outlined: a
loss. A stub: the compiler made the parent's program.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reports.data.titles import title
from reports.draw.bars import not_yet
from reports.draw.style import (
    BAD,
    COLORS,
    GREY,
    GRID,
    HEAD,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    TICK,
    TILE,
    canvas,
    to_svg,
    width_of,
    write,
)
from reports.facts.answer import Bar
from reports.facts.steps import SINGLE, Chain, Step

WIDE, NARROW = 1296, 358
HEADS = {"cuda": "CUDA, mma.sync", "triton": "core Triton, mma.sync"}


class _Columns:
    """Where things are: x of the first column in TFLOPS, the second one shifted to its right, y in pixels down."""

    def __init__(self, width: int, top: float, columns: Sequence[str]) -> None:
        self.narrow = width == NARROW
        self.row = 52 if self.narrow else 25
        self.labels = 0 if self.narrow else 236
        self.gap = 0 if self.narrow else 28
        each = width if self.narrow else (width - self.labels - self.gap) / 2
        self.pixel = top / (each - (44 if self.narrow else 60))
        self.shift = {
            name: 0 if self.narrow else place * (each + self.gap) * self.pixel for place, name in enumerate(columns)
        }
        self.each = each
        self.thick = 10 if self.narrow else 13
        self.width = width

    def middle(self, y: float, column: str) -> float:
        return y + ((24 if column == "cuda" else 38) if self.narrow else self.row / 2)


def waterfall(chains: Sequence[Chain], best: dict[str, Bar], width: int, name: str, alt: str) -> str:
    """`best`: language -> its best with wgmma, drawn below the first chain, hatched where it was not measured."""
    columns = list(chains[0].columns)
    reached = [step.after or 0 for chain in chains for steps in chain.columns.values() for step in steps]
    top = max([*reached, *(bar.tflops or 0 for bar in best.values())])
    at = _Columns(width, top, columns)
    extra = sum(34 for chain in chains if chain.heading)
    height = round(
        (0 if at.narrow else 24) + at.row * (sum(len(chain.techniques) for chain in chains) + 1) + extra + 6 + 24
    )
    figure, axes = canvas(width, height, at.labels, 0, 0, 0)
    axes.set(xlim=(0, (width - at.labels) * at.pixel), ylim=(height, 0))
    y = 0.0
    if not at.narrow:
        for column in columns:
            x = at.shift[column]
            axes.plot([x + 6 * at.pixel], [10], MARKERS[column], ms=9, color=COLORS[column], clip_on=False)
            write(axes, HEADS[column], (x, 10), (17, 0), size=HEAD, weight="bold")
        y = 24
    bottom = height - 24
    _grid(axes, at, columns, y, bottom, top)
    for chain in chains:
        if chain.heading:
            y += 34
            heading = chain.heading
            if width_of(heading, HEAD, bold=True) > width:
                heading = heading.partition(", each")[0].replace("Side branch from", "From")
            write(axes, heading, (0, y - 11), (-at.labels, 0), size=HEAD, weight="bold")
        for place, technique in enumerate(chain.techniques):
            _label(axes, at, title(technique.name), y)
            for column in columns:
                steps = chain.columns[column]
                follows = chain.heading != SINGLE and place + 1 < len(steps)
                _step(axes, at, steps[place], column, y, follows)
            y += at.row
        if chain is chains[0]:
            y += 6
            _label(axes, at, "Best with wgmma instead", y)
            for column in columns:
                _best(axes, at, best[column], column, at.middle(y, column))
            y += at.row
    _bracket(axes, at, chains[0], 0 if at.narrow else 24)
    return to_svg(figure, f"waterfall {name} {width}", alt=alt, css="n" if at.narrow else "w")


def _grid(axes: Axes, at: _Columns, columns: Sequence[str], y: float, bottom: float, top: float) -> None:
    for column in columns[:1] if at.narrow else columns:
        for tick in range(0, int(top) + 1, 100):
            x = at.shift[column] + tick
            axes.plot([x, x], [y, bottom], color=GRID if tick else MUTED, lw=1, zorder=0)
            if not at.narrow or tick % 200 == 0:
                write(axes, f"{tick}", (x, bottom + 12), size=TICK, color=MUTED, ha="center" if tick else "left")
        last = at.shift[column] + int(top) // 100 * 100
        write(axes, "TFLOPS", (last, bottom + 12), (16, 0), size=TICK, color=MUTED)


def _label(axes: Axes, at: _Columns, text: str, y: float) -> None:
    line = y + at.row - (1 if at.narrow else 0)
    axes.plot(
        [-at.labels * at.pixel, (at.width - at.labels) * at.pixel],
        [line, line],
        color=GRID,
        lw=1,
        zorder=0,
        clip_on=False,
    )
    if at.narrow:
        write(axes, text, (0, y + 10))
    else:
        write(axes, text, (0, y + at.row / 2), (-12, 0), ha="right")


def _step(axes: Axes, at: _Columns, step: Step, column: str, y: float, follows: bool) -> None:
    x, middle, color = at.shift[column], at.middle(y, column), COLORS[column]
    if step.after is None:
        write(axes, "no number", (x + (step.before or 0), middle), (6, 0), size=TICK, color=MUTED)
        return
    if step.kind == "same":
        end = step.before or step.after
        half = at.thick / 2
        axes.plot([x + end, x + end], [middle - half, middle + half], color=color, lw=3, solid_capstyle="butt")
        text = "same program" + (f", {step.note}" if step.note and not at.narrow else "")
        write(axes, text, (x + end, middle), (6, 0), size=TICK, color=MUTED)
        return
    before = step.before or 0
    if step.between and step.kind == "both":
        _bar(axes, at, x, step.between, step.after, middle, color)
        low, wide = min(before, step.between), abs(before - step.between)
        axes.barh(middle + at.thick / 4, wide, at.thick / 2, left=x + low, **GREY)
    elif step.kind in ("tile", "dropped"):
        _bar(axes, at, x, before, step.after, middle, TILE, tile=True)
    else:
        _bar(axes, at, x, before, step.after, middle, color, half=step.kind == "both")
    high = max(before, step.after, step.between or 0)
    if follows and not at.narrow:
        ends = [x + step.after] * 2
        axes.plot(ends, [middle + at.thick / 2, middle + at.row - at.thick / 2], color=MUTED, lw=1, zorder=1)
    number = f"{step.after:.0f}" if step.after >= 9.5 else f"{step.after:.1f}"
    wide = write(axes, number, (x + high, middle), (6, 0), weight="bold") + 13
    if step.ratio:
        value = step.ratio.value
        told = f"×{value:.2f}" if value < 9.95 else f"×{value:.0f}"
        wide += write(axes, told, (x + high, middle), (wide, 0), size=TICK, color=MUTED) + 9
    if step.note and not at.narrow:
        text = _fitting(step.note, at.each - high / at.pixel - wide)
        write(axes, text, (x + high, middle), (wide, 0), size=TICK, color=BAD)


def _fitting(text: str, room: float) -> str:
    """The whole text, or what stands before its colon where only that fits."""
    return text if width_of(text, TICK) <= room else text.partition(":")[0]


def _bar(
    axes: Axes,
    at: _Columns,
    x: float,
    before: float,
    after: float,
    y: float,
    color: str,
    *,
    half: bool = False,
    tile: bool = False,
) -> None:
    low, wide = min(before, after), max(abs(after - before), 1.5 * at.pixel)
    if tile:
        axes.barh(y, wide, at.thick, left=x + low, **GREY)
        return
    if after < before:
        axes.barh(y, wide, at.thick - 2, left=x + low, facecolor=PAPER, edgecolor=color, lw=2)
    else:
        axes.barh(y, wide, at.thick, left=x + low, facecolor=color, lw=0)
    if half:
        axes.barh(y + at.thick / 4, wide, at.thick / 2, left=x + low, **GREY)


def _best(axes: Axes, at: _Columns, bar: Bar, column: str, y: float) -> None:
    x = at.shift[column]
    if bar.tflops is None:
        not_yet(axes, x, 120 * at.pixel, y, at.thick)
        return
    axes.barh(y, bar.tflops, at.thick, left=x, facecolor=COLORS[column], lw=0)
    write(axes, f"{bar.tflops:.0f}", (x + bar.tflops, y), (6, 0), weight="bold")


def _bracket(axes: Axes, at: _Columns, chain: Chain, start: float) -> None:
    """Beside the techniques that one word of core Triton brings at once."""
    found = brought_at_once(chain)
    if not found or at.narrow:
        return
    first, last, same = found
    steps = chain.columns["triton"][first : last + 1]
    ends = [step.after or 0 for step in steps]
    room = max(ends) + 112 * at.pixel
    x, top, bottom = at.shift["triton"] + room, start + first * at.row + 4, start + (last + 1) * at.row - 4
    axes.plot([x - 6 * at.pixel, x, x, x - 6 * at.pixel], [top, top, bottom, bottom], color=COLORS["triton"], lw=2)
    lines = ["one tl.dot brings these at once:", *_wrapped([title(step.technique.name) for step in same])]
    middle = (top + bottom) / 2 - 8 * (len(lines) - 1)
    for place, text in enumerate(lines):
        write(axes, text, (x, middle + 16 * place), (9, 0), size=TICK, color=INK)


def brought_at_once(chain: Chain) -> tuple[int, int, list[Step]] | None:
    """The first and the last technique between the first product on tensor cores and the last swizzle for which core
    Triton's program is the same again, and the steps that are; None where there is no such column."""
    steps = chain.columns.get("triton", [])
    first = next((place for place, step in enumerate(steps) if step.technique.mma != "fma"), None)
    if first is None:
        return None
    last = first
    for place in range(first + 1, len(steps)):
        if steps[place].technique.tile:  # from here on the tile changes too
            break
        if steps[place].kind == "same":
            last = place
    same = [step for step in steps[first : last + 1] if step.kind == "same"]
    return (first, last, [steps[first], *same]) if same else None


def _wrapped(names: list[str]) -> list[str]:
    return [name + ("," if place < len(names) - 1 else "") for place, name in enumerate(names)]
