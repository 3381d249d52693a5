"""What each language can say of a technique, and what core Triton costs there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.catalog import sources
from harness.catalog.entries import Technique
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Ratio
from reports.data.names import LANGUAGES
from reports.facts import steps
from reports.facts.expressibility import Said

ORDER = {"direct": 0, "automatic": 1, "hint": 2, "hatch": 3, "inexpressible": 4, None: 5}


@dataclass(frozen=True)
class Cost:
    """Triton over CUDA, both with one class of tensor-core instructions. `same`: at CUDA's reference tile; `best`: each
    at its best tile. `program`: the technique whose kernel Triton's twin is again, so that its time is no cost of this
    one. `dropped`: the machine code shows that the compiler did not do what the source asks."""

    same: Ratio | None
    best: Ratio | None
    program: str | None
    dropped: bool


def said_of(
    technique: str, said: Mapping[tuple[str, str], Said], languages: Iterable[str] = LANGUAGES
) -> dict[str, Said]:
    """Language -> what it says of one technique."""
    return {language: said.get((technique, language), Said(technique)) for language in languages}


def cost(data: Dataset, problem: Problem, technique: Technique) -> Cost:
    """Without numbers where it was not timed in both languages."""
    found: dict[str, Ratio | None] = {}
    for policy in steps.POLICIES:
        points = steps.together(data, problem, [(technique, "triton"), (technique, "cuda")], policy)
        classes = {(point.row and point.row.mma) for point in points}
        found[policy] = data.ratio(*points) if len(classes) == 1 else None
    dropped = steps.hint_dropped(data, technique, "triton", problem, points[0])
    return Cost(found["reference"], found["best"], sources.same_program(technique.path, "triton"), dropped)
