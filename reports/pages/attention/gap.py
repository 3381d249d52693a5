"""The page of the gap between core Triton and the flagship. Its text is notes/attention/pages/gap.md."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog import experiments
from harness.operators.attention.articles import Article
from harness.operators.attention.gap import CAUSES, GLUON, TLX, TRITON, WAYS, Term
from harness.operators.attention.prices import EXPERIMENT
from harness.rows.ledger import UNEXPLAINED, Ledger, percent
from harness.rows.reading import AGAIN_LIMIT
from reports.data.dataset import Dataset, Row, grouped
from reports.data.names import short_gpu
from reports.facts.scores import between_boards
from reports.pages import downloads, prose
from reports.pages.attention import gap_waterfall, ledger
from reports.pages.attention.articles import Line, largest, steps, timed_in
from reports.pages.common import Rows

PATH, NAME = "gap.html", "gap"
"""Of the page and of its files."""


def page(of: Rows) -> dict[str, Any]:
    data, found = ledger.found(of)
    rows = [row for one in found for row in one.rows.values()]
    problems = [[way(one.from_(start)) for start in WAYS] for one in found]
    timed = {one["start"] for ways in problems for one in ways if one["ledger"].gap}
    first = problems[0][0]["lines"] if problems and problems[0][0]["ledger"].gap else []
    return {
        "question": experiments.question(EXPERIMENT),
        "articles": [article(of, name) for name in experiments.about_articles()],
        "name": EXPERIMENT,
        "where": data.provenance(rows) if found else "",
        "stem": downloads.stem_of(data, EXPERIMENT),
        "intro": texts(of, data)[""],
        "problems": problems,
        "largest": [line for line in first if line.counts and line.size and line.size.value > 0][:4],
        "untimed": {title: WAYS[start] for start, title in ledger.STARTS.items() if found and title not in timed},
        "titles": {term.name: term.title for each in WAYS.values() for term in each},
        "terms": ledger,
        "percent": percent,
        "limit": AGAIN_LIMIT,
        "apart": between_boards(data) if found else None,
        "machines": data.environments_of(rows),
        "files": [download(data, [one for ways in problems for one in ways])] if found else [],
    }


def article(of: Rows, name: str) -> tuple[Article, Line | None, str, bool]:
    """An article, its largest step, the GPU that timed it here, and whether only an earlier version was timed."""
    one = experiments.article(name)
    data, earlier = timed_in(of, name)
    return one, largest(steps(data, one)), short_gpu(data.gpu), earlier


def way(one: Ledger) -> dict[str, Any]:
    """From one language's best kernel to the flagship: the table and, from core Triton's, the drawings."""
    lines = ledger.lines(one)
    is_known = one.gap and any(line.size for line in lines if line.counts)
    widths = (gap_waterfall.WIDE, gap_waterfall.NARROW) if is_known and one.start == TRITON else ()
    start = ledger.STARTS[one.start]
    return {
        "ledger": one,
        "start": start,
        "is_known": is_known,
        "lines": lines,
        "told": ledger.told(lines),
        "drawings": [
            Markup(gap_waterfall.waterfall(one, lines, width, f"From {start} to the flagship")) for width in widths
        ],
    }


def texts(of: Rows, data: Dataset) -> dict[str, Markup]:
    """Of each term, and "" for the text above all."""
    intro, *parts = re.split(r"<h2>(\w+)</h2>\n", prose.render("pages/gap", data, of.claims) or "")
    return {"": Markup(intro), **dict(zip(parts[::2], map(Markup, parts[1::2]), strict=True))}


def term_page(of: Rows, start: str, term: Term) -> dict[str, Any]:
    """A term's size on each problem, its text and what bears out its cause."""
    data, found = ledger.found(of)
    ways = [one.from_(start) for one in found]
    lines = [(one, line) for one in ways for line in one.lines if line.term.name == term.name]
    orders = (ledger.orders(data, one, term) for one in ways)
    return {
        "term": term,
        "language": ledger.LANGUAGES[start],
        "is_other": start in (GLUON, TLX),
        "sizes": [(one.problem, line.size, *ledger.gains(one, line)) for one, line in lines],
        "text": texts(of, data)[term.name],
        "known": set(of.known),
        "cause": CAUSES[term.cause],
        "gain": ledger.gain,
        "has_losses": term.cause != UNEXPLAINED and any(line.size and line.size.value < 0 for _, line in lines),
        "disagrees": term.cause != UNEXPLAINED and any(line.disagrees for _, line in lines),
        "evidence": ledger.evidence(term),
        "orders": next(filter(None, orders), []),
    }


def timed_together(timed: Iterable[Row], one: Ledger) -> Iterator[Row]:
    """The rows of a way's kernels, in the groups that timed every kernel of its sum."""
    programs = {row["program"] for row in one.rows.values()}
    whole = {one.rows[kernel]["program"] for kernel in one.whole}
    here = [row for row in timed if row.program in programs]
    for rows in grouped(here, lambda row: (row.experiment, row.assembler, row.environment, row.group)).values():
        if whole and whole <= {row.program for row in rows}:
            yield from rows


def download(data: Dataset, ways: Sequence[dict[str, Any]]) -> downloads.Download:
    """The terms of every way, with the rows behind them."""
    lines = [
        {
            "problem": one["ledger"].problem.slug,
            "from": one["ledger"].start,
            "term": line.term.name,
            "cause": ledger.cause(line),
            "percent": percent(line.size.value) if line.size else None,
            "prices_percent": " ".join(f"{percent(price.value):.3f}" for price in line.prices),
            "part_of": line.term.part_of,
            "note": line.why,
        }
        for one in ways
        for line in one["lines"]
    ]
    timed = [row for row in data.rows if row.kind == "timing" and row.usable]
    return downloads.Download(NAME, lines, [row for one in ways for row in timed_together(timed, one["ledger"])])
