"""One page as the report writes it, without a site around it, and the data that it is made from."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports import build
from reports.data.dataset import Dataset, Row
from reports.pages import prose
from tests.support import synthetic_rows as synthetic

EMPTY = Dataset("", False, (), {})
"""As where nothing is recorded."""
APART = (
    r"<(script|style|table|pre|figure|svg|code)\b.*?</\1>",
    r'<(dd|a) class="mono".*?</\1>',  # paths and commands
    r'<dl class="byversion">.*?</dl>',
    r'<div class="share">.*?</div>',
    r'<div class="lane">.*?</div>\s*</div>',
)
"""Tables, code and figures."""
PAGES = (
    "index.html",
    "findings.html",
    "learn.html",
    "techniques.html",
    "gap.html",
    "proof/padded_rows.html",
    "article/seed_raw_ptx.html",
    "technique/xor_swizzle.html",
    "technique/pingpong.html",
    "technique/lean_instructions.html",
    "technique/flagship.html",
    "evidence/correctness.html",
    "regressions.html",
    "data.html",
    "guide/reading.html",
)
"""That a reader is led to."""
ANSWERS = ("answer/gemm.html", "answer/attention_backward.html")
"""Those of other operators than the first; libraries that nobody has timed yet keep their places there."""
LONGEST = ("technique/head_by_head.html", "technique/persistent.html", "technique/producer_consumer.html")
"""The other pages with the most words."""
WORDS = 1200
"""A page has at most, as `count_words` counts them."""


@dataclass(frozen=True)
class Recorded:
    """PAGES, ANSWERS and LONGEST in a folder, made from all recorded rows; `broken`: their claims that do not hold."""

    folder: Path
    broken: list[str]


def dataset(rows: list[dict[str, Any]] | None = None, gpu: str = "NVIDIA H200") -> Dataset:
    """Rows as recorded on this GPU, by default the invented ones, of the sources and the tiles of these."""
    found = synthetic.rows() if rows is None else rows
    return Dataset(gpu, True, found, synthetic.hashes(), synthetic.CHOSEN)


def rendered(template: str, variables: Mapping[str, Any], data: Dataset = EMPTY, up: str = "") -> str:
    """`variables`: what the page's module makes. `data`: whose provenance the foot of the page tells. `up`: the way to
    the root of the site."""
    environment = build.environment(data.provenance())
    environment.globals["experiments"] = []
    return environment.get_template(template).render({"page": template, "up": up, **variables})


def of_cells(entry: Mapping[str, Any]) -> str:
    """The table of an entry's cells and the words around it, as pages print them."""
    template = "{% import 'parts.html' as parts %}{{ parts.cells(entry) }}"
    text: str = build.environment("").from_string(template).render(entry=entry)
    return " ".join(text.split())


def texts(data: Dataset) -> dict[str, Callable[..., str]]:
    """What the functions of notes print."""

    def printed(function: Callable[..., object]) -> Callable[..., str]:
        return lambda *arguments, **options: str(function(*arguments, **options))

    return {name: printed(function) for name, function in prose.references(data).items()}


def lines(raw: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows as pages read them."""
    run = synthetic.ENVIRONMENT
    about = {
        "operator": "attention",
        "on": "gpu",
        "experiment": "ladder",
        "environment": run["id"],
        "time": run["time"],
        "backend": "cuda",
    }
    return Dataset("NVIDIA H200", True, [run, *({**about, **row} for row in raw)], synthetic.hashes()).rows


def count_words(page: str) -> int:
    """Words of a page outside tables, code and figures, folds included."""
    page = page.partition("<main")[2].partition("</main>")[0]
    for apart in APART:
        page = re.sub(apart, " ", page, flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"<[^>]*>", " ", page).split())
