"""What an operator says of itself: a frozen dataclass of plain data and functions, no base class.

Files that describe (problem, ladders, tiles, limits, claims) need no torch. The functions that compute come from
modules that are imported at the first call (`deferred`). Standard library only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from torch import Tensor

    from harness.catalog.entries import Ablation, Ladder, Technique, Tile
    from harness.catalog.promises import Promise

Tensors = Mapping[str, "Tensor"]
"""Inputs and outputs of a launch, by name."""
Scalars = Mapping[str, Any]
"""Numbers that a launch takes beside its tensors, by name."""


class Problem(Protocol):
    """One size of an operator's work: a frozen dataclass that can be a key of a dict."""

    operator: ClassVar[str]
    example: ClassVar[str]
    """A slug, for messages."""
    tile_field: ClassVar[str]
    """The field on which the reference tile depends."""

    @property
    def dtype(self) -> str:
        """fp16, bf16 or fp32."""

    @property
    def slug(self) -> str:
        """A name safe for files and URLs; `parse` reads it."""

    @property
    def flops(self) -> int:
        """By the operator's convention: speeds are these over the time."""

    @property
    def least_flops(self) -> int:
        """Fewer than these no kernel can do."""

    @property
    def bytes(self) -> int:
        """Least traffic with device memory."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the problem's cell in a table of tiles, the narrowest first; the last one holds for all sizes."""

    @property
    def tile_key(self) -> int:
        """Key of Technique.tile: what the reference tile depends on."""

    @property
    def kernel(self) -> str:
        """What a kernel is compiled for, in words."""

    def is_ragged(self, tile: Tile) -> bool:
        """Whether the tile does not divide its sizes."""

    def distance(self, other: Any) -> tuple[float | bool, ...]:
        """How unlike another problem of its cell it is, for all sizes."""

    @property
    def smaller(self) -> Problem:
        """A similar problem that a CPU does in seconds."""

    @classmethod
    def parse(cls, slug: str) -> Self:
        """Raises ValueError that names the first part that is wrong."""

    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self: ...


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a launch. `dtype` is fp16, bf16, fp32 or int32; `guard` the elements of the band before and
    after it."""

    shape: tuple[int, ...]
    dtype: str
    guard: int
    order: tuple[int, ...] | None = None
    """Dimensions in memory, outermost first; as in `shape` where None."""
    pad: tuple[int, ...] | None = None
    """Elements by which each dimension is longer where a kernel is checked with padded tensors."""
    optional: bool = False
    """An output that a user's kernel may leave unwritten."""

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, of a tensor that fills its storage without gaps."""
        found, step = [0] * len(self.shape), 1
        for dim in reversed(self.order or range(len(self.shape))):
            found[dim], step = step, step * self.shape[dim]
        return tuple(found)


@dataclass(frozen=True)
class Sample:
    """Values of one distribution: contiguous tensors in the problem's shapes, and the numbers beside them."""

    distribution: str
    seed: int
    tensors: Tensors
    scalars: Scalars


Failure = tuple[str, str]
"""(check, reason): a short stable id, and a sentence with figures."""


@dataclass(frozen=True)
class Verdict:
    """`check` names the check that failed and `reason` says how; both are None for a pass.

    `numerics` is safe for JSON: finite numbers, or None for one that is not finite. Of a pass it has at least max_abs,
    the error; yardstick, that of a careful computation; and floor, a positive error that always passes.
    """

    passed: bool
    check: str | None
    reason: str | None
    numerics: dict[str, Any]
    left_out: tuple[str, ...] = ()
    """Optional outputs that were not written."""
    varied: tuple[str, ...] = ()
    """Outputs that got other bits from the same inputs."""

    @classmethod
    def of(cls, failure: Failure | None, numerics: dict[str, Any]) -> Verdict:
        check, reason = failure or (None, None)
        return cls(failure is None, check, reason, numerics)

    @property
    def status(self) -> str:
        return "passed" if self.passed else "wrong"


class Expected(Protocol):
    """What one sample should give, with what `compare` needs beside the answer."""

    @property
    def sample(self) -> Sample: ...

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class Peer:
    """A library's implementation, ready for one problem. `bind(tensors, scalars)` returns a call without arguments that
    returns outputs by name; they may be tensors of its own, or None."""

    bind: Callable[[Tensors, Scalars], Callable[[], Mapping[str, Any]]]
    label: str = ""
    """What it leaves out, such as "no LSE"."""
    compiler: dict[str, Any] | None = None


@dataclass(frozen=True)
class Library:
    """A library that a peer needs beside torch. `module` is what a peer imports, `distribution` what has its version,
    `install` how to get it. `software` is the name under which the environments of rows have the version."""

    name: str
    module: str
    distribution: str
    install: str
    software: str

    def fault(self) -> str | None:
        """Why a peer cannot use it and what to do about it; None when it can."""
        try:
            found = importlib.util.find_spec(self.module)
        except ModuleNotFoundError:  # of its parent package
            found = None
        except Exception as error:  # the parent package runs: built for another torch, it fails in many ways
            return f"{self.name} does not import ({type(error).__name__}: {error}); build it anew: {self.install}"
        return None if found else f"{self.name} is not installed: {self.install}"


Deferred = Callable[..., Any]


def deferred(module: str, name: str) -> Deferred:
    """A function that is imported when it is first called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See {module}.{name}."
    return call


_USUAL = {
    "inputs": "inputs.sample",
    **{
        name: f"arguments.{name}"
        for name in ("input_specs", "output_specs", "scalars", "defines", "structure", "sizes")
    },
    "exact": "reference.exact",
    "compare": "numerics.compare",
    "validate": "validate.validate",
    "adapt": "adapt.adapt",
    "peer": "peers.peer",
    "promises": "promises.promises",
}


def of_modules(package: str, **others: str) -> dict[str, Any]:
    """The functions of an operator that its modules have under their usual names, or under `others`: field of Operator
    -> module.name in the package."""
    functions = (_USUAL | others).items()
    found = {field: deferred(*f"{package}.{place}".rsplit(".", 1)) for field, place in functions}
    return {**found, "claims": partial(importlib.import_module, f"{package}.claims")}


@dataclass(frozen=True)
class Operator:
    """One operator. Names of techniques, peers and experiments are unique inside it, and in the project as
    operator/name."""

    name: str
    title: str
    folder: Path
    """Holds this description, and the tables that `tune` writes: tiles/<gpu>.toml."""
    problem: type[Any]
    """Its Problem."""
    ladders: tuple[Ladder, ...]
    techniques: tuple[Technique, ...]
    distributions: tuple[str, ...]
    """Inputs of the gate, by name."""
    comparison_version: int
    """Goes up when `inputs`, `exact` or `compare` change what they accept: gates before that are asked for again."""

    inputs: Callable[..., Sample]
    """(problem, distribution, seed, device, *, peer=False). Raises ValueError for an unknown distribution. A peer may
    get other scalars: the usual ones."""
    input_specs: Callable[[Any], dict[str, TensorSpec]]
    output_specs: Callable[[Any], dict[str, TensorSpec]]
    scalars: Callable[[Any], Scalars]
    """The numbers of an ordinary launch."""
    exact: Callable[[Any, Sample], Any]
    """(problem, sample) -> its Expected."""
    compare: Callable[..., Verdict]
    """(outputs, expected, *, peer=False). An optional output may be missing. A peer's roundings may be those of plain
    PyTorch."""
    validate: Callable[[Any, Tensors, Scalars], None]
    """(problem, tensors, scalars). Raises TypeError or ValueError for what no kernel takes."""

    defines: Callable[..., dict[str, int]]
    """(problem, tile, *, constant_strides) -> the compile-time constants of a CUDA kernel."""
    structure: Callable[..., Any]
    """(tensors, scalars, workspace) -> the ctypes structure that a CUDA launch takes."""
    sizes: Callable[[Any], Any]
    """The same structure with the problem's sizes alone."""
    adapt: Callable[..., Callable[[Tensors, Scalars], Mapping[str, Any]]]
    """(function, name, *, takes_out) -> the user's as one of tensors and scalars that returns outputs by name."""
    signature: str
    """How a user's function is called, in one line."""
    calling: str
    """The same in full: shapes, dtypes, what it returns."""
    benchmark: Any
    """The problem that `bench` times by default."""

    has_packed_strides: Callable[[Any, Tensors], bool] = lambda problem, tensors: True
    """Whether a kernel built with constant strides takes these tensors."""
    scratch_bytes: Callable[[Any], int] = lambda problem: 0
    """(problem) -> bytes at the beginning of every kernel's workspace that hold anything before a launch, NaN too, and
    anything after it. What a kernel asks for itself lies behind them, zero before a launch and after it."""
    ablations: tuple[Ablation, ...] = ()
    peers: tuple[str, ...] = ()
    default_peers: tuple[str, ...] = ()
    """Libraries timed beside the twins where an experiment names no others."""
    anchor: str | None = None
    """The peer that every interleaved group contains."""
    peer: Callable[[str, Any], Peer] | None = None
    """(name, problem). Raises Unsupported."""
    peer_kernel: Callable[[str, Any], Any] | None = None
    """(name, problem) -> the case of this project that the peer launches on this GPU, which is built ahead of a run;
    None where it launches none."""
    libraries: Mapping[str, Library] = field(default_factory=dict)
    """Peer -> what it needs beside torch."""
    counted: Any = None
    """A small problem, on which the CPU runtime counts instructions; by default `benchmark.smaller`."""
    sanitized: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Problems under compute-sanitizer: of "all" techniques, and further ones of "general" and "persistent" ones."""
    profiled: Callable[[str], Any] | None = None
    """Technique -> pairs (problem, tile or None for its reference tile) whose hardware counters are read; by default
    `counted` and `benchmark`."""
    pictures: Callable[[], None] | None = None
    """Computes what the operator's pages draw and no row holds."""
    by_triton: tuple[str, ...] = ()
    """Peers that Triton compiles: their processes have none of the variables that restrict a twin."""
    compiling_peers: tuple[str, ...] = ()
    """Peers whose first launch compiles them, which takes long: a report times them after the others."""
    in_torch: Mapping[str, str] = field(default_factory=dict)
    """Peers that torch has -> the module that must import."""
    other_problems: tuple[Any, ...] = ()
    """Further problems for a user's kernel: with those of the experiment correctness, all values of each field."""
    own_distributions: tuple[str, ...] = ()
    """Further inputs of the gate, for users' kernels alone: no recorded gate is asked for them."""
    functions: Mapping[str, str] = field(default_factory=dict)
    """What `from harness import ...` offers of the operator: plain functions, name -> the module that has it."""
    comparison_hashes: tuple[str, ...] = ()
    """What gate rows from before there were versions have in place of this one."""
    stricter_comparisons: tuple[str, ...] = ()
    """Earlier ones whose limits were nowhere wider: what passed them counts, what failed may pass now."""
    claims: Callable[[], Any] | None = None
    """CLAIMS, OF_RIVALS, EXTRA and ASKED: what each language can say of the techniques, and of what is no rung."""
    promises: Callable[[], tuple[Promise, ...]] = tuple
    """The ratios that the scorecard follows."""
    themes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Theme -> technique -> its title: the order in which pages list techniques."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Peer, or side of a ratio -> its name on pages."""
    instructions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Technique -> the PTX instructions that it is about."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Technique for which Triton's source asks the compiler -> the instruction that shows that it followed."""
    named: Callable[[Tile], str | None] = lambda tile: None
    """Tile -> the kernel that it names, where a technique chooses among kernels of others; None if it names none."""
    problem_title: Callable[[Any], str] = attrgetter("slug")
    """Problem -> its title on pages. Two spaces part what comes first from the sizes."""
    problem_order: Callable[[Any], Any] = attrgetter("slug")
    """Problem -> its place in a list: the headline's kind first."""
    prices: Callable[[], Any] | None = None
    """What each term of a gap between two kernels is measured by, as operators/attention/prices.py says it."""

    @property
    def comparison(self) -> str:
        """What a gate row says of the comparison that judged it."""
        return f"version {self.comparison_version}"

    def is_current(self, comparison: str | None, *, passed: bool) -> bool:
        """Whether this comparison would judge as the one of a gate row did."""
        if passed and comparison in self.stricter_comparisons:
            return True
        return comparison == self.comparison or comparison in self.comparison_hashes

    def experiment(self, name: str) -> str:
        """The full name of one of the operator's experiments."""
        return f"{self.name}/{name}"
