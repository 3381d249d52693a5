"""How far each kernel errs, as shades: a row for each technique, a column for each kind of problem, a block for each
language."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from reports.data.names import LABELS
from reports.draw.style import BAD, COLORS, MUTED, TICK, canvas, to_svg, write

WIDE, NARROW = 860, 358
"""Widths in pixels: on a screen, on a phone."""
ROW, TITLES, GAP, HEAD = 15, {WIDE: 230, NARROW: 206}, 16, 56
"""Pixels of a row, of the column of titles by the drawing's width, between blocks, above a block."""
STEPS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, math.inf)
"""Errors over the yardstick that end a shade."""


Cell = tuple[str, int, bool, str]
"""dtype, head_dim, causal, layout."""


@dataclass(frozen=True)
class Block:
    """One language's part of a picture. `errors`: technique -> cell -> the largest error over the yardstick; infinite
    where the gate failed, None where it was not asked or the kernel declines."""

    backend: str
    cells: list[Cell]
    titles: list[str]
    errors: list[list[float | None]]


def heatmap(blocks: Sequence[Block], width: int, alt: str) -> str:
    """Blocks beside each other, over one list of techniques; on a phone below each other, each with its own."""
    left = TITLES[width]
    if width == NARROW:
        rows = [_shown(block) for block in blocks]
        wide = (width - left - 2) / len(blocks[0].cells)
    else:
        rows = [list(range(len(block.titles))) for block in blocks]
        wide = (width - left - GAP * len(blocks)) / sum(len(block.cells) for block in blocks)
    heights = [HEAD + ROW * len(shown) + GAP for shown in rows]
    end = sum(heights) if width == NARROW else heights[0]
    figure, axes = canvas(width, end + HEAD, left, 0, 0, 0)
    axes.set(xlim=(0, width - left), ylim=(end + HEAD, 0))
    for place, (block, shown) in enumerate(zip(blocks, rows, strict=True)):
        beside = place * (wide * len(block.cells) + GAP)
        x, y = (0.0, sum(heights[:place])) if width == NARROW else (beside, 0)
        _block(axes, block, shown, x, y + HEAD, wide, titled=not x)
    _legend(axes, end, left)
    return to_svg(figure, f"errors {alt} {width}", alt=alt, css="n" if width == NARROW else "w")


def _shown(block: Block) -> list[int]:
    """The rows that have a verdict."""
    return [place for place, errors in enumerate(block.errors) if any(error is not None for error in errors)]


def _block(axes: Axes, block: Block, rows: Sequence[int], x: float, top: float, wide: float, *, titled: bool) -> None:
    """`titled`: the titles do not stand beside another block already."""
    color = COLORS[block.backend]
    write(axes, LABELS[block.backend], (x, top - 46), size=TICK, weight="bold", color=color)
    for level, parts in ((28, 1), (12, 2)):  # the dtype, below it head_dim
        at = 0
        for kind, group in groupby(cell[:parts] for cell in block.cells):
            write(axes, str(kind[-1]), (x + wide * at, top - level), size=TICK, color=MUTED)
            at += len(list(group))
    if titled:
        for place, row in enumerate(rows):
            write(axes, block.titles[row], (x, top + ROW * (place + 0.5)), (-8, 0), size=TICK, ha="right")
    boxes: dict[int | None, list[tuple[float, float]]] = {}
    for place, row in enumerate(rows):
        for column, error in enumerate(block.errors[row]):
            if error is not None:
                boxes.setdefault(_step(error), []).append((x + wide * column, top + ROW * place))
    for step, corners in sorted(boxes.items(), key=str):
        _fill(axes, corners, wide, step)


def _step(error: float) -> int | None:
    """Its shade; None: it failed."""
    return None if math.isinf(error) else next(place for place, end in enumerate(STEPS) if error <= end)


def _fill(axes: Axes, corners: Iterable[tuple[float, float]], wide: float, step: int | None) -> None:
    """Boxes of one shade, as one path."""
    vertices, codes = [], []
    for x, y in corners:
        right, low = x + wide - 1, y + ROW - 1
        vertices += [(x, y), (right, y), (right, low), (x, low), (x, y)]
        codes += [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    alpha = 1.0 if step is None else (step + 1) / len(STEPS)
    color = BAD if step is None else MUTED
    axes.add_patch(PathPatch(Path(vertices, codes), facecolor=color, alpha=alpha, lw=0, clip_on=False))


def _legend(axes: Axes, y: float, left: int) -> None:
    """What each shade ends at."""
    each = 38
    start = 8.0 - left
    write(axes, "error over that of a careful 16-bit computation, up to", (start, y + 8), size=TICK, color=MUTED)
    for step, end in enumerate(STEPS):
        x = start + each * step
        _fill(axes, [(x, y + 18)], each, step)
        text = "more" if math.isinf(end) else f"{end:g}"
        write(axes, text, (x + each / 2, y + 18 + ROW + 9), size=TICK, color=MUTED, ha="center")
