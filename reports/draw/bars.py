"""The best of each language and library as bars, a panel for each class of tensor-core instructions."""

from __future__ import annotations

from matplotlib.axes import Axes

from reports.draw.style import (
    COLORS,
    GRID,
    HEAD,
    INK,
    LIBRARY,
    MUTED,
    PANEL,
    PAPER,
    RULE,
    TICK,
    canvas,
    to_svg,
    width_of,
    write,
)
from reports.facts.answer import INSTRUCTION, PANELS, Answer, Bar

MEANING = {"mma_sync": "a warp at a time: Ampere’s way", "wgmma": "four warps at a time: Hopper’s way"}
NOT_YET = "not measured yet"
WIDE, NARROW = 520, 358
"""Widths in pixels: beside the matrix, on a phone."""


def bars(found: Answer, width: int = WIDE) -> str:
    """For a page, `width` pixels wide."""
    narrow = width == NARROW
    left, height = margin(narrow), height_of(found, narrow)
    figure, axes = canvas(width, height, left, 8, 0, 0)
    draw(axes, found, width - left - 8, narrow=narrow)
    return to_svg(figure, f"bars {width} {found.problem.slug}", alt=finding(found), css="n" if narrow else "w")


def margin(narrow: bool) -> int:
    """Pixels left of the axes, for the labels."""
    return 112 if narrow else 138


def height_of(found: Answer, narrow: bool) -> int:
    """Pixels of the bars of both panels."""
    row, head, gap = _sizes(narrow)
    return sum(head + row * _count(found, panel) for panel in PANELS) + gap + 20


def draw(axes: Axes, found: Answer, width: int, *, narrow: bool) -> None:
    """Into axes that are `width` pixels wide and as high as `height_of` says."""
    row, head, gap = _sizes(narrow)
    height, left = height_of(found, narrow), margin(narrow)
    limit = max(filter(None, found.limits.values()), default=0)
    top = 1.06 * max(limit, *(bar.tflops or 0 for bar in found.bars))
    axes.set(xlim=(0, top), ylim=(height, 0))
    pixel = top / width
    for tick in range(0, int(top) + 1, 250):
        axes.plot([tick, tick], [head, height - 20], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, str(tick), (tick, height - 9), size=TICK, color=MUTED, ha="center")
    write(axes, "TFLOPS", (0, height - 9), (-8 if narrow else -14, 0), size=TICK, color=MUTED, ha="right")
    y = 0.0
    for panel in PANELS:
        _head(axes, panel, y + head / 2, left, narrow)
        y += head
        start = y
        for bar in (bar for bar in found.bars if bar.panel == panel):
            _bar(axes, bar, y + row / 2, 14 if narrow else 19, pixel, _note(bar, found, narrow))
            y += row
        _limit(axes, found.limits[panel], (start, y), row, head, narrow)
        y += gap


def finding(found: Answer) -> str:
    """The bars in words."""
    parts = []
    for panel in PANELS:
        here = [bar for bar in found.bars if bar.panel == panel]
        told = ", ".join(f"{bar.label} {bar.tflops:.0f}" for bar in here if bar.tflops)
        missing = ", ".join(bar.label for bar in here if not bar.tflops)
        parts.append(
            f"{INSTRUCTION[panel]}: {told or 'nothing'}" + (f"; not measured yet: {missing}" if missing else "")
        )
    return "TFLOPS with " + ". With ".join(parts) + "."


def _sizes(narrow: bool) -> tuple[int, int, int]:
    """Pixels of a bar's line, of a panel's head, and between panels."""
    return (26, 20, 6) if narrow else (34, 22, 10)


def _count(found: Answer, panel: str) -> int:
    return sum(bar.panel == panel for bar in found.bars)


def _head(axes: Axes, panel: str, y: float, left: int, narrow: bool) -> None:
    wide = write(axes, INSTRUCTION[panel], (0, y), (-left, 0), size=HEAD, weight="bold")
    text = MEANING[panel].partition(":")[0] if narrow else MEANING[panel]
    write(axes, text, (0, y), (-left + wide + 9, 0), size=TICK, color=MUTED)


def _bar(axes: Axes, bar: Bar, y: float, thick: float, pixel: float, note: str) -> None:
    write(axes, bar.label, (0, y), (-8, 0), ha="right")
    if bar.tflops is None:
        not_yet(axes, 0, 88 * pixel, y, thick)
        return
    if bar.is_library:
        axes.barh(y, bar.tflops, thick, facecolor=PAPER, edgecolor=LIBRARY, lw=1.5)
    else:
        axes.barh(y, bar.tflops, thick, color=COLORS[bar.backend], lw=0)
    low, high = bar.whisker or (bar.tflops, bar.tflops)
    if (high - low) / pixel >= 3:
        axes.plot([low, high], [y, y], color=INK, lw=1.6, solid_capstyle="butt")
    end = max(bar.tflops, high)
    number = f"{bar.tflops:.0f}"
    wide = write(axes, number, (end, y), (6, 0), weight="bold")
    if note and bar.tflops / pixel > 12 + width_of(note, TICK, False):
        write(axes, note, (0, y), (8, 0), size=TICK, color=MUTED if bar.is_library else PAPER)
    elif note:
        write(axes, note, (end, y), (6 + wide + 7, 0), size=TICK, color=MUTED)


def not_yet(axes: Axes, left: float, wide: float, y: float, thick: float) -> None:
    """A hatched bar in the place of one that nobody has measured."""
    axes.barh(y, wide, thick, left=left, facecolor=PANEL, edgecolor=RULE, hatch="////", lw=0)
    axes.barh(y, wide, thick, left=left, facecolor="none", edgecolor=MUTED, ls=(0, (3, 3)), lw=1)
    write(axes, NOT_YET, (left + wide, y), (6, 0), size=TICK, color=MUTED)


def _note(bar: Bar, found: Answer, narrow: bool) -> str:
    text = _of_bar(bar, found, narrow)
    unlike = found.unlike(bar)
    return f"{text}, tiles {unlike[0]}/{unlike[1]}" if unlike and text and not narrow else text


def _of_bar(bar: Bar, found: Answer, narrow: bool) -> str:
    if (bar.panel, bar.backend) == ("mma_sync", "triton") and found.same_instructions:
        return f"{found.same_instructions.value:.2f}× CUDA"
    if bar.backend == "gluon" and (ratio := found.gluon_over_cuda[bar.panel]):
        return f"{ratio.value:.2f}× CUDA"
    if bar is found.triton and found.over_cuda and found.cuda.panel != bar.panel:
        return f"{found.over_cuda.value:.2f}× CUDA" + ("" if narrow else " above")
    if bar is found.triton and found.over_cuda:
        return f"{found.over_cuda.value:.2f}× CUDA"
    if bar.point.row and (version := bar.point.row["backend"].partition("@")[2]):
        return f"Triton {version}"
    if bar.backend == "flex" and bar.tflops and not narrow:
        return "runs on Triton"
    if bar is found.library and found.over_library and not narrow:
        return f"Triton: {found.over_library.value:.2f}×"
    return ""


def _limit(axes: Axes, limit: float | None, span: tuple[float, float], row: int, head: int, narrow: bool) -> None:
    """A dotted line at what the tensor cores can do, its number in the panel's head; or that nobody has measured it."""
    if limit is None:
        right = axes.get_xlim()[1]
        place = span[0] + row * (3.5 if narrow else 0.5)
        write(axes, f"limit {NOT_YET}", (right, place), size=TICK, color=MUTED, ha="right")
        return
    axes.plot([limit, limit], [span[0] - 2, span[1]], color=INK, lw=2, ls=(0, (1, 1.5)))
    write(axes, f"limit {limit:.0f}", (limit, span[0] - head / 2), size=TICK, color=MUTED, ha="right")
