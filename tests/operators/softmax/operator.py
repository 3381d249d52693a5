"""Softmax over the rows of a matrix: the smallest operator, which shows what one has to say."""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from harness.catalog.entries import Ladder, Limit, Technique, Tile
from harness.operators.protocol import Operator, Sample, TensorSpec, Verdict


@dataclass(frozen=True)
class Problem:
    """x and y: (rows, columns), fp32, contiguous."""

    rows: int
    columns: int
    operator: ClassVar[str] = "softmax"
    example: ClassVar[str] = "softmax-r64-c96"
    tile_field: ClassVar[str] = "tile_key"
    dtype: ClassVar[str] = "fp32"
    tile_key: ClassVar[int] = 0
    cells: ClassVar[tuple[str, ...]] = ("all",)
    kernel: ClassVar[str] = "fp32"

    @property
    def slug(self) -> str:
        return f"softmax-r{self.rows}-c{self.columns}"

    @property
    def flops(self) -> int:
        return 5 * self.rows * self.columns

    least_flops = flops

    @property
    def bytes(self) -> int:
        return 8 * self.rows * self.columns

    @property
    def smaller(self) -> Problem:
        return replace(self, rows=min(self.rows, 128))

    def is_ragged(self, tile: Tile) -> bool:
        return bool(self.rows % tile.block_m)

    def distance(self, other: Problem) -> tuple[float]:
        return (abs(math.log(self.bytes / other.bytes)),)

    @classmethod
    def parse(cls, slug: str) -> Problem:
        if (found := re.fullmatch(r"softmax-r(\d+)-c(\d+)", slug)) is None:
            raise ValueError(f"problem: got {slug!r}, expected a slug such as {cls.example}")
        return cls(int(found[1]), int(found[2]))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Problem:
        return cls(**data)


class SoftmaxArgs(ctypes.Structure):
    """online.cu, field by field."""

    _fields_ = [(name, ctypes.c_void_p) for name in "xy"] + [(name, ctypes.c_int32) for name in ("rows", "columns")]


@dataclass(frozen=True)
class Expected:
    sample: Sample
    y: Any

    @property
    def nbytes(self) -> int:
        return int(self.y.nbytes)


def inputs(problem: Problem, distribution: str, seed: int, device: Any, *, peer: bool = False) -> Sample:
    import torch

    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(problem.rows, problem.columns, generator=generator) * SPREAD[distribution]
    return Sample(distribution, seed, {"x": x.to(device)}, {})


def exact(problem: Problem, sample: Sample) -> Expected:
    return Expected(sample, sample.tensors["x"].double().softmax(-1))


def compare(outputs: Any, expected: Expected, *, peer: bool = False) -> Verdict:
    """Within 32 roundings of fp32, of which a careful computation has one or two."""
    error = (outputs["y"].double() - expected.y).abs().max().item()
    passed = error <= 2**-18
    figures = {"max_abs": error if math.isfinite(error) else None, "yardstick": 2**-22, "floor": 2**-18}
    return Verdict(passed, *((None, None) if passed else ("max_error", f"y is off by {error:.3g}")), figures)


def validate(problem: Problem, tensors: Any, scalars: Any) -> None:
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != (problem.rows, problem.columns) or not tensor.is_contiguous():
            raise ValueError(f"{name}: got {tuple(tensor.shape)}, expected {problem.rows, problem.columns}, contiguous")


def spec(problem: Problem) -> TensorSpec:
    return TensorSpec((problem.rows, problem.columns), "fp32", guard=256 * problem.columns)


def adapt(function: Any, name: str, *, takes_out: bool) -> Any:
    return lambda tensors, scalars: {"y": function(tensors["x"])}


def claims() -> SimpleNamespace:
    from harness.expressibility import claims as engine

    @dataclass(frozen=True)
    class Twin(engine.Twin):
        problem: ClassVar[Problem] = Problem(64, 96)

    proof = engine.Proof(
        "softmax exponentials",
        "tl.exp becomes ex2.approx.",
        Twin("online", "triton"),
        engine.Probe("words", "condition"),
        engine.Detector("ptx", r"ex2\.approx"),
    )
    claim = engine.Claim("online", "triton", "direct", "tl.exp", (proof,), word=r"tl\.exp")
    return SimpleNamespace(CLAIMS=(claim,), OF_RIVALS=(), EXTRA={}, ASKED={})


SPREAD = {"normal": 1.0, "large": 30.0}
LADDER = Ladder("rows", "Softmax over rows", ("sm_80", "sm_90a"), (8, 9), operator="softmax", experiment="correctness")
WIDE = Limit(
    "triton", "a program has whole rows: columns must be at most block_n", lambda p, tile: p.columns > tile.block_n
)
OPERATOR = Operator(
    name="softmax",
    title="softmax over rows",
    folder=Path(__file__).parent,
    problem=Problem,
    ladders=(LADDER,),
    techniques=LADDER.rungs(
        Technique("online", "one pass for maximum and sum", mma="fma", tile={0: Tile(32, 128)}, limits=(WIDE,))
    ),
    distributions=tuple(SPREAD),
    comparison_version=1,
    inputs=inputs,
    input_specs=lambda problem: {"x": spec(problem)},
    output_specs=lambda problem: {"y": spec(problem)},
    scalars=lambda problem: {},
    exact=exact,
    compare=compare,
    validate=validate,
    defines=lambda problem, tile, *, constant_strides: {"SOFTMAX_THREADS": tile.block_m},
    structure=lambda tensors, scalars, workspace: SoftmaxArgs(
        tensors["x"].data_ptr(), tensors["y"].data_ptr(), *tensors["x"].shape
    ),
    sizes=lambda problem: SoftmaxArgs(rows=problem.rows, columns=problem.columns),
    adapt=adapt,
    signature="softmax(x)",
    calling="softmax(x), with x of shape (rows, columns) in fp32. It returns y, of the same shape.",
    benchmark=Problem(4096, 96),
    other_problems=(Problem(65, 33),),
    claims=claims,
)
