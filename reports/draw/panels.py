"""Small figures of the first page: one problem, one kind of lengths, the roofline, conflicts, tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes

from harness.operators.attention.problem import Problem
from reports.data.names import LABELS, SHORT
from reports.data.titles import title
from reports.draw.figures import NAMES, drawn_as
from reports.draw.style import (
    COLORS,
    GRID,
    HEAD,
    INK,
    LIBRARY,
    MARKERS,
    MUTED,
    PAPER,
    TICK,
    apart,
    canvas,
    to_svg,
    write,
)
from reports.facts.answer import Answer
from reports.facts.comparisons import SERIES, Conflicts, Lengths, Stalls, Work
from reports.facts.counters import waited_for

SMALL, WIDE, NARROW = 300, 632, 358
"""Widths in pixels: of a small one, beside another on a screen, on a phone."""


def name_of(backend: str) -> str:
    return NAMES.get(backend) or SHORT.get(backend) or LABELS.get(backend, backend)


def kind_of(problem: Problem) -> str:
    return f"head_dim {problem.head_dim}, {problem.mask}"


def problem_panel(found: Answer, top: float) -> str:
    """The best of each language and library at one problem, as marks on one axis that `top` ends for all problems."""
    bars = [bar for bar in found.bars if bar.tflops]
    row, left = 24, 118
    height = 26 + row * len(bars) + 24
    figure, axes = canvas(SMALL, height, left, 34, 0, 0)
    axes.set(xlim=(0, top), ylim=(height, 0))
    write(axes, kind_of(found.problem), (0, 11), (-left, 0), size=HEAD, weight="bold")
    for tick in range(0, int(top) + 1, 250):
        axes.plot([tick, tick], [26, height - 24], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, str(tick), (tick, height - 12), size=TICK, color=MUTED, ha="center")
    for place, bar in enumerate(bars):
        y = 26 + row * (place + 0.5)
        same_instructions = bar.backend == "triton" and bar.panel == "mma_sync"
        series = "triton" if same_instructions else "triton_native" if bar.backend == "triton" else bar.backend
        older = bar.panel == "mma_sync" and bar.backend in ("cuda", "gluon")
        label = f"{name_of(series)}, mma.sync" if older else name_of(series)
        write(axes, label, (0, y), (-8, 0), ha="right", size=TICK)
        color = LIBRARY if bar.is_library else COLORS[bar.backend]
        value = bar.tflops or 0
        axes.plot(
            [0, value],
            [y, y],
            color=color,
            lw=1 if bar.is_library else 2.4,
            ls=(0, (3, 2)) if same_instructions else "-",
        )
        _mark(axes, value, y, series, color, filled=not same_instructions and not bar.is_library)
        write(axes, f"{value:.0f}", (value, y), (8, 0), size=TICK, weight="bold")
    speeds = ", ".join(f"{bar.label} {bar.tflops:.0f}" for bar in bars)
    return to_svg(figure, f"panel {found.problem.slug}", alt=f"{kind_of(found.problem)}: {speeds} TFLOPS", css="s")


def length_panel(found: Lengths, width: int) -> str:
    """TFLOPS against sequence length, one line a series, labelled at its end."""
    right, left, height = 168 if width == WIDE else 112, 36, 340
    figure, axes = canvas(width, height, left, right, 12, 40)
    problems = sorted({problem.seq_q for curve in found.curves for problem, _ in curve.points})
    top = 1.06 * max(speed for curve in found.curves for speed in curve.speeds)
    axes.set(xlim=(math.log2(problems[0]), math.log2(problems[-1])), ylim=(0, top))
    for tick in range(0, int(top) + 1, 200):
        axes.plot(axes.get_xlim(), [tick, tick], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, str(tick), (math.log2(problems[0]), tick), (-8, 0), size=TICK, color=MUTED, ha="right")
    for length in problems:
        text = f"{length // 1024}k" if length % 1024 == 0 else str(length)
        write(axes, text, (math.log2(length), 0), (0, 14), size=TICK, color=MUTED, ha="center")
    write(
        axes,
        "tokens in a sequence; batch times tokens is constant",
        (math.log2(problems[0]), 0),
        (0, 32),
        size=TICK,
        color=MUTED,
    )
    names = {"wgmma": "CUDA", "cuda": "CUDA, mma.sync"}
    ends = {curve.series: curve.speeds[-1] for curve in found.curves}
    places = apart(ends, top * 17 / (height - 52))
    for curve in found.curves:
        library = curve.series not in SERIES
        style = "cuda" if curve.series == "wgmma" else curve.series
        color = LIBRARY if library else COLORS[style]
        xs = [math.log2(problem.seq_q) for problem, _ in curve.points]
        ys = curve.speeds
        same_instructions = curve.series in ("cuda", "triton")
        axes.plot(
            xs, ys, color=color, lw=1.4 if library else 2.4, ls=(0, (4, 2)) if same_instructions else "-", clip_on=False
        )
        for x, y in zip(xs, ys, strict=True):
            _mark(axes, x, y, style, color, filled=not same_instructions and not library)
        text = f"{names.get(curve.series) or name_of(curve.series)} {ends[curve.series]:.0f}"
        weight = "normal" if library else "bold"
        ink = MUTED if library else color
        write(axes, text, (math.log2(problems[-1]), places[curve.series]), (10, 0), size=TICK, color=ink, weight=weight)
    speeds = ", ".join(f"{names.get(name) or name_of(name)} {value:.0f}" for name, value in ends.items())
    alt = f"TFLOPS against sequence length; at {problems[-1]} tokens: {speeds}"
    return to_svg(
        figure, f"lengths {found.head_dim} {found.causal} {width}", alt=alt, css="w" if width == WIDE else "n"
    )


def roofline(work: Sequence[Work], bytes_per_s: float, peak: float, instructions: str, width: int) -> str:
    """TFLOPS against FLOP for a byte of DRAM, both logarithmic, under two limits of the hardware: DRAM's, and that of
    the kernels' tensor-core `instructions`."""
    height, left, right = 380, 44, 20
    figure, axes = canvas(width, height, left, right, 12, 40)
    low_x = 10 ** math.floor(math.log10(min(one.flop_per_byte for one in work)))
    high_x = 10 ** math.ceil(math.log10(max(one.flop_per_byte for one in work)))
    low_y = 10 ** math.floor(math.log10(min(one.tflops for one in work)))
    axes.set(xlim=(math.log10(low_x), math.log10(high_x)), ylim=(math.log10(low_y), math.log10(peak * 1.5)))
    tick: float = low_y
    while tick <= peak * 1.5:
        axes.plot(axes.get_xlim(), [math.log10(tick)] * 2, color=GRID, lw=1, zorder=0)
        write(axes, f"{tick:g}", (math.log10(low_x), math.log10(tick)), (-8, 0), size=TICK, color=MUTED, ha="right")
        tick *= 10
    tick = low_x
    while tick <= high_x:
        axes.plot([math.log10(tick)] * 2, axes.get_ylim(), color=GRID, lw=1, zorder=0)
        write(axes, f"{tick:g}", (math.log10(tick), math.log10(low_y)), (0, 14), size=TICK, color=MUTED, ha="center")
        tick *= 10
    label = (math.log10(low_x), math.log10(low_y))
    write(axes, "horizontal: FLOP for each byte of DRAM; vertical: TFLOPS", label, (0, 32), size=TICK, color=MUTED)
    bend = peak * 1e12 / bytes_per_s
    start = max(low_x, low_y * 1e12 / bytes_per_s)
    slope = [math.log10(start), math.log10(bend)], [math.log10(start * bytes_per_s / 1e12), math.log10(peak)]
    axes.plot(*slope, color=INK, lw=1.8, clip_on=True)
    axes.plot([math.log10(bend), math.log10(high_x)], [math.log10(peak)] * 2, color=INK, lw=2, ls=(0, (1, 1.5)))
    write(
        axes,
        f"limit of {instructions} {peak:.0f}",
        (math.log10(high_x), math.log10(peak)),
        (-4, -11),
        size=TICK,
        color=MUTED,
        ha="right",
    )
    for one in work:
        filled = drawn_as(one.timing) != "triton"
        _mark(
            axes, math.log10(one.flop_per_byte), math.log10(one.tflops), one.backend, COLORS[one.backend], filled=filled
        )
    fastest = max(work, key=lambda one: one.tflops)
    least = min(work, key=lambda one: one.flop_per_byte)
    for one in [fastest] if least is fastest else [fastest, least]:
        at = (math.log10(one.flop_per_byte), math.log10(one.tflops))
        text = f"{title(one.technique)} {one.tflops:.0f}"
        shift = (9, 6) if one is fastest else (9, -9)  # the fastest is right below the limit
        write(axes, text, at, shift, size=TICK, color=COLORS[one.backend])
    limits = f"DRAM feeds {bytes_per_s / 1e12:.1f} TB/s, {instructions} does {peak:.0f} TFLOPS"
    alt = f"Roofline of {len(work)} kernels; {limits}"
    return to_svg(figure, f"roofline {width}", alt=alt, css="w" if width == WIDE else "n")


def conflict_bars(found: Sequence[Conflicts], width: int) -> str:
    """Of the passes over shared memory the share that were bank conflicts, a bar a kernel."""
    row, left = 22, 190
    height = row * len(found) + 26
    figure, axes = canvas(width, height, left, 60, 0, 0)
    axes.set(xlim=(0, 1), ylim=(height, 0))
    for tick in (0, 0.25, 0.5, 0.75, 1):
        axes.plot([tick, tick], [0, height - 26], color=GRID if tick else MUTED, lw=1, zorder=0)
        write(axes, f"{100 * tick:.0f}%", (tick, height - 13), size=TICK, color=MUTED, ha="center")
    for place, one in enumerate(found):
        y = row * (place + 0.5)
        write(axes, title(one.technique), (0, y), (-22, 0), ha="right", size=TICK)
        axes.plot(
            [-0.04 * 107 / (width - left - 60)],
            [y],
            MARKERS[one.backend],
            ms=7,
            color=COLORS[one.backend],
            clip_on=False,
        )
        axes.barh(y, one.share, 12, color=COLORS[one.backend], lw=0)
        write(axes, f"{100 * one.share:.0f}%", (one.share, y), (6, 0), size=TICK, weight="bold")
    alt = "Share of passes over shared memory that were bank conflicts: " + ", ".join(
        f"{title(one.technique)} in {LABELS[one.backend]} {100 * one.share:.0f}%" for one in found
    )
    return to_svg(figure, f"conflicts {width}", alt=alt, css="w" if width == WIDE else "n")


def stall_bars(found: Sequence[Stalls], width: int) -> str:
    """Cycles that warps waited for each issued instruction, a bar a reason, kernel by kernel."""
    row, left = 22, 150
    lines = sum(1 + len(one.reasons) for one in found)
    figure, axes = canvas(width, row * lines, left, 60, 0, 0)
    axes.set(xlim=(0, max(value for one in found for _, value in one.reasons)), ylim=(row * lines, 0))
    y = row * 0.5
    for one in found:
        heading = f"{name_of(drawn_as(one.row))}: {title(one.technique)}"
        write(axes, heading, (0, y), (-left, 0), size=TICK, weight="bold", color=COLORS[one.backend])
        for reason, value in one.reasons:
            y += row
            write(axes, waited_for(reason), (0, y), (-8, 0), ha="right", size=TICK)
            axes.barh(y, value, 12, color=COLORS[one.backend], lw=0)
            write(axes, f"{value:.2f}", (value, y), (6, 0), size=TICK, weight="bold")
        y += row
    told = [
        f"{name_of(drawn_as(one.row))}: {', '.join(f'{waited_for(name)} {value:.2f}' for name, value in one.reasons)}"
        for one in found
    ]
    alt = f"Cycles that warps waited for each issued instruction: {'; '.join(told)}"
    return to_svg(figure, f"stalls {width}", alt=alt, css="w" if width == WIDE else "n")


def tile_map(speeds: dict[tuple[int, int], float], heading: str, best: tuple[int, int]) -> str:
    """TFLOPS by the tile's rows and columns, darker for faster, the best outlined."""
    ms, ns = (sorted({size[axis] for size in speeds}) for axis in (0, 1))
    box, left = (44, 28), 92
    height = 46 + box[1] * len(ms) + 22
    width = max(left + box[0] * len(ns) + 8, SMALL)
    figure, axes = canvas(width, height, left, width - left - box[0] * len(ns), 24, 22)
    axes.set(xlim=(0, len(ns)), ylim=(len(ms) + 22 / box[1], 0))
    write(axes, heading, (0, 0), (-left, -13), size=HEAD, weight="bold")
    top = max(speeds.values())
    shades = sns.light_palette("#565e69", n_colors=5).as_hex()
    for (m, n), value in speeds.items():
        x, y = ns.index(n), ms.index(m)
        level = min(4, int(5 * value / top * 0.999))
        edge = INK if (m, n) == best else PAPER
        axes.bar(
            x + 0.5, 0.92, 0.94, bottom=y + 0.04, color=shades[level], edgecolor=edge, lw=2 if (m, n) == best else 0
        )
        ink = "#ffffff" if level == 4 else "#1a1d22"
        write(axes, f"{value:.0f}", (x + 0.5, y + 0.5), size=TICK, ha="center", color=ink)
    for y, m in enumerate(ms):
        write(axes, f"{m} queries", (0, y + 0.5), (-8, 0), size=TICK, color=MUTED, ha="right")
    for x, n in enumerate(ns):
        write(axes, str(n), (x + 0.5, len(ms)), (0, 12), size=TICK, color=MUTED, ha="center")
    write(axes, "keys", (0, len(ms)), (-8, 12), size=TICK, color=MUTED, ha="right")
    alt = f"{heading}: best {best[0]} by {best[1]} with {speeds[best]:.0f} TFLOPS"
    return to_svg(figure, f"tiles {heading}", alt=alt, css="s")


def _mark(axes: Axes, x: float, y: float, series: str, color: str, *, filled: bool) -> None:
    face = color if filled else PAPER
    axes.plot([x], [y], MARKERS.get(series, "o"), ms=7, color=color, mfc=face, mew=1.6, zorder=3, clip_on=False)
