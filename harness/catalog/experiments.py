"""Experiments by name: the only place that imports experiments/<operator>/<name>.py. Standard library only."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog.entries import Experiment


def files() -> dict[str, Path]:
    """The file of every experiment, by its name; a name that several operators have is operator/name."""
    found = [
        (operator, path)
        for operator in operators.names()
        for path in sorted((operators.root(operator) / "experiments" / operator).glob("*.py"))
        if path.stem != "__init__"
    ]
    stems = [path.stem for _, path in found]
    return {f"{of}/{path.stem}" if stems.count(path.stem) > 1 else path.stem: path for of, path in found}


def names() -> list[str]:
    """Every experiment that has a file."""
    return sorted(files())


def full_names() -> list[str]:
    """operator/name of every experiment."""
    return [f"{path.parent.name}/{path.stem}" for path in files().values()]


def load(name: str) -> Experiment:
    """EXPERIMENT of an experiment's file. Raises ModuleNotFoundError where there is no such file, KeyError that lists
    the operators where several have it."""
    experiment: Experiment = _module(name).EXPERIMENT
    return experiment


def question(name: str) -> str:
    """What the experiment asks, in one sentence: the first line of its file's docstring."""
    return str(_module(name).__doc__).partition("\n")[0]


def without_gpu(name: str) -> Experiment | None:
    """The small one that the file names WITHOUT_GPU; None where thread by thread its problems would take hours."""
    experiment: Experiment | None = getattr(_module(name), "WITHOUT_GPU", None)
    return experiment


def about_articles() -> list[str]:
    """Experiments that are about an article."""
    return [name for name in names() if name.rpartition("/")[2].startswith("seed_")]


def article(name: str) -> Any:
    """ARTICLE of an experiment's file."""
    return _module(name).ARTICLE


def _module(name: str) -> Any:
    operator, _, stem = name.rpartition("/")
    having = [path for path in files().values() if path.stem == stem and operator in ("", path.parent.name)]
    if len(having) > 1:
        all_of_them = ", ".join(f"{path.parent.name}/{stem}" for path in having)
        raise KeyError(f"experiment: got {name!r}, expected one of {all_of_them}")
    if not having:
        raise ModuleNotFoundError(f"experiment: got {name!r}, expected one of {', '.join(names())}")
    operator = having[0].parent.name
    package = "" if operators.root(operator) == operators.ROOT else f"harness.operators.{operator}."
    return importlib.import_module(f"{package}experiments.{operator}.{stem}")
