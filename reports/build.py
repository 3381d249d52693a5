"""Rows -> reports/site/: a static site that needs no network, no server and no script.

Text from rows reaches a page through autoescaping templates only.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.catalog import experiments as catalog
from harness.catalog import sources, text
from harness.catalog.techniques import LADDERS, SERIES, TECHNIQUES
from harness.operators.attention.problem import Problem
from harness.rows import reading, results, stats
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset
from reports.data.loading import TABLES, load, of_compilers
from reports.data.names import cell_title, label, score_title
from reports.data.questions import question
from reports.data.titles import title
from reports.facts import answer, resources
from reports.facts.expressibility import said
from reports.facts.gains import plain
from reports.facts.roofs import EXPERIMENT as ROOFS
from reports.pages import (
    article,
    common,
    correctness,
    expressibility,
    findings,
    guide,
    index,
    learn,
    ledger,
    listing,
    overview,
    own,
    prose,
    roofs,
    technique,
)
from reports.pages.anchors import anchored

ROOT = Path(__file__).resolve().parent
MENU = {
    "index.html": "Answer",
    findings.PATH: "Findings",
    learn.PATH: "Learn",
    "techniques.html": "Techniques",
    ledger.PATH: "The gap",
    "published.html": "Published ladders",
    "evidence/correctness.html": "Is it right?",
    "regressions.html": "Regressions",
    "guide/reading.html": "Method",
    "data.html": "Data",
}
SECTIONS = {
    "technique/": "techniques.html",
    "ladder/": "data.html",
    "expressibility": "techniques.html",
    "experiment/seed_": "published.html",
    "experiment/": "data.html",
    "guide/": "guide/reading.html",
}
"""How a page's path begins -> the entry of the menu that it belongs to."""
SUMMARY = "What can Triton not express of FlashAttention, and what does it cost? Every optimization twice, measured."

PROCESSES = 4
"""Draw at most: each holds all rows."""

Progress = Callable[[int, int, str], None]


def build(
    output: Path = ROOT / "site",
    *,
    recorded: Path = ROOT / "recorded",
    runs: Iterable[Path] | None = None,
    hashes: reading.Hashes | None = None,
    tables: Path = TABLES,
    progress: Progress | None = None,
    only: Collection[str] = (),
) -> Path:
    """Writes the site and returns the path of its index.html. The old site is replaced when the new one is drawn.

    `runs`: files of fresh rows, by default those of experiments and reports in reports/runs.
    `progress(done, total, page)` follows the pages.
    `only`: the paths of the pages to make, all by default.
    `hashes`: of this checkout's kernels. `tables`: the folder of the tiles chosen for each GPU.
    Raises ValueError that names file and line when a row cannot be read.
    """
    runs = results.fresh_runs(ROOT / "runs") if runs is None else list(runs)
    site = Site(recorded, runs, hashes, tables, only)
    sources.CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="site-", dir=sources.CACHE) as folder:
        broken = site.draw(Path(folder, "drawn"), progress or _print_progress)
        place = output.resolve()  # the target of a link
        if place.exists():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(folder, "drawn"), place)
    for claim in broken:
        print(f"claim does not hold for these rows: {claim}", file=sys.stderr)
    return output / "index.html"


class Site:
    """The pages of a site, and the rows that they are made from. For the arguments see `build`."""

    def __init__(
        self,
        recorded: Path,
        runs: Sequence[Path],
        hashes: reading.Hashes | None = None,
        tables: Path = TABLES,
        only: Collection[str] = (),
    ) -> None:
        self.datasets = load(recorded, runs, hashes, tables)
        timed = [data for data in self.datasets if data.timings()]
        self.main = timed[0] if timed else Dataset("", False, (), hashes)
        self.others = timed[1:]
        self.compiled, self.inspected = of_compilers(recorded, runs, hashes)
        self.known = said(self.compiled)
        self.claims = prose.Claims()
        self._environment = environment(self.main.provenance(), self.claims)
        # each experiment has a page, an article also where nobody measured its steps; the roofs have their own template
        experiments = [(data, name) for data in self.datasets for name in data.experiments if name != ROOFS]
        experiments += [(self.main, name) for name in catalog.about_articles() if name not in self.main.experiments]
        self._environment.globals["experiments"] = [
            (self._path(data, name), name, data) for data, name in [*experiments, (self.main, ROOFS)]
        ]
        self._pages = [page for page in self._all_pages(experiments) if not only or page.path in only]

    def draw(self, folder: Path, progress: Progress) -> list[str]:
        """Writes the pages, several at a time, and the programs that they link to. Returns the claims that are broken.

        Processes are forked, so that they share the rows.
        """
        global _write
        _write = partial(self.write, folder)
        workers = min(PROCESSES, len(os.sched_getaffinity(0)), len(self._pages))
        broken: list[str] = []
        with get_context("fork").Pool(workers) as pool:
            for done, (path, claims) in enumerate(pool.imap(_written, range(len(self._pages))), 1):
                progress(done, len(self._pages), path)
                broken += claims
        for path in sorted(overview.programs(self.known)):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources.ROOT / path, folder / path)
        return sorted(broken)

    def write(self, folder: Path, number: int) -> tuple[str, list[str]]:
        """A page, after the files beside it; its path, and its claims that are broken."""
        page = self._pages[number]
        self.claims.broken.clear()
        variables = {"page": page.path, "up": "../" * page.path.count("/"), **page.variables()}
        text = anchored(self._environment.get_template(page.template).render(variables))
        files = chain.from_iterable(one.files() for one in variables.get("files", ()))
        for path, content in [*files, (page.path, text)]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return page.path, list(self.claims.broken)

    def _path(self, data: Dataset, name: str) -> str:
        """experiment/ladder.html for the main dataset; others carry their GPU in the name."""
        if data is self.main:
            return f"experiment/{name}.html"
        slug = "-".join("".join(c if c.isalnum() else " " for c in data.gpu.lower()).split())
        return f"experiment/{name}-{slug}-{'recorded' if data.recorded else 'here'}.html"

    def _all_pages(self, experiments: Iterable[tuple[Dataset, str]]) -> Iterator[Page]:
        """In the order in which they are made."""
        main, datasets, known = self.main, self.datasets, self.known
        asked = sorted(datasets, key=lambda data: (data.recorded, data is not main))  # fresh rows come first
        yield Page("index.html", "index.html", partial(index.page, main, datasets, known))
        told = partial(findings.page, main, self.compiled, self.inspected, self.claims)
        yield Page(findings.PATH, "findings.html", told)
        yield Page(learn.PATH, "learn.html", partial(learn.page, main, known, self.claims))
        yield Page("techniques.html", "techniques.html", partial(overview.techniques_page, main, known))
        matrix = partial(expressibility.page, self.compiled, known, self.inspected, answer.answer(main), main)
        yield Page("expressibility.html", "expressibility.html", matrix)
        yield Page("published.html", "published.html", partial(overview.published, main))
        yield Page("regressions.html", "regressions.html", partial(overview.regressions, main))
        for which in LADDERS.values():
            yield Page(f"ladder/{which.name}.html", "ladder.html", partial(common.ladder, main, asked, which))
        for one in TECHNIQUES:
            variables = partial(technique.page, main, asked, one, known, self.claims)
            yield Page(f"technique/{one.name}.html", "technique.html", variables)
        yield Page(correctness.PATH, "correctness.html", partial(correctness.page, datasets))
        yield Page(roofs.PATH, "roofs.html", partial(roofs.page, asked))
        yield Page(ledger.PATH, "ledger.html", partial(ledger.page, main, asked, self.claims))
        for data, name in experiments:
            is_article = data is main and name in catalog.about_articles()
            if is_article:
                yield Page(self._path(data, name), "article.html", partial(article.page, datasets, data, name))
            else:
                yield Page(self._path(data, name), "experiment.html", partial(common.experiment, data, name))
        yield Page("guide/reading.html", "guide.html", guide.reading)
        yield Page("guide/cpu.html", "guide.html", guide.cpu)
        yield Page("guide/gpus.html", "guide.html", guide.gpus)
        yield Page("data.html", "data.html", partial(overview.data_page, main, self.others))


class Page(NamedTuple):
    """A page: its path in the site, its template, and what makes the template's variables."""

    path: str
    template: str
    variables: Callable[..., dict[str, Any]]


_write: Callable[[int], tuple[str, list[str]]]
"""Writes a page by its number; set before processes fork, because a bound method with all rows is not sent to them."""


def _written(number: int) -> tuple[str, list[str]]:
    return _write(number)


def ladder(rows: Iterable[Mapping[str, Any]], recorded: Path = ROOT / "recorded") -> list[Mapping[str, Any]]:
    """What is recorded of the GPU of these rows, or of another: the page about the user's kernels compares with it."""
    names = [reading.gpu_name(row) for row in rows if row["kind"] == "environment"]
    return own.recorded_rows(recorded, results.gpu_slug(names[0]) if names else "")


def own_page(rows: Sequence[Mapping[str, Any]], target: Path, ladder: Iterable[Mapping[str, Any]]) -> None:
    """Writes the page about kernels of the user's from the rows of one run of check or bench, beside the ladder's."""
    target.write_text(anchored(environment().get_template("own.html").render(own.page(rows, ladder))))


def section(page: str) -> str:
    """The entry of the menu that is current on a page."""
    return page if page in MENU else next((to for start, to in SECTIONS.items() if page.startswith(start)), "data.html")


def environment(recorded_on: str = "", claims: prose.Claims | None = None) -> Environment:
    """Renders the templates. `recorded_on`: what the foot of a page tells of the rows."""
    made = Environment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: text.plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (ROOT / "templates" / "style.css").read_text() + listing.style()
    made.globals |= {
        "style": Markup(style),
        "script": Markup((ROOT / "templates" / "script.js").read_text()),
        "menu": MENU,
        "section": section,
        "summary": SUMMARY,
        "title_of": title,
        "question_of": question,
        "score_of": score_title,
        "interval_of": stats.describe,
        "roofs": roofs.PATH,
        "published": [one for one in map(catalog.article, catalog.about_articles()) if one.l2_hit_rates],
        "l2_orders": resources.L2_ORDERS,
        "zip": zip,
        "series": SERIES,
        "label": label,
        "cell_title": cell_title,
        "recorded_on": recorded_on,
        "claim": claims or prose.Claims(),
    }
    made.filters |= {
        "spread": common.spread,
        "tile": tile_slug,
        "slug": reading.slug,
        "problem": lambda row: Problem.from_dict(row["problem"]),
        "tflops": reading.tflops,
        "clock_ghz": reading.clock_ghz,
        "per_ghz": common.per_ghz,
        "median_ms": reading.median_ms,
        "reference": reading.is_reference_tile,
        "plain": plain,
        "number": lambda ratio: f"{ratio.value:.2f}" if ratio else prose.NOT_MEASURED,
    }
    return made


def _print_progress(done: int, total: int, page: str) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else ""
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}report {done}/{total} {page}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build())
