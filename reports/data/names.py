"""What things are called on pages and in figures."""

import re
from typing import Any

from harness import operators
from harness.catalog import techniques
from harness.catalog.entries import Technique

LABELS = {
    "cuda": "CUDA",
    "triton": "Triton",
    "triton_native": "Triton with wgmma",
    "gluon": "Gluon",
    "tlx": "TLX",
    "hatch": "Triton, a hatch",
}
LANGUAGES = {"triton": "core Triton", "gluon": "Gluon", "tlx": "TLX", "cuda": "CUDA"}
LADDER_LANGUAGES = {name: LANGUAGES[name] for name in ("triton", "gluon", "cuda")}
SERIES_OF_A_RATIO = {"triton_native": "core Triton"}


def short_gpu(name: str) -> str:
    """Less its maker and its memory: NVIDIA H100 80GB HBM3 -> H100."""
    return re.sub(r"^NVIDIA | \d+GB( HBM\w+)?$", "", name)


def label(backend: str) -> str:
    """The name of a backend for people, a version kept: gluon@3.9.0 -> Gluon 3.9.0."""
    name, _, version = backend.partition("@")
    names = (LABELS, *(operator.labels for operator in operators.every()))
    return f"{next((of[name] for of in names if name in of), name)} {version}".strip()


def score_title(name: str) -> str:
    """An entry of the scorecard for people: triton_over_cuda -> Triton over CUDA."""
    ours, over, theirs = name.partition("_over_")
    return f"{SERIES_OF_A_RATIO.get(ours, label(ours))} over {label(theirs)}" if over else label(name)


def cell_title(problem: Any) -> str:
    return operators.of(problem).problem_title(problem)


def short_title(problem: Any) -> str:
    """The same without its sizes."""
    return cell_title(problem).partition("  ")[0]


def themes() -> dict[str, dict[str, str]]:
    """Theme -> technique -> its title, of all operators."""
    found: dict[str, dict[str, str]] = {}
    for operator in operators.every():
        for theme, titles in operator.themes.items():
            found[theme] = {**titles, **found.get(theme, {})}
    return found


def title(technique: str) -> str:
    """XOR swizzle; a name without a title is made readable."""
    titles = (titles[technique] for titles in themes().values() if technique in titles)
    return next(titles, technique.replace("_", " ").capitalize())


def theme(technique: Technique) -> str:
    """The heading below which a technique is listed: its theme, or where it has none, operator and ladder."""
    operator = operators.get(technique.operator)
    ladder = f"{operator.title}: {techniques.ladder_of(technique).title}"
    return next((theme for theme, names in operator.themes.items() if technique.name in names), ladder)


def anchor(heading: str) -> str:
    """The id of a heading: tensor-cores."""
    return "-".join(re.findall(r"[a-z0-9]+", heading.lower()))


def page_of(technique: Technique) -> str:
    return f"technique/{techniques.key(technique).replace('/', '-')}.html"
