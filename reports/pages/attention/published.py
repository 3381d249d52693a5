"""An article's ladder beside this project's: what each step is said to buy, and what it buys here."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.catalog.entries import Tile
from harness.operators.attention import articles
from harness.operators.attention.articles import Article, Shape, Step
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point, Ratio, fastest
from reports.pages.common import Rows

LANGUAGES = ("cuda", "triton")
PEERS = ("sdpa_flash", "sdpa_cudnn")


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
    """One problem of the article. `last` is the rung nearest to its best kernel, `best` the fastest rung here."""

    shape: Shape
    shares: dict[str, float]
    """Library -> the article's best kernel over it, both as printed."""
    last: dict[str, Point]
    best: dict[str, Point]
    peers: dict[str, Point]
    over_peers: dict[tuple[str, str], Ratio | None]
    """("last" or "best", peer) -> CUDA over it."""
    over_own_code: float | None


def timed_in(rows: Rows, name: str) -> tuple[Dataset, bool]:
    """The first GPU that timed an article's ladder, and whether only an earlier version of its kernels was timed there:
    then all rows count."""
    data = rows.that_timed(name)
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
    """The fastest of all cells that the article's experiment ever timed on one problem."""
    timed = {(row.technique, row.tile) for row in data.at(article.name, problem, backend) if row.technique}
    kernels = [(name, Tile.parse(tile)) for name, tile in sorted(timed)]
    return fastest(data.point(article.name, problem, name, backend, tile=tile) for name, tile in kernels)
