"""One cell over the commits at which it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.rows.history import Point
from reports.draw import style


def draw(cell: str, points: Sequence[Point]) -> str:
    """SVG text, a file of its own: the medians over time, one point per recorded row, boards told apart by shade."""
    figure, axes = style.new_axes(2 * style.WIDTH, style.WIDTH / 1.6)
    color = style.COLORS.get(cell.partition(" ")[0], style.MUTED)
    times = [datetime.fromisoformat(point.time.replace("Z", "+00:00")) for point in points]
    axes.plot(times, [point.ms for point in points], color=color, lw=1.2, alpha=0.5, zorder=1)
    boards = sorted({point.board or "" for point in points})
    for number, board in enumerate(boards):
        here = [index for index, point in enumerate(points) if (point.board or "") == board]
        shade = 0.35 + 0.65 * (number + 1) / len(boards)
        x, y = [times[index] for index in here], [points[index].ms for index in here]
        axes.scatter(x, y, s=36, color=color, alpha=shade, zorder=2, label=board or "board unknown")
    axes.set_title(cell, loc="left")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    axes.legend(title="board", frameon=False, fontsize=8, title_fontsize=8)
    figure.autofmt_xdate()
    return style.to_svg(figure, cell, embed=False)
