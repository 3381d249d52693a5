"""What the catalog's entries say: tiles, limits, ladders, techniques, experiments. Types alone, standard library
only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any, TypeVar, cast

from harness import operators
from harness.catalog.roofs import Roof

OfTechnique = TypeVar("OfTechnique", bound="Technique")
Of = TypeVar("Of")


MODES = ("burst", "sustained", "idle")
"""How kernels are timed: from a cool GPU, or after seconds of work."""


def require_int32(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: got {value!r}, expected a positive integer")
    if value >= 2**31:
        raise ValueError(f"{name}: got {value}, expected less than 2^31: kernels take it as int32")


def made(kind: Callable[..., Of], fields: Mapping[str, Any]) -> Of:
    """`kind` with these fields. Equal ones give one object: a report reads the problem of every row a hundred times."""
    try:
        return cast(Of, _made(kind, tuple(fields), *fields.values()))
    except TypeError:  # a value without a hash, which the constructor refuses by name
        return kind(**fields)


@lru_cache(maxsize=None, typed=True)
def _made(kind: Callable[..., Any], names: tuple[str, ...], *values: Any) -> Any:
    """Typed, because 1 and True are equal."""
    return kind(**dict(zip(names, values, strict=True)))


_TILE_PARTS = {"size": (r"\d+x\d+", "64x128"), "stages": (r"s\d+", "s2"), "warps": (r"w\d+", "w4")}
"""Parts of a slug: a pattern, and how they are written."""


@dataclass(frozen=True, order=True)
class Tile:
    """How a kernel cuts the work: query rows and keys per step, shared-memory stages of K/V, warps that do math.

    `extra` holds options that only one language has (num_ctas, warp_specialize, maxnreg), as sorted pairs.
    """

    block_m: int
    block_n: int
    stages: int = 1
    warps: int = 4
    extra: tuple[tuple[str, int], ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "stages", "warps"):
            require_int32(f"tile.{name}", getattr(self, name))
        extra = tuple(sorted((str(k), int(v)) for k, v in self.extra))
        for option, _ in extra:
            if not re.fullmatch("[a-z][a-z0-9_]*", option):
                raise ValueError(f"tile.extra: got {option!r}, expected a name of small letters, digits and _")
        if len(dict(extra)) < len(extra):
            raise ValueError(f"tile.extra: got {', '.join(k for k, _ in extra)}, expected each option once")
        object.__setattr__(self, "extra", extra)

    @classmethod
    def grid(
        cls, block_m: Iterable[int], block_n: Iterable[int], stages: Iterable[int], warps: Iterable[int]
    ) -> tuple[Tile, ...]:
        return tuple(cls(*cell) for cell in product(block_m, block_n, stages, warps))

    @property
    def slug(self) -> str:
        """64x128-s2-w4, followed by any extra options."""
        return f"{self.block_m}x{self.block_n}-s{self.stages}-w{self.warps}" + "".join(
            f"-{name}{value}" for name, value in self.extra
        )

    @classmethod
    def parse(cls, slug: str) -> Tile:
        """The tile that a slug names. Raises ValueError on anything else."""
        match = re.fullmatch(r"(\d+)x(\d+)-s(\d+)-w(\d+)((?:-[a-z_]+\d+)*)", slug, re.ASCII)
        if not match:
            parts = dict(zip(_TILE_PARTS, slug.split("-"), strict=False))
            wrong = next(
                (n for n, (how, _) in _TILE_PARTS.items() if not re.fullmatch(how, parts.get(n, ""), re.ASCII)), None
            )
            told = f"its {wrong} is {parts[wrong]!r}" if wrong in parts else f"it has no {wrong}"
            told = f"; {told}, write {_TILE_PARTS[wrong][1]}" if wrong else ""
            raise ValueError(f"tile: got {slug!r}, expected a slug such as 64x128-s2-w4{told}")
        block_m, block_n, stages, warps, levers = match.groups()
        extra = tuple((name, int(value)) for name, value in re.findall(r"-([a-z_]+)(\d+)", levers))
        return cls(int(block_m), int(block_n), int(stages), int(warps), extra)

    def defines(self, prefix: str) -> dict[str, int]:
        """Compile-time constants of a CUDA kernel: PREFIX_BLOCK_M and so on, options among them."""
        fields = self.to_dict()
        options = fields.pop("extra")
        return {f"{prefix}_{name.upper()}": value for name, value in {**fields, **options}.items()}

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "extra": dict(self.extra)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tile:
        return made(cls, {**data, "extra": tuple(dict(data.get("extra") or {}).items())})


@dataclass(frozen=True)
class Limit:
    """Why a backend declines a cell: `applies(problem, tile)` true means status unsupported with this reason.

    `backend` "triton" holds for triton_native, gluon and tlx too, "core_triton" for triton and triton_native, "gluon"
    for tlx too, "*" for all; each in every version. "gluon@3.6.0" holds in that one, which may be the installed.
    """

    backend: str
    reason: str
    applies: Callable[[Any, Tile], bool] = field(repr=False)


def in_gluon(*limits: Limit) -> tuple[Limit, ...]:
    """The same limits of Gluon's kernels."""
    return tuple(replace(limit, backend="gluon") for limit in limits)


@dataclass(frozen=True)
class Ladder:
    """Techniques that share an instruction set. `archs`: what both twins are compiled for and inspected on."""

    name: str
    title: str
    archs: tuple[str, ...]
    capabilities: tuple[int, ...]
    """Major compute capabilities that run it."""
    operator: str
    experiment: str = "ladder"
    """The experiment that times its rungs, all of them on the same problems."""
    every: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Fields that all its rungs have in common."""

    def rungs(self, *techniques: OfTechnique, **instead: Any) -> tuple[OfTechnique, ...]:
        """The techniques as rungs of this ladder: with its name, its operator and the fields of `every`, which replace
        what an entry says itself. `instead`: other values of such fields, for these rungs. A rung without limits has
        those of its nearest ancestor among the rungs before it; raises ValueError if it has no ancestor there."""
        fields = {"operator": self.operator, "ladder": self.name, **self.every, **instead}
        found: dict[str, OfTechnique] = {}
        for one in techniques:
            known = (found[name].limits for name in one.builds_on if name in found)
            if (limits := next(known, None) if one.limits is None else one.limits) is None:
                raise ValueError(f"{one.name}: got no limits, expected its own or an ancestor before it that has some")
            found[one.name] = replace(one, limits=limits, **fields)
        return tuple(found.values())


@dataclass(frozen=True)
class Technique:
    """One rung.

    `builds_on` is the ladder's parent followed by older ancestors, nearest first: the first one that exists here is
    the parent (a rung may land before its parent). `tile` is given per problem.tile_key where the tile is the change,
    and inherited otherwise. `mma` is the instruction class, the same for both twins: fma, mma_sync or wgmma.
    """

    name: str
    idea: str
    builds_on: tuple[str, ...] = ()
    builds_on_in: dict[str, str] = field(default_factory=dict)
    """Language -> what its twin builds on, where that is another rung than the ladder's parent."""
    also: tuple[str, ...] = ()
    """What else changes with the idea: "tile", "stages" or "block_k"."""
    operator: str = ""
    ladder: str = ""
    """Both are filled in by `Ladder.rungs`."""
    mma: str = "mma_sync"
    tile: dict[int, Tile] = field(default_factory=dict)
    grid: dict[str, tuple[Tile, ...]] = field(default_factory=dict)
    """Tiles that `tune` tries beside the reference tile, by language; a grid not given is inherited. "triton_native"
    has what this series tries beyond those of "triton"."""
    limits: tuple[Limit, ...] | None = None
    """Which cells it declines. None: the same as its nearest ancestor (see Ladder.rungs)."""
    general: bool = False
    """Takes any length, any strides, and every size that the operator knows."""
    repeats: bool = True
    """The same inputs give the same bits. Where it says False, sums depend on the order in which blocks come, and the
    gate judges every launch by its numbers."""
    constant_strides: bool = False
    """The CUDA kernel is built for the row strides of packed tensors; others take a build of their own."""
    shows: str = ""
    """What a line of its CUDA kernel says that an excerpt must hold, where the lines that changed most are not the
    technique."""

    @property
    def change(self) -> str:
        also = (f"; it also changes the {what.replace('stages', 'number of stages')}" for what in self.also)
        return "".join([self.idea, *also])

    @property
    def path(self) -> str:
        """operator/ladder/name: the stem of both twins below cuda_kernels/ and triton_kernels/."""
        return f"{self.operator}/{self.ladder}/{self.name}"


@dataclass(frozen=True)
class Ablation(Technique):
    """A CUDA kernel less something of its parent, most of them a patch on that: no rung, no twin, in no ladder."""

    lacks: tuple[str, ...] = ()
    """Terms of the ledger that it does without, or a part of one that has no price there."""
    serialized: bool = False
    """At the flagship's tiles ptxas cannot keep its products in flight: it proves a need, and prices nothing."""

    @property
    def path(self) -> str:
        return f"{self.operator}/ablations/{self.name}"


@dataclass(frozen=True)
class Experiment:
    """One question and the grid of measurements that answers it.

    `backends` are timed for every technique, `peers` once per problem. `tiles` is "reference" (the registry's) and/or
    "best" (the committed table's), or "chosen": the best where there is one, else the reference. `modes` are timing
    modes: of MODES. `distributions` are the inputs of the gate, by default all of the operator's; `peers` are by
    default the operator's. `where` has the problems of techniques that do not run on all of `problems`. `cells` are
    (problem, technique, tile) beside that grid: on one of `problems`, at a tile of their own, in all of `backends`, or
    in the one that follows the tile. `padded`: at the gate rows of NaN lie behind every sequence, for techniques that
    take any stride. `assembler` is "shared" where nvcc's ptxas assembles Triton's programs too. `roofs` are limits of
    the hardware, measured by kernels of their own. `at_its_tile` are CUDA kernels at the best tile of the first
    technique, whatever their own is. With `one_group` all that is timed of a problem is interleaved with each other, in
    replicates too. `sharing`: so many other processes use the same GPU while kernels are gated, as on a machine that
    people share.
    """

    problems: tuple[Any, ...] = ()
    techniques: tuple[str, ...] = ()
    backends: tuple[str, ...] = ("cuda", "triton", "triton_native")
    peers: tuple[str, ...] = ("default",)
    tiles: tuple[str, ...] = ("reference",)
    modes: tuple[str, ...] = ("burst",)
    distributions: tuple[str, ...] = ()
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cells: tuple[tuple[Any, str, Tile] | tuple[Any, str, Tile, str], ...] = ()
    padded: bool = False
    assembler: str | None = None
    roofs: tuple[Roof, ...] = ()
    sharing: int = 0
    at_its_tile: tuple[str, ...] = ()
    one_group: bool = False

    def __post_init__(self) -> None:
        of = operators.of(self.problems[0]) if self.problems else None
        if self.peers == ("default",):
            object.__setattr__(self, "peers", of.default_peers if of else ())
        if not self.distributions and of:
            object.__setattr__(self, "distributions", of.distributions)

    def without_gpu(self, distributions: tuple[str, ...], *problems: Any) -> Experiment:
        """The same gates for a CPU, on small problems and of fewer inputs."""
        return replace(self, problems=problems, distributions=distributions, backends=("cuda", "triton"), peers=())


@dataclass(frozen=True, kw_only=True)
class NamedExperiment(Experiment):
    """An experiment with the name that its rows carry. That of an experiment's file is the file's stem, which
    `experiments.load` adds."""

    name: str
