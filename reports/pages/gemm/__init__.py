"""The pages of matrix products: the answer, for each GPU that has rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from harness.catalog.entries import Technique
from reports.data.dataset import Dataset
from reports.facts import answer as facts
from reports.pages.common import Line, Page, Rows
from reports.pages.gemm import answer, index
from reports.pages.prose import Number

BETWEEN = "nothing between the products"
"""Why the languages differ as little as they do."""


def pages(rows: Rows) -> Iterator[Page]:
    gpus = index.gpus(rows)
    for path, data in gpus.items():
        yield Page(path, "gemm/index.html", partial(index.page, rows, data, gpus))


def line(rows: Rows, gpu: str) -> Line | None:
    """Of this GPU where its rows are there, else of the first one that has any; None without a ladder."""
    shown = index.gpus(rows)
    if not shown:
        return None
    path, data = next(((path, data) for path, data in shown.items() if data.gpu == gpu), next(iter(shown.items())))
    found = facts.answer(data, answer.RACE)
    assert found, f"{data.gpu}: it timed the ladder"
    title = data.operator.problem_title(found.problem).partition("  ")[0]
    return Line(data.operator.title, path, BETWEEN, title, found.gpu, facts.choices(found))


def parts(technique: Technique) -> list[tuple[str, dict[str, Any]]]:
    """None: a technique's page shows rows alone."""
    return []


def references(data: Dataset) -> dict[str, Callable[..., Number]]:
    """None beyond those of every operator."""
    return {}
