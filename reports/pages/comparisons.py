"""The figures below the first screen, each with its finding: problems, lengths, roofline, conflicts, tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset, Row
from reports.data.titles import title
from reports.draw import panels
from reports.draw.figures import drawn_as
from reports.facts import comparisons, headlines
from reports.facts import filling as facts
from reports.facts.answer import INSTRUCTION, Answer
from reports.pages import filling


@dataclass(frozen=True)
class Section:
    """A finding as a title, its drawings, and the numbers and rows behind them: `id`.csv and .jsonl."""

    id: str
    title: str
    text: str
    drawings: list[Markup]
    css: str
    caption: str
    table: list[dict[str, Any]]
    rows: list[Row]


def sections(data: Dataset, datasets: Sequence[Dataset], found: Answer) -> list[Section]:
    """Those that have rows."""
    made = (
        _problems(data),
        _filling(data),
        lengths(data),
        _roofline(data, datasets, found),
        _conflicts(data, datasets, found),
        _stalls(data, datasets, found),
        _tiles(data, found),
    )
    return [section for section in made if section]


def _problems(data: Dataset) -> Section | None:
    answers = comparisons.answers(data)
    if len(answers) < 2:
        return None
    top = 1.04 * max(bar.tflops or 0 for one in answers for bar in one.bars)
    return Section(
        "problems",
        headlines.problems_title(answers),
        "The best of each language and library by head dimension and mask, each at its best tile. An open square is "
        f"core Triton held to mma.sync.{_not_timed(answers)}",
        [Markup(panels.problem_panel(one, top)) for one in answers],
        "quarters",
        _caption(data, [bar.point.row for one in answers for bar in one.bars]),
        [
            {"problem": one.problem.slug, "panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops}
            for one in answers
            for bar in one.bars
        ],
        [bar.point.row for one in answers for bar in one.bars if bar.point.row],
    )


def _filling(data: Dataset) -> Section | None:
    shown = filling.section(data)
    if not shown:
        return None
    lines = [(one, line) for of in shown["languages"] for one in of for line in one.cells]
    return Section(
        "filling",
        shown["title"],
        "Each mark is a flagship on one problem, open where that is causal. The vertical axis is the share of the "
        "tensor cores’ peak that it reaches. The horizontal axis is the share of the GPU’s time that its tiles fill, "
        "computed from their number, size and order. A line is fitted to the marks of one language. It ends at the "
        "share of the peak at which a multiprocessor multiplies while it has a tile.",
        shown["drawings"],
        "quarters",
        f'<a href="experiment/{facts.EXPERIMENT}.html#filling">How it is computed</a>. '
        + _caption(data, [line.cell.row for _, line in lines]),
        [
            {
                "problem": line.cell.problem.slug,
                "series": one.series,
                "tile": line.cell.tile.slug,
                "filled": line.share,
                "peak_with_a_tile": one.rate,
                "clocks_beyond_products": one.beyond,
                "tflops": line.cell.tflops,
                "expected_tflops": line.expected,
            }
            for one, line in lines
        ],
        [line.cell.row for _, line in lines],
    )


def lengths(data: Dataset) -> Section | None:
    found = comparisons.lengths(data)
    if not found:
        return None
    rows = [point.row for one in found for curve in one.curves for _, point in curve.points if point.row]
    kinds = " and ".join(f"head_dim {one.head_dim}, {'causal' if one.causal else 'full'}" for one in found)
    return Section(
        "lengths",
        headlines.lengths_title(data, found[0]),
        f"Each point is the fastest kernel and tile of its series that was timed at that length: {kinds} attention.",
        [Markup(panels.length_panel(one, width)) for one in found for width in (panels.WIDE, panels.NARROW)],
        "grid",
        _caption(data, rows),
        [
            {
                "series": curve.series,
                "tokens": problem.seq_q,
                "tflops": speed,
                "technique": (point.row or {}).get("technique"),
            }
            for one in found
            for curve in one.curves
            for (problem, point), speed in zip(curve.points, curve.speeds, strict=True)
        ],
        rows,
    )


def _roofline(data: Dataset, datasets: Sequence[Dataset], found: Answer) -> Section | None:
    work = comparisons.work(datasets, data, found.problem)
    if not work:
        return None
    instructions = "wgmma" if any(one.timing.get("mma") == "wgmma" for one in work) else "mma_sync"
    bandwidth, peak, name = data.bandwidth(), found.limits[instructions], INSTRUCTION[instructions]
    if not bandwidth or not peak:
        return None
    return Section(
        "roofline",
        headlines.roofline_title(work, bandwidth, peak, name),
        "Each mark is a kernel: how much work it does for each byte that it moves to or from DRAM, and how fast it is. "
        "Left of the bend DRAM is the limit, right of it the tensor cores.",
        [Markup(panels.roofline(work, bandwidth, peak, name, width)) for width in (panels.WIDE, panels.NARROW)],
        "grid",
        "DRAM’s bytes by ncu, one launch with cold caches at the reference tile; speed from the timing at that tile. "
        + _caption(data, [one.row for one in work]),
        [
            {
                "technique": one.technique,
                "language": one.backend,
                "flop_per_byte": one.flop_per_byte,
                "tflops": one.tflops,
                "bandwidth_used": one.bandwidth_used(bandwidth),
            }
            for one in work
        ],
        [row for one in work for row in (one.row, one.timing)],
    )


def _conflicts(data: Dataset, datasets: Sequence[Dataset], found: Answer) -> Section | None:
    counted = comparisons.conflicts(datasets, data, found.problem)
    if not counted:
        return None
    # a kernel with none says nothing beside the ladder's first ones
    shown = [
        one for one in counted if one.share >= 0.05 or one.technique in ("xor_swizzle", "padded_rows", "tma_swizzle")
    ]
    return Section(
        "conflicts",
        headlines.conflicts_title(counted),
        "Lanes that need different words of one bank of shared memory go one after the other. A bar is the share of "
        "all passes over shared memory that were such repeats, at the reference tile. Of the kernels below five "
        "percent only the cures are shown.",
        [Markup(panels.conflict_bars(shown, width)) for width in (panels.WIDE, panels.NARROW)],
        "grid",
        "By ncu’s hardware counters. " + _caption(data, [one.row for one in shown]),
        [
            {
                "technique": one.technique,
                "language": one.backend,
                "conflicts": one.conflicts,
                "passes": one.passes,
                "share": one.share,
            }
            for one in counted
        ],
        [one.row for one in counted],
    )


def _stalls(data: Dataset, datasets: Sequence[Dataset], found: Answer) -> Section | None:
    waits = comparisons.stalls(datasets, found)
    if not waits:
        return None
    return Section(
        "stalls",
        headlines.stalls_title(waits),
        "For each instruction that the best kernel of a language issues: for how many cycles its warps wait, added up "
        "over warps, and for what. Only the largest reasons are shown. An instruction’s delay is the fixed time until "
        "its result can be used; another warp’s turn: two were ready, and one can issue.",
        [Markup(panels.stall_bars(waits, width)) for width in (panels.WIDE, panels.NARROW)],
        "grid",
        "By ncu’s hardware counters: warps that wait, added up over cycles, over the instructions issued. "
        + _caption(data, [one.row for one in waits]),
        [
            {"technique": one.technique, "language": one.backend, "ncu": reason, "cycles_per_issue": value}
            for one in waits
            for reason, value in one.reasons
        ],
        [one.row for one in waits],
    )


def _tiles(data: Dataset, found: Answer) -> Section | None:
    drawings, table, rows = [], [], []
    for bar in found.bars:
        row = bar.point.row
        if not row or bar.is_library:
            continue
        tiles = comparisons.tiles(data, found.problem, row["technique"], row["backend"])
        if len(tiles) > 1:
            speeds = {size: speed for size, (speed, _) in tiles.items()}
            best = max(speeds, key=lambda size: speeds[size])
            heading = f"{panels.name_of(drawn_as(row))}: {title(row['technique'])}"
            drawings.append(Markup(panels.tile_map(speeds, heading, best)))
            rows += [timed for _, timed in tiles.values()]
            table += [
                {"technique": row["technique"], "series": row["backend"], "queries": m, "keys": n, "tflops": speed}
                for (m, n), speed in sorted(speeds.items())
            ]
    if not drawings:
        return None
    return Section(
        "tiles",
        headlines.tiles_title(table),
        "The best kernel of each language over its tiles, in TFLOPS: queries down, keys to the right, each at its best "
        "number of stages and warps. A tile that was slower than three others in a first launch was not timed further.",
        drawings,
        "quarters",
        f"Timed by <code>twinkernels tune</code>. {_caption(data, rows)}",
        table,
        rows,
    )


def _not_timed(answers: Sequence[Answer]) -> str:
    """Which libraries have no bar at which problems, in a sentence; empty where all have one everywhere."""
    missing: dict[tuple[str, int], list[str]] = {}
    for one in answers:
        for bar in one.bars:
            if bar.is_library and not bar.tflops:
                missing.setdefault((bar.label, one.problem.head_dim), []).append(one.problem.mask)
    return "".join(
        f" {label} was not timed on these problems of head_dim {head_dim}, {' and '.join(masks)}."
        for (label, head_dim), masks in missing.items()
    )


def _caption(data: Dataset, rows: Sequence[Row | None]) -> str:
    text = data.provenance([row for row in rows if row])
    return f"{text[:1].upper()}{text[1:]}."
