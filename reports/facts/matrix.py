"""The matrix of the first page: what each language can say of the techniques that people know by name, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.catalog import techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import TECHNIQUES
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point
from reports.facts import answer, processes, steps, tuning
from reports.facts.expressibility import Said
from reports.facts.processes import Spread

LANGUAGES = {"triton": "core Triton", "gluon": "Gluon", "tlx": "TLX", "cuda": "CUDA"}


@dataclass(frozen=True)
class Asked:
    """A row. `cells`: techniques that may have grades, `timed`: techniques that may have a cost; the first that does
    counts."""

    title: str
    cells: tuple[str, ...]
    timed: tuple[str, ...]


def _asked(title: str, *cells: str, timed: tuple[str, ...] = ()) -> Asked:
    return Asked(title, cells, timed or cells)


FIRST = (
    _asked("TMA loads", "tma_loads", timed=("tma_swizzle",)),
    _asked("Warp specialization", "producer_consumer", "warp_specialized"),
    _asked("Manual swizzle, padding", "padded_rows"),
)
"""Those that are asked about first."""
REST = (
    _asked("Grid order for L2", "l2_grid_order"),
    _asked("Lazy rescale", "lazy_rescale"),
    _asked("XOR swizzle", "xor_swizzle"),
    _asked("wgmma", "wgmma", "mma_choice", timed=("wgmma",)),
    _asked("Ring of mbarriers", "mbarrier_ring"),
    _asked("Asynchronous copies", "cp_async_pipeline"),
    _asked("Softmax overlaps wgmma", "overlapped_softmax"),
    _asked("Named barriers", "named_barriers", "exp_lock", "softmax_lock", timed=("exp_lock", "softmax_lock")),
    _asked("Registers by role", "setmaxnreg_consumers"),
    _asked("Tile not a power of two", "wide_tile"),
    _asked("Cluster multicast", "cluster_multicast"),
)
KNOWN = {technique.name: technique for technique in TECHNIQUES}
ORDER = {"direct": 0, "automatic": 1, "hint": 2, "hatch": 3, "inexpressible": 4, None: 5}


@dataclass(frozen=True)
class Cost:
    """Triton over CUDA, both with one class of tensor-core instructions. `same`: at CUDA's reference tile; `best`: each
    at its best tile."""

    technique: str
    same: Spread | None
    best: Spread | None
    spills: int
    """Bytes a thread that Triton's kernel spills at that tile."""
    dropped: bool
    """Triton's source asks for the technique, and its machine code shows that the compiler did not do it."""
    tried: tuple[int, int] | None = None
    """Tiles that were tried in Triton and in CUDA for `best`, where they are unlike."""

    @property
    def known(self) -> bool:
        return bool(self.same or self.best)

    @property
    def linked(self) -> bool:
        """Whether a ratio goes over the anchors of two groups."""
        return any(spread is not None and spread.linked for spread in (self.same, self.best))


@dataclass(frozen=True)
class Line:
    title: str
    technique: str | None
    """The rung that the row links to; None where there is none yet."""
    said: dict[str, Said]
    cost: Cost
    gain: Spread | None
    """What the technique buys in CUDA, over its parent at the reference tile."""


def lines(data: Dataset, problem: Problem, said: Mapping[tuple[str, str], Said]) -> tuple[list[Line], list[Line]]:
    """Those that are asked about first, then the rest by what core Triton can do, so that its column falls in order."""
    first, rest = ([_line(data, problem, asked, said) for asked in some] for some in (FIRST, REST))
    return first, sorted(rest, key=lambda line: ORDER[line.said["triton"].grade])


def said_of(
    technique: str, said: Mapping[tuple[str, str], Said], languages: Iterable[str] = LANGUAGES
) -> dict[str, Said]:
    """Language -> what it says of one technique."""
    return {language: said.get((technique, language), Said(technique)) for language in languages}


def counts(found: Sequence[Line], language: str) -> dict[str | None, int]:
    """Grade -> how many techniques have it in a language; None: not probed, or with a fault."""
    grades = [line.said[language].counts for line in found]
    return {grade: grades.count(grade) for grade in ORDER}


def cost(data: Dataset, problem: Problem, name: str) -> Cost:
    """Of a technique of the registry; without numbers where it is none, or was not timed in both languages."""
    known = KNOWN.get(name)
    if known is None:
        return Cost(name, None, None, 0, dropped=False)
    found: dict[str, Spread | None] = {}
    points: dict[str, list[Point]] = {}
    for policy in steps.POLICIES:
        points[policy] = _together(data, problem, [(known, "triton"), (known, "cuda")], policy)
        classes = {(point.row and point.row.mma) for point in points[policy]}
        found[policy] = processes.over(data, *points[policy]) if len(classes) == 1 else None
    spills = steps.spill_bytes(data, points["reference"][0])
    dropped = steps.hint_dropped(data, known, "triton", problem, points["reference"][0])
    tried = tuning.tried(data, name, "triton", problem), tuning.tried(data, name, "cuda", problem)
    unlike = tried if found["best"] and tuning.are_unlike(*tried) else None
    return Cost(name, found["reference"], found["best"], spills, dropped, unlike)


def gain(data: Dataset, problem: Problem, name: str) -> Spread | None:
    """In CUDA over the parent, both at the reference tile."""
    known = KNOWN.get(name)
    parent = known and techniques.parent(known)
    if known is None or parent is None:
        return None
    return processes.over(data, *_together(data, problem, [(known, "cuda"), (parent, "cuda")], "reference"))


def _together(data: Dataset, problem: Problem, kernels: Sequence[tuple[Technique, str]], policy: str) -> list[Point]:
    """Of the experiment that interleaves all kernels of the matrix, where it has these; else of those that time the
    ladders, whose rows may never have met."""
    for experiments in ([answer.COSTS], None):
        found = [steps.point_of(data, problem, *kernel, policy, experiments) for kernel in kernels]
        if all(point.counts for point in found):
            break
    return found


def _line(data: Dataset, problem: Problem, asked: Asked, said: Mapping[tuple[str, str], Said]) -> Line:
    probed = {name for name, _ in said}
    cell = next((name for name in asked.cells if name in probed), asked.cells[0])
    costs = [cost(data, problem, name) for name in asked.timed]
    chosen = next((one for one in costs if one.known), costs[0])
    own = next((name for name in (chosen.technique, *asked.timed, *asked.cells) if name in KNOWN), None)
    return Line(asked.title, own, said_of(cell, said), chosen, gain(data, problem, chosen.technique))
