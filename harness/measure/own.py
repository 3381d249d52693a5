"""Kernels of the user's beside rungs and peers: the same worker, gate, interleaving and rows, `backend: own`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import operators
from harness.catalog import architectures, experiments, own, sources, techniques, tiles
from harness.catalog.cases import Case
from harness.catalog.entries import NamedExperiment, Tile
from harness.machine import environment
from harness.operators.protocol import Operator, Problem
from harness.rows import fastest
from harness.rows.results import slug_of

FEW_FLOPS = 1e9
"""Of a problem that a CPU does thread by thread in seconds."""
RECORDED = sources.ROOT / "reports" / "recorded"


@dataclass(frozen=True)
class Chosen:
    """What is measured together: `kernels` of the user's, `rungs` and `peers` by name. `backends` are the series of
    the rungs; `tile` is what a .cu file of the user's is built for."""

    kernels: tuple[own.Kernel, ...] = ()
    rungs: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    backends: tuple[str, ...] = techniques.SERIES
    tile: Tile | None = None

    def __post_init__(self) -> None:
        names = [kernel.name for kernel in self.kernels]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"kernel: got {twice} twice, expected other names: rows tell kernels apart by them")
        if self.tile and self.kernels and all(kernel.function for kernel in self.kernels):
            raise ValueError(
                f"tile: got {self.tile.slug}, but {names[0]} is a function, which has tiles of its own; leave it out"
            )


def problems(of: Operator, on: str) -> tuple[Problem, ...]:
    """What a kernel of the user's is checked on by default: the small problems of the operator's experiment
    correctness, and its other ones. On a CPU without those that take minutes there."""
    small = experiments.without_gpu(of.experiment("correctness")) or experiments.load(of.experiment("correctness"))
    every = (*small.problems, *of.other_problems)
    return tuple(problem for problem in every if on == "gpu" or problem.flops < FEW_FLOPS)


def choose(things: Iterable[Callable[..., Any] | str], peers: Sequence[str], tile: Tile | None = None) -> Chosen:
    """Functions, files ("my_kernel.py:attend", "my_kernel.cu") and names of techniques and of `peers`. Raises
    ValueError for what is none of these."""
    kernels: list[own.Kernel] = []
    names: list[str] = []
    libraries: list[str] = []
    for thing in things:
        if not isinstance(thing, str):
            kernels.append(own.of_function(thing))
        elif (found := techniques.find(thing)) and found in techniques.rungs():
            names.append(thing)
        elif own.is_kernel(thing):
            kernels.append(own.parse(thing))
        elif thing in peers:
            libraries.append(thing)
        else:
            expected = ", ".join(("a function", own.EXPECTED, *peers))
            raise ValueError(f"kernel: got {thing!r}, expected {expected} or a technique (`twinkernels list`)")
    return Chosen(tuple(kernels), tuple(names), tuple(libraries), tile=tile)


def cases(experiment: NamedExperiment, chosen: Chosen, gpu: str | None) -> list[Case]:
    """Every kernel of `chosen` on every problem of the experiment, problem by problem. Rungs have the tile that was
    chosen for `gpu` (a slug), where one was, else their reference tile."""
    found = []
    for problem in experiment.problems:
        found += [Case(experiment.name, None, peer, problem, None) for peer in chosen.peers]
        for name in chosen.rungs:
            for backend in sources.series(chosen.backends, techniques.at(name, problem).path):
                found.append(_rung(experiment.name, name, backend, problem, gpu))
        found += [_own(experiment.name, kernel, problem, chosen.tile) for kernel in chosen.kernels]
    return found


def beside_the_best(experiment: NamedExperiment, chosen: Chosen) -> list[Case]:
    """`cases` on this machine's GPU; where no rung and no peer is named, beside the fastest recorded ones and the
    operator's default peers."""
    here = environment.describe()["gpu"]
    gpu = slug_of(here)
    if chosen.rungs or chosen.peers:
        return cases(experiment, chosen, gpu)
    arch = here and architectures.of_capability(here["capability"][0])
    found = []
    for problem in experiment.problems:
        best = fastest.recorded(RECORDED, gpu or "", arch, problem)
        found += [Case(experiment.name, None, peer, problem, None) for peer in operators.of(problem).default_peers]
        found += [_rung(experiment.name, name, backend, problem, gpu) for name, backend in best]
        found += [_own(experiment.name, kernel, problem, chosen.tile) for kernel in chosen.kernels]
    return found


def _rung(experiment: str, name: str, backend: str, problem: Problem, gpu: str | None) -> Case:
    reference = techniques.reference_tile(techniques.at(name, problem), problem.tile_key)
    return Case(experiment, name, backend, problem, tiles.best_tile(name, backend, problem, gpu) or reference)


def _own(experiment: str, kernel: own.Kernel, problem: Problem, tile: Tile | None) -> Case:
    """A .cu file is built for a tile: where none is given, that of the first rung on tensor cores."""
    if kernel.function is None and tile is None:
        rungs = operators.of(problem).techniques
        first = next((rung for rung in rungs if rung.mma != "fma"), rungs[0])
        tile = techniques.reference_tile(first, problem.tile_key)
    return Case(experiment, None, own.BACKEND, problem, None if kernel.function else tile, kernel)
