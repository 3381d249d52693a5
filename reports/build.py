"""Rows -> reports/site/: a static site that needs no network, no server and no script.

Text from rows reaches a page through autoescaping templates only.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import articles, scorecard, tiles
from harness.problem import Problem
from harness.techniques import LADDERS, SERIES, TECHNIQUES
from reports import articles as article_pages
from reports import drawing, figures, guide, listing, pages, resources, technique_page
from reports.dataset import Dataset, tile_slug
from reports.loading import load

ROOT = Path(__file__).resolve().parent
GUIDE: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "reading": ("How to read this report", dict),
    "cpu": ("Run the kernels on a CPU", guide.cpu),
}
"""Page -> its title and what makes its variables."""

Progress = Callable[[int, int, str], None]


def build(
    output: Path = ROOT / "site",
    *,
    recorded: Path = ROOT / "recorded",
    runs: Iterable[Path] | None = None,
    hashes: scorecard.Hashes | None = None,
    tables: Path = tiles.FOLDER,
    progress: Progress | None = None,
) -> Path:
    """Writes the site and returns the path of its index.html. The old site is replaced.

    `runs`: files of fresh rows, by default all of reports/runs. `progress(done, total, page)` follows each page.
    `hashes`: of this checkout's kernels. `tables`: the folder of the tiles chosen for each GPU. Raises ValueError that
    names file and line when a row cannot be read.
    """
    runs = sorted((ROOT / "runs").glob("*.jsonl")) if runs is None else runs
    progress = progress or _print_progress
    datasets = load(recorded, runs, scorecard.checkout_hashes() if hashes is None else hashes, tables)
    timed = [data for data in datasets if any(data.timings())]
    main = timed[0] if timed else None
    asked = sorted(datasets, key=lambda data: (data.recorded, data is not main))

    @cache
    def drawn(ladder: str) -> list[pages.Figure]:
        return pages.ladder_figures(main, pages.rungs_of(LADDERS[ladder])) if main else []

    jobs: list[tuple[str, str, Callable[[], dict[str, Any]]]] = [
        ("index.html", "index.html", lambda: {**pages.index(main, drawn), "others": timed[1:]}),
    ]
    for ladder in LADDERS.values():
        jobs.append((f"ladder/{ladder.name}.html", "ladder.html", partial(pages.ladder, main, asked, ladder, drawn)))
    for technique in TECHNIQUES:
        name = f"technique/{technique.name}.html"
        jobs.append((name, "technique.html", partial(technique_page.page, main, asked, technique)))
    jobs.append(("evidence/correctness.html", "correctness.html", partial(pages.correctness, datasets)))
    experiments: list[tuple[Dataset | None, str]] = [(data, name) for data in datasets for name in data.experiments()]
    measured = main.experiments() if main else []
    experiments += [(main, name) for name in articles.names() if name not in measured]
    for data, name in experiments:
        path = experiment_path(data, name, main)
        if data is None or (data is main and name in articles.names()):
            jobs.append((path, "article.html", partial(article_pages.page, datasets, main, name)))
        else:
            jobs.append((path, "experiment.html", partial(pages.experiment, data, name)))
    for name, (_, context) in GUIDE.items():
        jobs.append((f"guide/{name}.html", f"guide_{name}.html", context))

    environment = _environment(main)
    environment.globals["experiments"] = [(experiment_path(d, n, main), n, d) for d, n in experiments]
    shutil.rmtree(output, ignore_errors=True)
    for done, (path, template, context) in enumerate(jobs, 1):
        progress(done, len(jobs), path)
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        variables = {"page": path, "up": "../" * path.count("/"), "data": main, **context()}
        target.write_text(environment.get_template(template).render(variables))
    return output / "index.html"


def experiment_path(data: Dataset | None, name: str, main: Dataset | None) -> str:
    """experiment/ladder.html for the main dataset; others carry their GPU in the name."""
    if data is None or data is main:
        return f"experiment/{name}.html"
    slug = "-".join("".join(c if c.isalnum() else " " for c in data.gpu.lower()).split())
    return f"experiment/{name}-{slug}-{'recorded' if data.recorded else 'here'}.html"


def _environment(main: Dataset | None) -> Environment:
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
        "techniques": TECHNIQUES,
        "ladders": LADDERS,
        "guide": {name: title for name, (title, _) in GUIDE.items()},
        "articles": (published := [articles.load(name) for name in articles.names()]),
        "published": [article for article in published if article.l2_hit_rates],
        "l2_orders": resources.L2_ORDERS,
        "zip": zip,
        "series": SERIES,
        "label": drawing.label,
        "cell_title": figures.cell_title,
        "recorded_on": main.provenance() if main else "nothing recorded yet",
    }
    environment.filters |= {
        "spread": pages.spread,
        "tile": tile_slug,
        "slug": scorecard.slug,
        "problem": lambda row: Problem.from_dict(row["problem"]),
        "tflops": scorecard.tflops,
        "median_ms": scorecard.median_ms,
        "reference": scorecard.is_reference_tile,
    }
    return environment


def _print_progress(done: int, total: int, page: str) -> None:
    end = "\n" if done == total or not sys.stderr.isatty() else ""
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}report {done}/{total} {page}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build())
