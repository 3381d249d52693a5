"""Limits of attention on one multiprocessor, as bars of the tensor cores' rate."""

from __future__ import annotations

from collections.abc import Sequence

from harness.catalog.roofs import PEAK
from reports.draw.style import COLORS, GRID, HEAD, INK, MUTED, PAPER, TICK, canvas, to_svg, write
from reports.facts.roofs import Limit

WIDTH = 358


def limits(head_dim: int, found: Sequence[Limit]) -> str:
    """FLOP of a multiprocessor and clock: filled what was measured, open what follows from rates."""
    row, left = 24, 168
    height = 26 + row * len(found) + 40
    figure, axes = canvas(WIDTH, height, left, 44, 0, 0)
    axes.set(xlim=(0, PEAK), ylim=(height, 0))
    write(axes, f"head_dim {head_dim}", (0, 11), (-left, 0), size=HEAD, weight="bold")
    bottom = height - 40
    for tick in range(0, PEAK + 1, PEAK // 4):
        axes.plot([tick, tick], [26, bottom], color=GRID if 0 < tick < PEAK else MUTED, lw=1, zorder=0)
        write(axes, str(tick), (tick, bottom + 12), size=TICK, color=MUTED, ha="center")
    write(axes, "FLOP per clock and multiprocessor", (PEAK / 2, bottom + 29), size=TICK, color=MUTED, ha="center")
    for place, limit in enumerate(found):
        y = 26 + row * (place + 0.5)
        write(axes, limit.label, (0, y), (-8, 0), ha="right", size=TICK)
        if limit.measured:
            axes.barh(y, limit.flop, 14, color=COLORS["cuda"], lw=0)
        else:
            axes.barh(y, limit.flop, 14, facecolor=PAPER, edgecolor=INK, lw=1)
        write(axes, f"{100 * limit.share:.0f}%", (limit.flop, y), (6, 0), size=TICK, weight="bold")
    told = ", ".join(f"{limit.label} {100 * limit.share:.0f}%" for limit in found)
    return to_svg(figure, f"roofs {head_dim}", alt=f"head_dim {head_dim}, of the tensor peak: {told}", css="s")
