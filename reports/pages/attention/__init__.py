"""The pages of attention: the answer, the gap with the five articles, and pictures for its techniques' pages."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from harness.catalog import experiments
from harness.catalog.entries import Technique
from harness.operators.attention.gap import WAYS
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset
from reports.facts import layouts, timelines
from reports.pages.attention import articles, fragments, gap, index, readme
from reports.pages.common import Page, Rows
from reports.pages.prose import NOT_MEASURED, Number

GRID = "flagship_over_fastest"
write_readme = readme.write_all


def pages(rows: Rows) -> Iterator[Page]:
    """The first page first."""
    gpus = index.gpus(rows)
    for path, data in gpus.items():
        yield Page(path, "attention/index.html", partial(index.page, rows, data, gpus))
    yield Page(gap.PATH, "attention/gap.html", partial(gap.page, rows))
    for start, terms in WAYS.items():
        for term in terms:
            yield Page(f"gap/{term.name}.html", "attention/term.html", partial(gap.term_page, rows, start, term))
    for name in experiments.about_articles():
        yield Page(f"article/{name}.html", "attention/article.html", partial(articles.page, rows, name))


def parts(technique: Technique) -> list[tuple[str, dict[str, Any]]]:
    """Drawings of layouts, of fragments and of who works when, and the articles that tell of the technique."""
    about = map(experiments.article, experiments.about_articles())
    shown = {
        "layouts": layouts.LAYOUTS if technique.name in layouts.SHOWN else (),
        "holdings": fragments.HOLDINGS if technique.name in fragments.SHOWN else (),
        "marked_lane": fragments.MARKED,
        "drawn": timelines.drawings(technique.name),
        "told_in": [one for one in about if technique.name in {step.technique for step in one.steps}],
    }
    return [("attention/pictures.html", shown)]


def references(data: Dataset) -> dict[str, Callable[..., Number]]:
    def ahead(which: str, head_dim: int = 0, mask: str = "", tokens: int = 0, tile: str = "") -> Number:
        """The least or the most of the flagship's speed over the fastest library's, over the problems of its grid: of a
        head_dim, with a mask, from so many `tokens` on, and at tiles of a size such as 192x80."""
        cells = [cell for entry in data.scores if entry["name"] == GRID for cell in entry["cells"]]
        values = [
            cell["value"]
            for cell in cells
            if "value" in cell and cell["case"].rpartition(" ")[2].startswith(f"{tile}-" if tile else "")
            if (problem := Problem.parse(cell["problem"])).head_dim == (head_dim or problem.head_dim)
            and problem.mask == (mask or problem.mask)
            and problem.seq_q >= tokens
        ]
        if not values:
            return Number(None, NOT_MEASURED)
        value = {"least": min, "most": max}[which](values)
        return Number(value, f"{value:.2f}×")

    def roof(name: str) -> Number:
        share = index.roof(data, name)
        return Number(share, f"{100 * share:.0f}%") if share else Number(None, NOT_MEASURED)

    return {"ahead": ahead, "roof": roof}
