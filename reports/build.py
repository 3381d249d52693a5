"""Rows -> reports/site/: a static site that needs no network, no server and no script.

Text from rows reaches a page through autoescaping templates only.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.catalog import experiments as catalog
from harness.catalog import sources
from harness.catalog.entries import Technique
from harness.catalog.techniques import LADDERS, SERIES, TECHNIQUES
from harness.operators.attention import tiles
from harness.operators.attention.problem import Problem
from harness.rows import intervals, reading, results
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row
from reports.data.loading import load, of_compilers
from reports.data.names import cell_title, label, score_title
from reports.data.questions import question
from reports.data.titles import title
from reports.facts import answer, resources
from reports.facts.expressibility import Known, said
from reports.facts.gains import plain
from reports.facts.roofs import EXPERIMENT as ROOFS
from reports.pages import article as article_pages
from reports.pages import (
    common,
    correctness,
    expressibility,
    guide,
    index,
    ledger,
    listing,
    overview,
    own,
    prose,
    roofs,
)
from reports.pages import technique as technique_page
from reports.pages.anchors import anchored

ROOT = Path(__file__).resolve().parent
MENU = {
    "index.html": "Answer",
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
    tables: Path = tiles.FOLDER,
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
    site = Site(recorded, runs, reading.checkout_hashes() if hashes is None else hashes, tables, only)
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
        self, recorded: Path, runs: Sequence[Path], hashes: reading.Hashes, tables: Path, only: Collection[str] = ()
    ) -> None:
        datasets = load(recorded, runs, hashes, tables)
        compiled, inspected = of_compilers(recorded, runs)
        self._known = said(compiled)
        timed = [data for data in datasets if any(data.timings())]
        main = timed[0] if timed else Dataset("", False, (), hashes)
        self._claims = prose.Claims()
        self._environment = _environment(main.provenance(), self._claims)
        jobs = _jobs(main, datasets, timed[1:], self._known, self._claims, compiled, inspected, hashes)
        self._jobs = [job for job in jobs if not only or job.path in only]
        self._environment.globals["experiments"] = [
            (experiment_path(data, name, main), name, data)
            for data, name in [*_experiments(main, datasets), (main, ROOFS)]
        ]

    def draw(self, folder: Path, progress: Progress) -> list[str]:
        """Writes the pages, several at a time, and the programs that they link to. Returns the claims that are broken.

        Processes are forked, so that they share the rows.
        """
        global _drawn
        _drawn = partial(self.write, folder)
        workers = min(PROCESSES, len(os.sched_getaffinity(0)), len(self._jobs))
        broken: list[str] = []
        with get_context("fork").Pool(workers) as pool:
            for done, (path, claims) in enumerate(pool.imap(_draw, range(len(self._jobs))), 1):
                progress(done, len(self._jobs), path)
                broken += claims
        for path in sorted(overview.programs(self._known)):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources.ROOT / path, folder / path)
        return sorted(broken)

    def write(self, folder: Path, number: int) -> tuple[str, list[str]]:
        """A page, after the files beside it; its path, and its claims that are broken."""
        job = self._jobs[number]
        self._claims.broken.clear()
        variables = {"page": job.path, "up": "../" * job.path.count("/"), **job.variables()}
        text = anchored(self._environment.get_template(job.template).render(variables))
        files = chain.from_iterable(one.files() for one in variables.get("files", ()))
        for path, content in [*files, (job.path, text)]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return job.path, list(self._claims.broken)


_drawn: Callable[[int], tuple[str, list[str]]]
"""Writes a page by its number; set before processes fork, because a bound method with all rows is not sent to them."""


def _draw(number: int) -> tuple[str, list[str]]:
    return _drawn(number)


class Job(NamedTuple):
    """A page: its path in the site, its template, and what makes the template's variables."""

    path: str
    template: str
    variables: Callable[[], dict[str, Any]]


def _experiments(main: Dataset, datasets: Iterable[Dataset]) -> list[tuple[Dataset, str]]:
    """Each experiment with a page of its own, and the dataset that measured it; articles that none did are the main
    one's. The roofs have a template of their own."""
    measured = [(data, name) for data in datasets for name in data.experiments if name != ROOFS]
    return [*measured, *((main, name) for name in catalog.about_articles() if name not in main.experiments)]


def _jobs(
    main: Dataset,
    datasets: Sequence[Dataset],
    others: Sequence[Dataset],
    known: Known,
    claims: prose.Claims,
    compiled: Sequence[Row],
    inspected: Sequence[Row],
    hashes: reading.Hashes,
) -> list[Job]:
    """Every page, in the order in which they are made. `main`: the dataset of the headline, `others`: further ones with
    timings; `compiled` and `inspected`: rows of compilers alone."""
    asked = sorted(datasets, key=lambda data: (data.recorded, data is not main))

    def matrix() -> dict[str, Any]:
        return expressibility.page(compiled, known, inspected, answer.answer(main), main)

    def of_experiment(data: Dataset, name: str) -> Job:
        path = experiment_path(data, name, main)
        if data is main and name in catalog.about_articles():
            return Job(path, "article.html", partial(article_pages.page, datasets, main, name))
        return Job(path, "experiment.html", partial(common.experiment, data, name))

    def of_technique(which: Technique) -> dict[str, Any]:
        return technique_page.page(main, asked, which, known, claims)

    return [
        Job("index.html", "index.html", partial(index.page, main, datasets, known)),
        Job("techniques.html", "techniques.html", partial(overview.techniques_page, main, known)),
        Job("expressibility.html", "expressibility.html", matrix),
        Job("published.html", "published.html", partial(overview.published, main)),
        Job("regressions.html", "regressions.html", partial(overview.regressions, main)),
        *(
            Job(f"ladder/{one.name}.html", "ladder.html", partial(common.ladder, main, asked, one))
            for one in LADDERS.values()
        ),
        *(
            Job(
                f"technique/{one.name}.html",
                "technique.html",
                partial(technique_page.page, main, asked, one, known, claims),
            )
            for one in TECHNIQUES
        ),
        Job(correctness.PATH, "correctness.html", partial(correctness.page, datasets)),
        Job(roofs.PATH, "roofs.html", partial(roofs.page, asked)),
        Job(ledger.PATH, "ledger.html", partial(ledger.page, main, asked, claims)),
        *(of_experiment(*one) for one in _experiments(main, datasets)),
        Job("guide/reading.html", "guide_reading.html", guide.reading),
        Job("guide/cpu.html", "guide_cpu.html", guide.cpu),
        Job("guide/gpus.html", "guide_gpus.html", dict),
        Job("data.html", "data.html", partial(overview.data_page, main, others)),
    ]


def ladder(rows: Iterable[Row], recorded: Path = ROOT / "recorded") -> list[Row]:
    """What is recorded of the GPU of these rows, or of another: the page about the user's kernels compares with it."""
    names = [reading.gpu_name(row) for row in rows if row["kind"] == "environment"]
    return own.recorded_rows(recorded, results.gpu_slug(names[0]) if names else "")


def own_page(rows: Sequence[Row], target: Path, ladder: Iterable[Row]) -> None:
    """Writes the page about kernels of the user's from the rows of one run of check or bench, beside the ladder's."""
    target.write_text(anchored(_environment().get_template("own.html").render(own.page(rows, ladder))))


def section(page: str) -> str:
    """The entry of the menu that is current on a page."""
    return page if page in MENU else next((to for start, to in SECTIONS.items() if page.startswith(start)), "data.html")


def experiment_path(data: Dataset, name: str, main: Dataset) -> str:
    """experiment/ladder.html for the main dataset; others carry their GPU in the name."""
    if data is main:
        return f"experiment/{name}.html"
    slug = "-".join("".join(c if c.isalnum() else " " for c in data.gpu.lower()).split())
    return f"experiment/{name}-{slug}-{'recorded' if data.recorded else 'here'}.html"


def _environment(recorded_on: str = "", claims: prose.Claims | None = None) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (ROOT / "templates" / "style.css").read_text() + listing.style()
    environment.globals |= {
        "style": Markup(style),
        "script": Markup((ROOT / "templates" / "script.js").read_text()),
        "menu": MENU,
        "section": section,
        "summary": SUMMARY,
        "title_of": title,
        "question_of": question,
        "score_of": score_title,
        "interval_of": intervals.described,
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
    environment.filters |= {
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
    return environment


def _print_progress(done: int, total: int, page: str) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else ""
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}report {done}/{total} {page}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build())
