"""Experiments and articles by name: the only place that imports experiments/<name>.py. Standard library only."""

from __future__ import annotations

import importlib
from typing import Any

from harness.catalog.problem import Experiment
from harness.catalog.sources import ROOT
from harness.operators.attention.articles import Article

FOLDER = ROOT / "experiments" / "attention"


def names() -> list[str]:
    """Every experiment that has a file."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def load(name: str) -> Experiment:
    """EXPERIMENT of experiments/<name>.py. Raises ModuleNotFoundError when there is no such file."""
    experiment: Experiment = _module(name).EXPERIMENT
    return experiment


def question(name: str) -> str:
    """What experiments/<name>.py asks, in one sentence: the first line of its docstring."""
    return str(_module(name).__doc__).partition("\n")[0]


def without_gpu(name: str) -> Experiment | None:
    """The small one that the file names WITHOUT_GPU; None where thread by thread its problems would take hours."""
    experiment: Experiment | None = getattr(_module(name), "WITHOUT_GPU", None)
    return experiment


def about_articles() -> list[str]:
    """Experiments that are about an article."""
    return [name for name in names() if name.startswith("seed_")]


def article(name: str) -> Article:
    """ARTICLE of experiments/<name>.py."""
    found: Article = _module(name).ARTICLE
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f"experiments.attention.{name}")
