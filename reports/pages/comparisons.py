"""The figures below the first screen, each with its finding: problems, lengths, roofline, conflicts, tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.data.dataset import Dataset, Row
from reports.data.titles import title
from reports.draw import panels
from reports.draw.figures import drawn_as
from reports.facts import comparisons
from reports.facts.answer import INSTRUCTION, Answer
from reports.facts.counters import waited_for
from reports.pages import filling

CURES = ("xor_swizzle", "padded_rows", "tma_swizzle")
"""Techniques against bank conflicts."""
WIDTHS = (panels.WIDE, panels.NARROW)


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
    bars = [(one.problem.slug, bar) for one in answers for bar in one.bars]
    top = 1.04 * max(bar.tflops or 0 for _, bar in bars)
    same = between(one.same_instructions.value for one in answers if one.same_instructions)
    cuda = between(one.over_cuda.value for one in answers if one.over_cuda)
    library = between(one.over_library.value for one in answers if one.over_library)
    missing = Counter(bar.label for _, bar in bars if bar.is_library and not bar.tflops)
    untimed = "".join(f" {name} was not timed on {count} of these." for name, count in missing.items())
    return Section(
        "problems",
        f"Over masks and head dimensions core Triton reaches {same} of CUDA with mma.sync; free to choose, {cuda} of "
        f"our best CUDA kernel and {library} of the fastest library timed",
        "The best of each language and library by head dimension and mask, each at its best tile. An open square is "
        f"core Triton restricted to mma.sync.{untimed}",
        [Markup(panels.problem_panel(one, top)) for one in answers],
        "quarters",
        _caption(data, [bar.point.row for _, bar in bars]),
        [{"problem": slug, "panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops} for slug, bar in bars],
        [bar.point.row for _, bar in bars if bar.point.row],
    )


def _filling(data: Dataset) -> Section | None:
    shown = filling.section(data)
    if not shown:
        return None
    rows = [line.cell.row for of in shown["languages"] for one in of for line in one.cells]
    link = '<a href="experiment/hopper_grid.html#filling">How it is computed</a>. '
    return Section(
        "filling",
        shown["title"],
        "Each mark is a flagship on one problem, open where that is causal. The vertical axis is the share of the "
        "tensor cores’ peak that it reaches. The horizontal axis is the share of the GPU’s time that its tiles fill, "
        "computed from their number, size and order. A line is fitted to the marks of one language. It ends at the "
        "share of the peak at which a multiprocessor multiplies while it has a tile.",
        shown["drawings"],
        "quarters",
        link + _caption(data, rows),
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
            for of in shown["languages"]
            for one in of
            for line in one.cells
        ],
        rows,
    )


def lengths(data: Dataset) -> Section | None:
    found = comparisons.lengths(data)
    if not found:
        return None
    points = [
        (curve.series, problem.seq_q, speed, point.row)
        for one in found
        for curve in one.curves
        for (problem, point), speed in zip(curve.points, curve.speeds, strict=True)
    ]
    curve = found[0].curve("triton_native") or found[0].curve("triton")
    shares = [comparisons.share(data, found[0], curve.series, place) for place in (0, -1)] if curve else []
    finding = "Speed against sequence length"
    if curve and all(shares):
        short, long = (curve.points[place][0].seq_q for place in (0, -1))
        library = "of the fastest library timed"
        finding = f"Core Triton reaches {shares[0]:.2f} {library} at {short} tokens, {shares[1]:.2f} at {long}"
    kinds = " and ".join(f"head_dim {one.head_dim}, {'causal' if one.causal else 'full'}" for one in found)
    return Section(
        "lengths",
        finding,
        f"Each point is the fastest kernel and tile of its series that was timed at that length: {kinds} attention.",
        [Markup(panels.length_panel(one, width)) for one in found for width in WIDTHS],
        "grid",
        _caption(data, [row for *_, row in points]),
        [
            {"series": series, "tokens": tokens, "tflops": speed, "technique": row and row.get("technique")}
            for series, tokens, speed, row in points
        ],
        [row for *_, row in points if row],
    )


def _roofline(data: Dataset, datasets: Sequence[Dataset], found: Answer) -> Section | None:
    work = comparisons.work(datasets, data, found.problem)
    instructions = "wgmma" if any(one.timing.get("mma") == "wgmma" for one in work) else "mma_sync"
    bandwidth, peak, name = data.bandwidth(), found.limits[instructions], INSTRUCTION[instructions]
    if not work or not bandwidth or not peak:
        return None
    fastest = max(work, key=lambda one: one.tflops)
    return Section(
        "roofline",
        f"The fastest {name} kernel reaches {100 * fastest.tflops / peak:.0f}% of that instruction’s limit and "
        f"{100 * fastest.bandwidth_used(bandwidth):.0f}% of DRAM’s bandwidth",
        "Each mark is a kernel: how much work it does for each byte that it moves to or from DRAM, and how fast it is. "
        "Left of the bend DRAM is the limit, right of it the tensor cores.",
        _drawn(lambda width: panels.roofline(work, bandwidth, peak, name, width)),
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
    shown = [one for one in counted if one.share >= 0.05 or one.technique in CURES]
    worst = max(counted, key=lambda one: one.share)
    cured = [one for one in counted if one.backend == worst.backend and one.technique in CURES]
    finding = f"In “{title(worst.technique)}” {100 * worst.share:.0f}% of the passes over shared memory are repeats"
    if cured:
        best = min(cured, key=lambda one: one.share)
        finding += f", in “{title(best.technique)}” {100 * best.share:.0f}%"
    return Section(
        "conflicts",
        finding,
        "Lanes that need different words of one bank of shared memory go one after the other. A bar is the share of "
        "all passes over shared memory that were such repeats, at the reference tile. Of the kernels below five "
        "percent only the cures are shown.",
        _drawn(lambda width: panels.conflict_bars(shown, width)),
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
    fastest = max(waits, key=lambda one: one.tflops)
    return Section(
        "stalls",
        f"In “{title(fastest.technique)}” warps wait most for {waited_for(fastest.reasons[0][0])}",
        "For each instruction that the best kernel of a language issues: for how many cycles its warps wait, added up "
        "over warps, and for what. Only the largest reasons are shown. An instruction’s delay is the fixed time until "
        "its result can be used; another warp’s turn: two were ready, and one can issue.",
        _drawn(lambda width: panels.stall_bars(waits, width)),
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
    drawings, table, rows, spans = [], [], [], []
    for bar in found.bars:
        row = bar.point.row
        tiles = {} if not row or bar.is_library else comparisons.tiles(data, found.problem, row)
        if row and len(tiles) > 1:
            speeds = {size: speed for size, (speed, _) in tiles.items()}
            best = max(speeds, key=lambda size: speeds[size])
            spans.append(speeds[best] / min(speeds.values()))
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
        f"Among the tiles worth timing, the best is up to {100 * (max(spans) - 1):.0f}% faster than the worst",
        "The best kernel of each language over its tiles, in TFLOPS: queries down, keys to the right, each at its best "
        "number of stages and warps. A tile that was slower than three others in a first launch was not timed further.",
        drawings,
        "quarters",
        f"Timed by <code>twinkernels tune</code>. {_caption(data, rows)}",
        table,
        rows,
    )


def _drawn(draw: Callable[[int], str]) -> list[Markup]:
    return [Markup(draw(width)) for width in WIDTHS]


def _caption(data: Dataset, rows: Sequence[Row | None]) -> str:
    text = data.provenance([row for row in rows if row])
    return f"{text[:1].upper()}{text[1:]}."


def between(values: Iterable[float]) -> str:
    """0.77 to 0.87; one number where they are equal."""
    ends = sorted(f"{value:.2f}" for value in values)
    return " to ".join(dict.fromkeys((ends[0], ends[-1]))) if ends else "an unmeasured share"
