"""Rows -> reports/site/: a static site that needs no network, no server and no script.

Text from rows reaches a page through autoescaping templates only.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import operators
from harness.catalog import sources, text
from harness.catalog.techniques import SERIES, rungs
from harness.rows import frame, reading, results, stats
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset
from reports.data.loading import load, of_compilers, proofs
from reports.data.names import LANGUAGES, anchor, cell_title, label, page_of, score_title, title
from reports.facts.answer import beside, certainty, over_one, printed
from reports.facts.counters import waited_for
from reports.facts.expressibility import said
from reports.facts.gains import plain
from reports.pages import (
    answers,
    common,
    correctness,
    findings,
    guide,
    learn,
    listing,
    overview,
    own,
    prose,
    search,
    technique,
)
from reports.pages.common import Page, Rows, anchored

ROOT = Path(__file__).resolve().parent
MENU = {
    "index.html": "Answer",
    findings.PATH: "Findings",
    learn.PATH: "Learn",
    "techniques.html": "Techniques",
    "gap.html": "The gap",
    "data.html": "Method and data",
}
SECTIONS = {
    "index": "index.html",
    "answer/": "index.html",
    "technique/": "techniques.html",
    "proof/": "techniques.html",
    "article/": "gap.html",
    "gap/": "gap.html",
}
"""How a page's path begins -> the entry of the menu that it belongs to, where that is not Method and data."""
SUMMARY = "What can Triton not express, and what does it cost? Every optimization twice, measured."

PROCESSES = 4
"""Draw at most: each holds all rows."""

Progress = Callable[[int, int, str], None]


def build(
    output: Path = ROOT / "site",
    *,
    recorded: Path = ROOT / "recorded",
    runs: Iterable[Path] | None = None,
    hashes: reading.Hashes | None = None,
    tables: Path | None = None,
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
        broken, unknown = site.draw(Path(folder, "drawn"), progress or _print_progress)
        place = output.resolve()  # the target of a link
        if place.exists():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(folder, "drawn"), place)
    for claim in broken:
        print(f"claim does not hold for these rows: {claim}", file=sys.stderr)
    for claim in unknown:
        print(f"claim not known, because no row of this version has its numbers: {claim}", file=sys.stderr)
    return output / "index.html"


class Site:
    """The pages of a site, and the rows that they are made from. For the arguments see `build`."""

    @frame.uncollected()
    def __init__(
        self,
        recorded: Path,
        runs: Sequence[Path],
        hashes: reading.Hashes | None = None,
        tables: Path | None = None,
        only: Collection[str] = (),
    ) -> None:
        self._recorded, self._runs, self._hashes = recorded, runs, hashes
        self.compiled = proofs(recorded, runs)
        self.known = said(self.compiled)
        self.claims = prose.Claims()
        self.rows: dict[str, Rows] = {}
        for name in operators.names():
            datasets = load(recorded, runs, hashes, tables, name)
            empty = Dataset("", False, (), operator=operators.get(name))
            main = next((data for data in datasets if data.timings()), empty)
            self.rows[name] = Rows(main, datasets, self.known, self.claims, self.rows)
        self.main = self.rows[operators.FIRST].main
        self._first = self.rows[operators.FIRST].datasets or [self.main]
        self.pages = list(self._all_pages())
        self._environment = environment("; ".join(data.provenance() for data in self._first), self.claims)
        self.pages = [page for page in self.pages if not only or page.path in only]

    def draw(self, folder: Path, progress: Progress) -> tuple[list[str], list[str]]:
        """Writes the pages and the programs that they link to. Returns the claims that are broken, and unknown ones.

        Processes are forked, so that they share the rows, the compiled templates and the library that draws.
        """
        for name in self._environment.list_templates(extensions=["html"]):
            self._environment.get_template(name)
        import_module("seaborn")
        global _write
        _write = partial(self.write, folder)
        workers = min(PROCESSES, len(os.sched_getaffinity(0)), len(self.pages))
        broken: list[str] = []
        unknown: list[str] = []
        with get_context("fork").Pool(workers) if workers > 1 else contextlib.nullcontext() as pool:
            drawn = (pool.imap if pool else map)(_written, range(len(self.pages)))
            for done, (path, *claims) in enumerate(drawn, 1):
                progress(done, len(self.pages), path)
                broken += claims[0]
                unknown += claims[1]
        has_proofs = any(page.template == "proof.html" for page in self.pages)
        for path in sorted(overview.programs(self.known)) if has_proofs else ():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources.ROOT / path, folder / path)
        (folder / search.PATH).write_text(search.script())
        return sorted(set(broken)), sorted(set(unknown))

    def write(self, folder: Path, number: int) -> tuple[str, list[str], list[str]]:
        """A page, after the files beside it; its path, its claims that are broken, and those that are unknown."""
        page = self.pages[number]
        self.claims.broken.clear()
        self.claims.unknown.clear()
        variables = {"page": page.path, "up": "../" * page.path.count("/"), **page.variables()}
        text = anchored(self._environment.get_template(page.template).render(variables))
        files = chain.from_iterable(one.files() for one in variables.get("files", ()))
        for path, content in [*files, (page.path, text)]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return page.path, list(self.claims.broken), list(self.claims.unknown)

    def _all_pages(self) -> Iterator[Page]:
        every = [data for rows in self.rows.values() for data in rows.fresh_first]
        for name, rows in self.rows.items():
            if module := common.of_operator(name):
                yield from module.pages(rows)
        every_gpu = {name: rows.datasets or [rows.main] for name, rows in self.rows.items()}
        yield Page(findings.PATH, "findings.html", self._findings)
        yield Page(learn.PATH, "learn.html", partial(learn.page, every_gpu, self.known, self.claims))
        yield Page("techniques.html", "techniques.html", partial(overview.techniques_page, self.rows, self.compiled))
        for one in rungs():
            yield Page(page_of(one), "technique.html", partial(technique.page, self.rows[one.operator], one))
        for name in dict.fromkeys(name for name, _ in self.known):
            yield Page(f"proof/{name}.html", "proof.html", partial(overview.proof, self.rows, name))
        yield Page(correctness.PATH, "correctness.html", partial(correctness.page, every))
        most = max(self._first, key=lambda data: len(data.environments))
        yield Page("regressions.html", "regressions.html", partial(overview.regressions, most))
        for name in guide.TITLES:
            yield Page(f"guide/{name}.html", "guide.html", partial(guide.page, name))
        yield Page("data.html", "data.html", partial(overview.data_page, every))

    def _findings(self) -> dict[str, Any]:
        code = of_compilers(self._recorded, self._runs, self._hashes)
        timed = (data for data in self._first if findings.TIMED in data.experiments)
        return findings.page(next(timed, self.main), self.compiled, code, self.claims, self._first)


_write: Callable[[int], tuple[str, list[str], list[str]]]
"""Writes a page by its number; set before processes fork, because a bound method with all rows is not sent to them."""


def _written(number: int) -> tuple[str, list[str], list[str]]:
    return _write(number)


def ladder(rows: Iterable[Mapping[str, Any]], recorded: Path = ROOT / "recorded") -> list[Mapping[str, Any]]:
    """What is recorded of the GPU of these rows, or of another: the page about the user's kernels compares with it."""
    names = [reading.gpu_name(row) for row in rows if row["kind"] == "environment"]
    return own.recorded_rows(recorded, results.gpu_slug(names[0]) if names else "")


def own_page(rows: Sequence[Mapping[str, Any]], target: Path, ladder: Iterable[Mapping[str, Any]]) -> None:
    """Writes the page about kernels of the user's from the rows of one run of check or bench, beside the ladder's."""
    target.write_text(anchored(environment().get_template("own.html").render(own.page(rows, ladder))))


def readme_figures(output: Path, recorded: Path = ROOT / "recorded") -> list[Path]:
    """Writes the pictures of README into the folder and returns their paths; none while nothing is recorded."""
    module = common.of_operator(operators.FIRST)
    written: list[Path] = module.write_readme(output, recorded) if module else []
    return written


def section(page: str) -> str:
    """The entry of the menu that is current on a page."""
    return page if page in MENU else next((to for start, to in SECTIONS.items() if page.startswith(start)), "data.html")


def environment(recorded_on: str = "", claims: prose.Claims | None = None) -> Environment:
    """Renders the templates. `recorded_on`: what the foot of a page tells of the rows."""
    compiled = sources.CACHE / "templates"
    compiled.mkdir(parents=True, exist_ok=True)
    made = Environment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: text.plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=FileSystemBytecodeCache(str(compiled)),
    )
    style = (ROOT / "templates" / "style.css").read_text() + listing.style()
    made.globals |= {
        "style": Markup(style),
        "script": Markup((ROOT / "templates" / "script.js").read_text()),
        "menu": MENU,
        "section": section,
        "summary": SUMMARY,
        "title_of": title,
        "page_of": page_of,
        "score_of": score_title,
        "interval_of": stats.describe,
        "waited_for": waited_for,
        "series": SERIES,
        "label": label,
        "language_of": LANGUAGES.__getitem__,
        "cell_title": cell_title,
        "between": common.between,
        "over_one": over_one,
        "certainty": certainty,
        "beside": beside,
        "share": printed,
        "clone": answers.clone(ROOT.parent),
        "recorded_on": recorded_on,
        "claim": claims or prose.Claims(),
    }
    made.filters |= {
        "spread": common.spread,
        "tile": tile_slug,
        "slug": reading.slug,
        "plain": plain,
        "anchor": anchor,
    }
    return made


def _print_progress(done: int, total: int, page: str) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else ""
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}report {done}/{total} {page}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build())
