"""The page of an article: its ladder as printed, and as measured here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from markupsafe import Markup

from harness.catalog import experiments
from harness.catalog.entries import Tile
from harness.operators.attention import articles
from harness.operators.attention import structured_heads as computed
from harness.operators.attention.articles import Article, Shape, Step
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point, Ratio, Row, fastest
from reports.data.names import label, short_gpu
from reports.draw.style import COLORS, MARKERS, MUTED, WIDTH, new_grid, to_svg
from reports.facts import counters
from reports.pages import downloads
from reports.pages.attention import heads
from reports.pages.common import Figure, Rows, provenance

LANGUAGES = ("cuda", "triton")
PEERS = ("sdpa_flash", "sdpa_cudnn")
L2_ORDERS = ("batched_m_tiles", "l2_grid_order")
"""The same kernel, blocks in two orders."""
HEADS = "seed_rtx5080"
TICKS = {False: (0.5, 0.7, 1, 1.5, 2, 3, 5), True: (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)}
"""Gains that the axis names, where it is long in the last ones."""


@dataclass(frozen=True)
class Measured:
    """One step in one language. `span`: its gain over the step that the article names, if not the last."""

    point: Point
    gain: Ratio | None
    span: Ratio | None

    @property
    def as_printed(self) -> Ratio | None:
        """The gain to compare with the article's."""
        return self.span or self.gain


@dataclass(frozen=True)
class Line:
    """One step: as the article prints it, and as measured in each language."""

    step: Step
    printed_gain: float | None
    here: dict[str, Measured]


@dataclass(frozen=True)
class ShapeLine:
    """One problem of the article. `last`: the rung nearest to its best kernel; `best`: the fastest rung here; `shares`:
    library -> the article's best kernel over it, as printed; `over_peers`: (last or best, peer) -> CUDA over it."""

    shape: Shape
    shares: dict[str, float]
    last: dict[str, Point]
    best: dict[str, Point]
    peers: dict[str, Point]
    over_peers: dict[tuple[str, str], Ratio | None]
    over_own_code: float | None


def page(rows: Rows, name: str) -> dict[str, Any]:
    (data, earlier), article = timed_in(rows, name), experiments.article(name)
    lines = steps(data, article)
    svg = gains_figure(lines, article)
    caption = provenance(data, data.counting(name))
    return {
        "article": article,
        "total": len(data.timings(name)),
        "earlier": earlier and short_gpu(data.gpu),
        "languages": LANGUAGES,
        "peers": PEERS,
        "lines": lines,
        "ends": [shape_line(data, article, shape) for shape in article.shapes],
        "finding": (found := finding(lines)),
        "gains": svg and Figure(Markup(svg), caption, found, downloads.stem(data, name)),
        "own_code_gpu": articles.OWN_CODE_GPU,
        "hit_rates": hit_rates(rows.fresh_first) if article.l2_hit_rates else None,
        "l2_orders": L2_ORDERS,
        "heads": structured_heads() if name == HEADS else None,
        "stem": downloads.stem_of(data, name),
    }


def hit_rates(datasets: Sequence[Dataset]) -> list[tuple[Row, dict[str, float]]]:
    """(row, L2 hit rates in percent by order of blocks) of problems with several heads where ncu counted both."""
    cells: dict[tuple[str, str], tuple[Row, dict[str, float]]] = {}
    for name in L2_ORDERS:
        for row, _ in counters.profiled(datasets, name):
            rate = row.details["metrics"].get(counters.HIT_RATE)
            if rate is not None and row.problem_fields["heads"] > 1:
                cells.setdefault((row.problem, row.tile), (row, {}))[1].setdefault(name, rate)
    return [cell for cell in cells.values() if set(cell[1]) == set(L2_ORDERS)]


def finding(lines: Sequence[Line]) -> str:
    """What the figure of the steps shows: the article's largest, or the largest here where it prints no gain."""
    if (line := largest(lines)) and (here := line.here["cuda"].as_printed):
        there = f"“{line.step.name}” gains most in the article, {line.printed_gain:.2f}×"
        return f"{there}; here it gains {here.value:.2f}× in CUDA"
    gains = [(gain.value, line.step.name) for line in lines if (gain := line.here["cuda"].gain)]
    if not gains:
        return "The steps"
    value, name = max(gains)
    return f"“{name}” gains most here, {value:.2f}× in CUDA"


def structured_heads() -> dict[str, Any]:
    """{"arrays", "figures"} of this checkout's kernel; "arrays" is None where they are not computed."""
    arrays = computed.saved()
    if arrays is None:
        return {"arrays": None, "figures": []}
    where = f"computed on this CPU by running the kernel {arrays['technique']}"
    drawings = (
        (heads.attention(arrays), "Attention of four structured heads; colour is the square root of P, from 0 to 1"),
        (heads.error_by_position(arrays), "Error against the exact result by query position, one line per head"),
        (heads.error_by_head(arrays), "Largest error of each head, beside that of roundings alone"),
    )
    return {"arrays": arrays, "figures": [Figure(Markup(svg), f"{text}; {where}", text, "") for svg, text in drawings]}


def timed_in(rows: Rows, name: str) -> tuple[Dataset, bool]:
    """The first GPU that timed an article's ladder; True if it timed only an earlier version, whose rows then count."""
    data = next((data for data in rows.datasets if data.timings(name)), rows.main)
    timed = [row for row in data.timings(name) if row.technique and row.backend == "cuda"]
    earlier = bool(timed) and not any(row.usable for row in timed)
    return (data.of_any_version if earlier else data), earlier


def steps(data: Dataset, article: Article) -> list[Line]:
    return [_line(data, article, step) for step in article.steps]


def largest(lines: Iterable[Line]) -> Line | None:
    """The step with the article's largest gain, of those that were measured here."""
    printed = [line for line in lines if line.printed_gain and line.here["cuda"].as_printed]
    return max(printed, key=lambda line: line.printed_gain or 0, default=None)


def _line(data: Dataset, article: Article, step: Step) -> Line:
    before, printed = article.before(step), article.printed_before(step)
    here = {}
    for backend in LANGUAGES:
        point = _at(data, article, step, backend)
        gain, span = (
            data.ratio(point, _at(data, article, other, backend)) if other else None
            for other in (before, printed if printed != before else None)
        )
        here[backend] = Measured(point, gain, span)
    return Line(step, article.printed_gain(step), here)


def _at(data: Dataset, article: Article, step: Step, backend: str) -> Point:
    return data.point(article.name, article.problem, step.technique, backend, tile=step.tile)


def shape_line(data: Dataset, article: Article, shape: Shape) -> ShapeLine:
    end = max((step for step in article.steps if step.tflops), key=lambda step: step.tflops or 0)
    last = {
        backend: data.point(article.name, shape.problem, end.technique, backend, tile=end.tile) for backend in LANGUAGES
    }
    best = {backend: _best(data, article, shape.problem, backend) for backend in LANGUAGES}
    peers = {peer: data.point(article.name, shape.problem, None, peer) for peer in PEERS}
    shares = {peer: shape.tflops / printed for peer, printed in shape.libraries.items() if shape.tflops}
    over_peers = {
        (which, peer): data.ratio(points["cuda"], point)
        for which, points in (("last", last), ("best", best))
        for peer, point in peers.items()
    }
    own = shape.own_code if data.gpu == articles.OWN_CODE_GPU else None
    over_own = best["cuda"].tflops / own if own and best["cuda"].tflops else None
    return ShapeLine(shape, shares, last, best, peers, over_peers, over_own)


def _best(data: Dataset, article: Article, problem: Problem, backend: str) -> Point:
    """The fastest of all cells that the article's experiment ever timed on one problem."""
    timed = {(row.technique, row.tile) for row in data.at(article.name, problem, backend) if row.technique}
    kernels = [(name, Tile.parse(tile)) for name, tile in sorted(timed)]
    return fastest(data.point(article.name, problem, name, backend, tile=tile) for name, tile in kernels)


def gains_figure(lines: Sequence[Line], article: Article) -> str | None:
    """Gain per step on a logarithmic axis: the article's, CUDA's and Triton's; None when nothing was measured."""
    drawn = [line for line in lines if any(line.here[backend].gain for backend in LANGUAGES)]
    if not drawn:
        return None
    height = 0.9 + 0.42 * len(drawn)
    figure, (axes, columns) = new_grid(1, 2, WIDTH, height, sharey=True, width_ratios=(4, 3))
    axes.axvline(1, color=MUTED, lw=1.2, zorder=1)
    seen = [1.0]
    article_has_gains = any(line.printed_gain for line in drawn)
    for column, name in enumerate(("article", *LANGUAGES) if article_has_gains else LANGUAGES):
        color = COLORS.get(name, MUTED)
        style: dict[str, Any] = {"color": color, "ha": "right", "va": "center", "size": 9}
        columns.text(column + 1, -1, label(name) if name in LANGUAGES else name, **style)
        for row, line in enumerate(drawn):
            ratio = line.here[name].as_printed if name in LANGUAGES else None
            value = ratio.value if ratio else line.printed_gain if name == "article" else None
            text = f"{value:.2f}×" if value else "–"
            columns.text(column + 1, row, text, **style)
            if value:
                seen.append(value)
                marker, size, edge = (MARKERS[name], 7, 1.0) if name in LANGUAGES else ("|", 15, 3.0)
                axes.plot([value], [row], marker, ms=size, mew=edge, color=color, zorder=3)
    axes.set_xscale("log")
    low, high = min(seen) / 1.15, max(seen) * 1.15
    ticks = [tick for tick in TICKS[high / low > 6] if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlim=(low, high), xlabel="gain of the step, logarithmic", ylabel="")
    axes.set_yticks(range(len(drawn)), [fill(line.step.name, 18) for line in drawn])
    axes.tick_params(axis="y", labelsize=9)
    axes.grid(visible=False, axis="y")
    columns.set(xlim=(0, 3), ylim=(len(drawn) - 0.5, -1.5))
    columns.set_axis_off()
    return to_svg(figure, f"gains {article.name}")
