"""The share of the tensor cores' peak against the share of the GPU's time that tiles fill."""

from __future__ import annotations

from collections.abc import Sequence

from reports.data.names import LABELS
from reports.draw.style import COLORS, GRID, HEAD, MARKERS, MUTED, PAPER, TICK, apart, canvas, to_svg, write
from reports.facts.filling import HeadDim

WIDTH, HEIGHT = 340, 320


def panel(found: Sequence[HeadDim]) -> str:
    """Of one head dimension, a line for each language, and on it a mark for each problem, open for causal."""
    head_dim = found[0].head_dim
    figure, axes = canvas(WIDTH, HEIGHT, 44, 84, 30, 44)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    write(axes, f"head_dim {head_dim}", (0, 1), (-44, -20), size=HEAD, weight="bold")
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        axes.plot([0, 1], [tick, tick], color=GRID if tick else MUTED, lw=1, zorder=0)
        axes.plot([tick, tick], [0, 1], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, f"{100 * tick:.0f}%", (0, tick), (-8, 0), size=TICK, color=MUTED, ha="right")
        write(axes, f"{100 * tick:.0f}%", (tick, 0), (0, 14), size=TICK, color=MUTED, ha="center")
    write(axes, "of the GPU’s time is filled", (0.5, 0), (0, 32), size=TICK, color=MUTED, ha="center")
    places = apart({one.series: one.rate for one in found}, 0.075)
    for one in found:
        color = COLORS[one.series]
        axes.plot([0, 1], [0, one.rate], color=color, lw=1.4, zorder=1)
        for line in one.cells:
            face = PAPER if line.cell.problem.causal else color
            axes.plot(
                [line.share], [line.cell.share], MARKERS[one.series], ms=7, color=color, mfc=face, mew=1.6, zorder=3
            )
        label = f"{LABELS[one.series]} {100 * one.rate:.0f}%"
        write(axes, label, (1, places[one.series]), (8, 0), size=TICK, color=color, weight="bold")
    told = [
        f"{len(one.cells)} problems in {LABELS[one.series]} within {100 * max(map(abs, one.errors)):.0f}% of a line "
        f"that ends at {100 * one.rate:.0f}% of the tensor cores’ peak"
        for one in found
    ]
    alt = f"head_dim {head_dim}: {'; '.join(told)}"
    return to_svg(figure, f"filling {head_dim}", alt=alt, css="s")
