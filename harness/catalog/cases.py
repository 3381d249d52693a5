"""A case is one measurement; every list of cases is made here. Standard library only."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.catalog import own, sources, techniques, tiles
from harness.catalog.entries import NamedExperiment, Tile
from harness.operators.protocol import Problem


@dataclass(frozen=True)
class Case:
    """What one measurement is of. `technique` and `tile` are None for library peers. `kernel` is a user's own, of
    backend own: it has no technique, and a tile where it is a .cu file."""

    experiment: str
    technique: str | None
    backend: str
    problem: Problem
    tile: Tile | None
    kernel: own.Kernel | None = None

    def __post_init__(self) -> None:
        if self.technique and "/" in self.technique:  # operator/name: the problem says the operator
            object.__setattr__(self, "technique", self.technique.rpartition("/")[2])

    @property
    def is_peer(self) -> bool:
        return self.technique is None and self.kernel is None

    @property
    def name(self) -> str | None:
        """The technique, or what rows call the user's kernel; None for a peer."""
        return self.kernel.name if self.kernel else self.technique

    def __str__(self) -> str:
        parts = (self.name, self.backend, self.problem.slug, self.tile and self.tile.slug)
        return " ".join(part for part in parts if part)


def source_sha256(case: Case) -> str | None:
    """Hash of the kernel's files; None for peers, and where the kernel has no file."""
    try:
        if case.kernel:
            return own.source_sha256(case.kernel)
        return case.technique and sources.source_sha256(case.backend, techniques.at(case.technique, case.problem).path)
    except FileNotFoundError:
        return None


def same_program(case: Case) -> str | None:
    """The technique that this twin only re-exports; None for a twin with a program of its own."""
    return case.technique and sources.same_program(techniques.at(case.technique, case.problem).path, case.backend)


def declined(case: Case) -> str | None:
    """The registry's reason to decline a technique's case, which has a tile; None where it takes it."""
    assert case.technique is not None, f"{case}: it is about no technique"
    assert case.tile is not None, f"{case}: a technique needs a tile"
    return techniques.unsupported(techniques.at(case.technique, case.problem), case.backend, case.problem, case.tile)


SameProgram = Callable[[Case], str | None]
"""Type of `same_program`; a loader may bring another."""


def origin(case: Case, same_program: SameProgram = same_program) -> str:
    """The technique that holds this case's program, once all re-exports are followed: often its own."""
    assert case.technique is not None
    while (name := same_program(case)) is not None:
        case = replace(case, technique=name)
    assert case.technique is not None
    return case.technique


def of_experiment(experiment: NamedExperiment, gpu: str | None = None) -> list[Case]:
    """Every cell of the experiment, problem by problem.

    Where `tune` has chosen no tile on `gpu` (a slug such as h200) yet, the reference tile is alone; in an experiment
    of "best" tiles alone the case has no tile. An experiment of gates alone checks every twin that takes the problem:
    one that declines the reference tile at the tile that `tune` chose, or at the first that it would try."""

    found: list[Case] = []
    for problem in experiment.problems:

        def series(name: str, problem: Problem = problem) -> list[str]:
            return sources.series(experiment.backends, techniques.at(name, problem).path)

        cells: list[tuple[str | None, str, Tile | None]] = [(None, peer, None) for peer in experiment.peers]
        for name in experiment.techniques:
            if problem not in experiment.where.get(name, experiment.problems):
                continue
            for backend in series(name):
                chosen = _tiles(experiment.tiles, name, backend, problem, gpu)
                if not experiment.modes:
                    chosen = [_taken(Case(experiment.name, name, backend, problem, tile), gpu) for tile in chosen]
                cells += [(name, backend, tile) for tile in chosen]
        if experiment.at_its_tile and "cuda" in experiment.backends:
            best = tiles.best_tile(experiment.techniques[0], "cuda", problem, gpu)
            cells += [(name, "cuda", best) for name in experiment.at_its_tile]
        for where, name, tile, *only in experiment.cells:
            if where == problem:
                wanted = only or experiment.backends
                cells += [(name, backend, tile) for backend in series(name) if backend in wanted]
        found += [Case(experiment.name, name, backend, problem, tile) for name, backend, tile in cells]
    return list(dict.fromkeys(found))


def _tiles(
    choices: Sequence[str], technique: str, backend: str, problem: Problem, gpu: str | None
) -> list[Tile | None]:
    """The tiles that `choices` ("reference", "best", "chosen") name. Where there is no best one yet, it is left out
    beside the reference."""
    reference = techniques.reference_tile(techniques.at(technique, problem), problem.tile_key)
    best = tiles.best_tile(technique, backend, problem, gpu)
    named = {"reference": reference, "best": best, "chosen": best or reference}
    return [named[choice] for choice in choices if named[choice] or "reference" not in choices]


def _taken(case: Case, gpu: str | None) -> Tile | None:
    """The case's tile, or one that the twin takes in its place; the tile itself where it takes none."""
    if case.tile is None or case.technique is None or declined(case) is None:
        return case.tile
    best = tiles.best_tile(case.technique, case.backend, case.problem, gpu)
    if best and declined(replace(case, tile=best)) is None:
        return best
    others = techniques.grid(techniques.at(case.technique, case.problem), case.backend, case.problem)
    return next(iter(others), case.tile)


def at_reference_tiles(
    experiment: str, names: Iterable[str], backends: Sequence[str], problems: Sequence[Problem]
) -> list[Case]:
    """Every technique at its reference tile, in those of the languages that have it."""
    return [
        Case(
            experiment,
            name,
            backend,
            problem,
            techniques.reference_tile(techniques.at(name, problem), problem.tile_key),
        )
        for name in names
        for first in problems[:1]
        for backend in sources.series(backends, techniques.at(name, first).path)
        for problem in problems
    ]


def of_grids(
    names: Sequence[str],
    backends: Sequence[str],
    problems: Iterable[Problem],
    same_program: SameProgram = same_program,
) -> list[Case]:
    """Every tile that a backend's grid holds for a technique and problem, of programs that are no other's."""
    return [
        case
        for problem in problems
        for name in names
        for backend in sources.series(backends, techniques.at(name, problem).path)
        for tile in techniques.grid(techniques.at(name, problem), backend, problem)
        for case in [Case("tune", name, backend, problem, tile)]
        if origin(case, same_program) not in {other.rpartition("/")[2] for other in names if other != name}
    ]
