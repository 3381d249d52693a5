"""The share of the tensor cores' peak against the share of the GPU's time that tiles fill."""

from __future__ import annotations

from reports.draw.reuse import once
from reports.draw.style import COLORS, GRID, HEAD, INK, MUTED, PAPER, TICK, canvas, to_svg, write
from reports.facts.filling import HeadDim

SIZE = 300


@once
def panel(found: HeadDim) -> str:
    """A mark a problem, open for causal, on the line that the two numbers of the head dimension draw."""
    figure, axes = canvas(SIZE, SIZE, 44, 14, 30, 44)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    write(axes, f"head_dim {found.head_dim}", (0, 1), (-44, -20), size=HEAD, weight="bold")
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        axes.plot([0, 1], [tick, tick], color=GRID if tick else MUTED, lw=1, zorder=0)
        axes.plot([tick, tick], [0, 1], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, f"{100 * tick:.0f}%", (0, tick), (-8, 0), size=TICK, color=MUTED, ha="right")
        write(axes, f"{100 * tick:.0f}%", (tick, 0), (0, 14), size=TICK, color=MUTED, ha="center")
    write(axes, "of the GPU’s time is filled", (0.5, 0), (0, 32), size=TICK, color=MUTED, ha="center")
    axes.plot([0, 1], [0, found.rate], color=INK, lw=1.4, zorder=1)
    for one in found.cells:
        face = PAPER if one.cell.problem.causal else COLORS["cuda"]
        axes.plot([one.share], [one.cell.share], "o", ms=7, color=COLORS["cuda"], mfc=face, mew=1.6, zorder=3)
    worst = max(map(abs, found.errors))
    alt = (
        f"head_dim {found.head_dim}: {len(found.cells)} problems lie within {100 * worst:.0f}% of a line that ends at "
        f"{100 * found.rate:.0f}% of the tensor cores’ peak"
    )
    return to_svg(figure, f"filling {found.head_dim}", embed=True, alt=alt, css="s")
