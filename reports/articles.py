"""An article's ladder beside this project's: what each step is said to buy, and what it buys here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from markupsafe import Markup

from harness import articles, scorecard
from harness.articles import Article, Shape, Step
from harness.problem import Problem, Tile
from reports import heads, pages, resources
from reports.dataset import Dataset, Point, Ratio, fastest
from reports.drawing import COLORS, LABELS, MARKERS, MUTED, WIDTH, new_grid, to_svg
from reports.pages import Figure
from reports.questions import question

LANGUAGES = ("cuda", "triton")
PEERS = ("sdpa_flash", "sdpa_cudnn")
TICKS = {False: (0.5, 0.7, 1, 1.5, 2, 3, 5), True: (0.2, 0.5, 1, 2, 5, 10, 20, 50)}
"""Gains that the axis names, where it is long in the last ones."""
HEADS = "seed_rtx5080"
"""The article whose page shows structured heads."""


@dataclass(frozen=True)
class Measured:
    """One step in one language. `span` is its gain over the step that the article's gain is over; None where that is
    `gain` itself or where the article has no gain."""

    point: Point
    gain: Ratio | None
    span: Ratio | None

    @property
    def as_printed(self) -> Ratio | None:
        """What stands beside the article's gain."""
        return self.span or self.gain


@dataclass(frozen=True)
class Line:
    """One step: as the article prints it, and as measured in each language."""

    step: Step
    printed_gain: float | None
    here: dict[str, Measured]


@dataclass(frozen=True)
class ShapeLine:
    """One problem of the article. `last` is the rung that stands for its best kernel, `best` the best rung here."""

    shape: Shape
    shares: dict[str, float]
    """Library -> the article's best kernel over it, both as printed."""
    last: dict[str, Point]
    best: dict[str, Point]
    peers: dict[str, Point]
    over_peers: dict[tuple[str, str], Ratio | None]
    """("last" or "best", peer) -> CUDA over it."""
    over_own_code: float | None


def page(datasets: Sequence[Dataset], data: Dataset | None, name: str) -> dict[str, Any]:
    """`data`: the rows of the headline GPU; `datasets`: all, of which the newest has the structured heads."""
    article = articles.load(name)
    lines = steps(data, article) if data else []
    svg = gains_figure(lines, article) if data else None
    caption = data.provenance(data.counting(name)) if data else ""
    return {
        **(pages.experiment(data, name) if data else {"name": name, "question": question(name), "total": 0}),
        "article": article,
        "languages": LANGUAGES,
        "peers": PEERS,
        "lines": lines,
        "ends": [shape_line(data, article, shape) for shape in article.shapes] if data else [],
        "gains": svg and Figure(Markup(svg), caption, f"What each step of {article.title} buys, there and here"),
        "own_code_gpu": articles.OWN_CODE_GPU,
        "hit_rates": (rates := resources.hit_rates(datasets) if article.l2_hit_rates else []),
        "counted_here": any(one.problem == article.problem for one in rates),
        "heads": heads.page(datasets) if name == HEADS else None,
    }


def steps(data: Dataset, article: Article) -> list[Line]:
    return [_line(data, article, step) for step in article.steps]


def _line(data: Dataset, article: Article, step: Step) -> Line:
    before, printed = article.before(step), article.printed_before(step)
    here = {}
    for backend in LANGUAGES:
        point = _at(data, article, step, backend)
        gain = data.ratio(point, _at(data, article, before, backend)) if before else None
        span = None
        if printed and printed != before:
            span = data.ratio(point, _at(data, article, printed, backend))
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
    return ShapeLine(
        shape,
        {peer: shape.tflops / printed for peer, printed in shape.libraries.items() if shape.tflops},
        last,
        best,
        peers,
        {
            (which, peer): data.ratio(points["cuda"], point)
            for which, points in (("last", last), ("best", best))
            for peer, point in peers.items()
        },
        best["cuda"].tflops / shape.own_code
        if shape.own_code and best["cuda"].tflops and data.gpu == articles.OWN_CODE_GPU
        else None,
    )


def _best(data: Dataset, article: Article, problem: Problem, backend: str) -> Point:
    """The fastest of all cells that the article's experiment has timed on one problem: those that it asks for, and
    those that it asked for before."""
    return fastest(_points(data, article, problem, backend))


def _points(data: Dataset, article: Article, problem: Problem, backend: str) -> Iterator[Point]:
    timed = [row for row in data.timings(article.name) if row["backend"] == backend and row.get("technique")]
    here = [row for row in timed if scorecard.slug(row) == problem.slug]
    for technique, tile in dict.fromkeys((row["technique"], Tile.from_dict(row["tile"])) for row in here):
        yield data.point(article.name, problem, technique, backend, tile=tile)


def gains_figure(lines: Sequence[Line], article: Article) -> str | None:
    """Gain per step on a logarithmic axis: the article's, CUDA's and Triton's; None when nothing was measured."""
    drawn = [line for line in lines if any(line.here[backend].gain for backend in LANGUAGES)]
    if not drawn:
        return None
    height = 0.9 + 0.42 * len(drawn)
    figure, (axes, columns) = new_grid(1, 2, WIDTH, height, sharey=True, width_ratios=(3, 2))
    axes.axvline(1, color=MUTED, lw=1.2, zorder=1)
    seen = [1.0]
    article_has_gains = any(line.printed_gain for line in drawn)
    for column, name in enumerate(("article", *LANGUAGES) if article_has_gains else LANGUAGES):
        color = COLORS.get(name, MUTED)
        style: dict[str, Any] = {"color": color, "ha": "right", "va": "center", "size": 9}
        columns.text(column + 1, -1, LABELS.get(name, name), **style)
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
    axes.set(xlim=(low, high), xlabel="gain of the step", ylabel="")
    axes.set_yticks(range(len(drawn)), [fill(line.step.name, 18) for line in drawn])
    axes.tick_params(axis="y", labelsize=9)
    axes.grid(visible=False, axis="y")
    columns.set(xlim=(0, 3), ylim=(len(drawn) - 0.5, -1.5))
    columns.set_axis_off()
    return to_svg(figure, f"gains {article.name}", embed=True)
