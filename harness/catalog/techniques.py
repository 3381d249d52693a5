"""The registry: every ladder and every technique, in order, and what is asked about them. Standard library only.

Adding a technique touches three files: cuda_kernels/<operator>/<ladder>/<name>.cu, its twin in triton_kernels and one
entry in harness/operators/<operator>/ladders/<ladder>.py. The name is the file stem, the kernel symbol and the label in
every plot. Where several operators have techniques of one name, each is written operator/name.
"""

from collections.abc import Sequence

from harness import operators
from harness.catalog.entries import Ladder, Technique, Tile
from harness.catalog.tiles import compared_with
from harness.operators.protocol import Problem

TWINS = ("cuda", "triton", "triton_native")
"""Series of one technique. triton_native is the Triton source without DISABLE_MMA_V3, so that it may use wgmma."""

SERIES = (*TWINS, "gluon")
"""TWINS and Gluon, for techniques that have triton_kernels/<operator>/gluon/<ladder>/<name>.py."""

RELEASES = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""The Tritons that are tried, oldest first. A series without a version is of the first, which is installed."""

VERSIONS = {"triton": RELEASES, "triton_native": RELEASES, "gluon": RELEASES, "tlx": ("3.8.0",)}
"""Series -> the Tritons that compile it to cubins, for a machine that has another one. TLX, Meta's extensions of
Triton, is a series in no other way: triton_kernels/<operator>/tlx/<ladder>/<name>.py."""

AS_CUBINS = tuple(f"{series}@{version}" for series, versions in VERSIONS.items() for version in versions)
"""The names of these series as backends, such as gluon@3.9.0."""

HATCH = "hatch"
"""Core Triton past its language, by inline PTX: triton_kernels/<operator>/hatch/<ladder>/<name>.py. No rung's twin."""

RIVALS = ("cute", "cutile")
"""Languages of NVIDIA's own that proofs of expressibility are about, each with its version: cute@4.8.1."""

ON_REQUEST = (*AS_CUBINS, HATCH)
"""Backends that are checked and timed only where somebody names them."""

LANGUAGES = ("cuda", "triton", "gluon")
"""One series of each language, for tools to which triton and triton_native are one source."""

TECHNIQUES: Sequence[Technique] = operators.get(operators.FIRST).techniques
"""The rungs of the first operator's ladders."""


def rungs() -> tuple[Technique, ...]:
    _, *others = operators.every()
    return (*TECHNIQUES, *(rung for operator in others for rung in operator.techniques))


def kernels() -> tuple[Technique, ...]:
    """What can be run and has rows: every rung, and the ablations, which are no rungs."""
    return (*rungs(), *(ablation for operator in operators.every() for ablation in operator.ablations))


def find(name: str) -> Technique | None:
    """The technique or ablation called `name`, or operator/name; None where the registry has none. Raises ValueError
    that lists them where several operators have one of that name."""
    operator, _, stem = name.rpartition("/")
    found = [
        kernel for kernel in kernels() if kernel.name == stem and (not operator or kernel.operator in (operator, ""))
    ]
    if len(found) > 1:
        raise ValueError(f"technique: got {name!r}, expected {' or '.join(map(shown, found))}")
    return found[0] if found else None


def get(name: str) -> Technique:
    """The technique or ablation called `name`. Raises KeyError that lists the known names, and what `find` raises."""
    if found := find(name):
        return found
    known = ", ".join(map(shown, kernels()))
    raise KeyError(f"technique: got {name!r}, expected one of {known} (`twinkernels list` shows them)")


def shown(technique: Technique) -> str:
    """What `find` takes for it: the name, or operator/name where several operators have it."""
    return f"{technique.operator}/{technique.name}" if _is_shared(technique) else technique.name


def key(technique: Technique) -> str:
    """What claims and pages call it: as `shown`, but the first operator's by the name alone."""
    return qualified(technique.name, technique.operator) if _is_shared(technique) else technique.name


def _is_shared(technique: Technique) -> bool:
    return sum(kernel.name == technique.name for kernel in kernels()) > 1


def qualified(name: str, operator: str | None) -> str:
    """The name of an operator's technique or experiment: as it is of the first operator, else operator/name."""
    return name if operator in (None, operators.FIRST) else f"{operator}/{name}"


def of_qualified(name: str) -> Technique:
    """The technique that `qualified` calls so. Raises KeyError as `get` does."""
    return get(name if "/" in name else f"{operators.FIRST}/{name}")


def at(name: str, problem: Problem) -> Technique:
    """The technique or ablation called `name` of the problem's operator. Raises KeyError as `get` does."""
    return get(name if "/" in name else f"{problem.operator}/{name}")


def ladder_of(technique: Technique) -> Ladder:
    return next(one for one in operators.get(technique.operator).ladders if one.name == technique.ladder)


def check_capability(technique: Technique | None, capability: tuple[int, int] | None) -> None:
    """Raises ValueError for a GPU (major, minor) without the technique's instructions."""
    if technique is None or capability is None or capability[0] in (majors := ladder_of(technique).capabilities):
        return
    age = "too old" if capability[0] < min(majors) else "without these instructions"
    raise ValueError(
        f"GPU: got compute capability {capability[0]}.{capability[1]}, {age} for {technique.name} "
        f"({technique.ladder}), expected one of {', '.join(f'{major}.x' for major in majors)}; `twinkernels list` "
        "shows what runs where"
    )


def parent(technique: Technique, language: str = "cuda") -> Technique | None:
    """The nearest ancestor that exists here, or None for the first rung. A language's twin may build on another."""
    names = filter(None, (technique.builds_on_in.get(language), *technique.builds_on))
    return next(filter(None, (find(f"{technique.operator}/{name}") for name in names)), None)


def reference_tile(technique: Technique, key: int) -> Tile:
    """The registry's tile for a problem's `tile_key`: the technique's own where the tile is the change, else its
    parent's. A key that none of them names is declined by `limits` at whatever tile: it gets that of the largest that
    the first rung names."""
    if key in technique.tile:
        return technique.tile[key]
    ancestor = parent(technique)
    return reference_tile(ancestor, key) if ancestor else technique.tile[max(technique.tile)]


def unsupported(technique: Technique, backend: str, problem: Problem, tile: Tile) -> str | None:
    """The reason why `backend` declines this cell, or None when it takes it."""
    language, _, version = backend.partition("@")
    names = {"*", language, f"{language}@{version or RELEASES[0]}"}
    if language != "cuda":
        names |= {"gluon", "triton"} if language in ("gluon", "tlx") else {"triton", "core_triton"}
    for limit in technique.limits or ():
        if limit.backend in names and limit.applies(problem, tile):
            return f"{limit.reason}; got tile {tile.slug}, problem {problem.slug}"
    return None


def grid(technique: Technique, backend: str, problem: Problem) -> tuple[Tile, ...]:
    """The tiles that `tune` tries on this cell: the reference tile and the technique's own grid or an ancestor's,
    without declined ones. Other Tritons have the installed one's grid, TLX has Gluon's."""
    series = compared_with(backend)
    languages = ("triton", "triton_native") if series == "triton_native" else (series,)
    tiles = [reference_tile(technique, problem.tile_key)]
    for language in languages:
        source: Technique | None = technique
        while source is not None and language not in source.grid:
            source = parent(source)
        tiles += source.grid[language] if source is not None else ()
    return tuple(tile for tile in dict.fromkeys(tiles) if unsupported(technique, backend, problem, tile) is None)


def experiment_of(technique: Technique) -> str:
    return ladder_of(technique).experiment
