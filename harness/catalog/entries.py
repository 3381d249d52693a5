"""What an entry of the registry says: types alone, standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.catalog.problem import Problem, Tile


@dataclass(frozen=True)
class Limit:
    """Why a backend declines a cell: `applies(problem, tile)` true means status unsupported with this reason.

    `backend` "triton" holds for triton_native, gluon and tlx too, "core_triton" for triton and triton_native, "gluon"
    for tlx too, "*" for all; each in every version. "gluon@3.6.0" holds in that one, which may be the installed.
    """

    backend: str
    reason: str
    applies: Callable[[Problem, Tile], bool] = field(repr=False)


@dataclass(frozen=True)
class Ladder:
    """Techniques that share an instruction set. `archs`: what both twins are compiled for and inspected on."""

    name: str
    title: str
    archs: tuple[str, ...]
    capabilities: tuple[int, ...]
    """Major compute capabilities that run it."""
    experiment: str = "ladder"
    """The experiment that times its rungs, all of them on the same problems."""


@dataclass(frozen=True)
class Technique:
    """One rung.

    `builds_on` is the ladder's parent followed by older ancestors, nearest first: the first one that exists here is
    the parent (a rung may land before its parent). `tile` is given per head_dim where the tile is the change, and
    inherited otherwise. `mma` is the instruction class, the same for both twins: fma, mma_sync or wgmma.
    """

    name: str
    ladder: str
    idea: str
    builds_on: tuple[str, ...] = ()
    builds_on_in: dict[str, str] = field(default_factory=dict)
    """Language -> what its twin builds on, where that is another rung than the ladder's parent."""
    also: tuple[str, ...] = ()
    """What else changes with the idea: "tile"."""
    operator: str = "attention"
    mma: str = "mma_sync"
    tile: dict[int, Tile] = field(default_factory=dict)
    grid: dict[str, tuple[Tile, ...]] = field(default_factory=dict)
    """Tiles that `tune` tries beside the reference tile, by language; a grid not given is inherited. "triton_native"
    has what this series tries beyond those of "triton"."""
    limits: tuple[Limit, ...] = ()
    general: bool = False
    """Takes any length, stride and head_dim 64, 128 and 256."""
    constant_strides: bool = False
    """The CUDA kernel is built for the row strides of packed tensors; others take a build of their own."""
    seeds: tuple[str, ...] = ()
    """Articles and steps that describe it."""
    shows: str = ""
    """What a line of its CUDA kernel says that an excerpt must hold, where the lines that changed most are not the
    technique."""

    @property
    def change(self) -> str:
        """The idea, and what else changes with it."""
        return "".join([self.idea, *(f" (the {what} too)" for what in self.also)])

    @property
    def path(self) -> str:
        """operator/ladder/name: the stem of both twins below cuda_kernels/ and triton_kernels/."""
        return f"{self.operator}/{self.ladder}/{self.name}"


@dataclass(frozen=True)
class Ablation(Technique):
    """A CUDA kernel less something of its parent, most of them a patch on that: no rung, no twin, in no ladder."""

    lacks: tuple[str, ...] = ()
    """Terms of the ledger (catalog.ledger) that it does without, or a part of one that has no price there."""
    serialized: bool = False
    """At the flagship's tiles ptxas cannot keep its products in flight: it proves a need, and prices nothing."""

    @property
    def path(self) -> str:
        return f"{self.operator}/ablations/{self.name}"
