"""Experiments by name: the only place that imports experiments/<operator>/<name>.py. Standard library only."""

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from harness import operators
from harness.catalog.entries import NamedExperiment


def files() -> Mapping[str, Path]:
    """The file of every experiment, by its name; operator/name where an earlier operator has one of that name."""
    return _files(operators.names())


@cache
def _files(of: tuple[str, ...]) -> Mapping[str, Path]:
    """Of these operators. Typer asks for the names of experiments dozens of times a command."""
    found = [
        (operator, path)
        for operator in of
        for path in sorted((operators.root(operator) / "experiments" / operator).glob("[!_]*.py"))
    ]
    named: dict[str, Path] = {}
    for operator, path in found:
        named[f"{operator}/{path.stem}" if path.stem in named else path.stem] = path
    return named


OfProblem = TypeVar("OfProblem")


def distinct(draw_one: Callable[[Callable[[], float]], OfProblem]) -> tuple[OfProblem, ...]:
    """A thousand different problems, each of which `draw_one` makes of random numbers from 0 to 1: by Random.random
    alone, whose numbers are the same in every version of Python."""
    draw = Random(2026).random
    found: dict[OfProblem, None] = {}
    while len(found) < 1000:
        found[draw_one(draw)] = None
    return tuple(found)


def names() -> list[str]:
    return sorted(files())


def full_names() -> list[str]:
    return [f"{path.parent.name}/{path.stem}" for path in files().values()]


def shown() -> dict[str, str]:
    """Of every experiment's name what a command takes for it: operator/name where several operators have it."""
    found = files()
    stems = [path.stem for path in found.values()]
    return {
        name: f"{path.parent.name}/{path.stem}" if stems.count(path.stem) > 1 else path.stem
        for name, path in sorted(found.items())
    }


def load(name: str) -> NamedExperiment:
    """EXPERIMENT of an experiment's file. Raises ModuleNotFoundError where there is no such file."""
    return _named(_module(name), "EXPERIMENT")


def question(name: str) -> str:
    """What the experiment asks, in one sentence: the first line of its file's docstring."""
    return str(_module(name).__doc__).partition("\n")[0]


def without_gpu(name: str) -> NamedExperiment | None:
    """The small one that the file names WITHOUT_GPU; None where thread by thread its problems would take hours."""
    module = _module(name)
    return _named(module, "WITHOUT_GPU") if hasattr(module, "WITHOUT_GPU") else None


def about_articles() -> list[str]:
    return [name for name in names() if name.rpartition("/")[2].startswith("seed_")]


def article(name: str) -> Any:
    return _module(name).ARTICLE


def _named(module: Any, attribute: str) -> NamedExperiment:
    return NamedExperiment(**vars(getattr(module, attribute)), name=module.__name__.rpartition(".")[2])


def _module(name: str) -> Any:
    known = {**{f"{path.parent.name}/{path.stem}": path for path in files().values()}, **files()}
    if name not in known:
        raise ModuleNotFoundError(f"experiment: got {name!r}, expected one of {', '.join(names())}")
    operator, stem = known[name].parent.name, known[name].stem
    package = "" if operators.root(operator) == operators.ROOT else f"harness.operators.{operator}."
    return importlib.import_module(f"{package}experiments.{operator}.{stem}")
