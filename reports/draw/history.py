"""One cell each time it was recorded."""

from __future__ import annotations

import pandas

from reports.draw import style


def draw(cell: str, points: pandas.DataFrame) -> str:
    """SVG text, a file of its own: the medians over time, a point for each of `rows.history.points`; boards differ in
    shade."""
    figure, axes = style.new_axes(2 * style.WIDTH, style.WIDTH / 1.6)
    color = style.COLORS.get(cell.partition(" ")[0], style.MUTED)
    times = pandas.to_datetime(points.time)
    axes.plot(times, points.ms, color=color, lw=1.2, alpha=0.5, zorder=1)
    boards = points.board.fillna("board unknown")
    for number, (board, here) in enumerate(points.groupby(boards)):
        shade = 0.35 + 0.65 * (number + 1) / boards.nunique()
        axes.scatter(times[here.index], here.ms, s=36, color=color, alpha=shade, zorder=2, label=board)
    axes.set_title(cell, loc="left")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    axes.legend(title="board", frameon=False, fontsize=8, title_fontsize=8)
    figure.autofmt_xdate()
    return style.to_svg(figure, cell, embed=False)
