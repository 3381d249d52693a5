"""What a rung takes of an SM, and what its assembler and its clock do to its speed: tables of the ladder pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import scorecard
from harness.problem import Problem
from harness.techniques import TWINS, Technique
from reports import counters
from reports.dataset import Dataset, Point, Ratio, Row, geometric_mean

ARCH, HEAD_DIM = "sm_90a", 128
"""What the table of registers is about: the architecture that is measured."""

L2_ORDERS = ("batched_m_tiles", "l2_grid_order")
"""The same kernel, blocks in two orders."""


@dataclass(frozen=True)
class Taken:
    """Of one rung: a row with machine code per twin, and what ncu says of the CUDA twin."""

    technique: Technique
    codes: dict[str, Row]
    fits: float | None
    """Warps that fit on an SM, in percent of the most that any kernel can have there."""
    active: float | None
    """Warps that were there, on average, in percent of the same."""


def taken(datasets: Sequence[Dataset], rungs: Sequence[Technique]) -> list[Taken]:
    """Rungs whose machine code is known; what was computed here before what was recorded."""
    found = []
    for rung in rungs:
        codes = {
            backend: row
            for backend in TWINS
            for row in [row for data in datasets for row in data.codes(rung.name, backend, ARCH, HEAD_DIM)][:1]
        }
        rows = [row for row, _ in counters.profiled(datasets, rung.name) if row["problem"]["head_dim"] == HEAD_DIM]
        largest = max(rows, key=lambda row: Problem.from_dict(row["problem"]).flops, default=None)
        if codes:
            fits, active = (_metric(largest, name) for name in (counters.OCCUPANCY, counters.ACTIVE))
            found.append(Taken(rung, codes, fits, active))
    return found


def built_for(found: Sequence[Taken]) -> str:
    """bf16, full: what all of the binaries are for; empty where they differ."""
    cells = {(row["problem"]["dtype"], row["problem"]["causal"]) for item in found for row in item.codes.values()}
    return ", ".join(f"{dtype}, {'causal' if causal else 'full'}" for dtype, causal in cells) if len(cells) == 1 else ""


def _metric(row: Row | None, name: str) -> float | None:
    return counters.metric(row, name) if row else None


@dataclass(frozen=True)
class Assembled:
    """A Triton program as shipped, and the same with the assembler of the CUDA twin, at the first problem."""

    technique: Technique
    backend: str
    shipped: Point
    shared: Point
    gain: float | None
    """Shared over shipped, each over the anchor of its own group: geometric mean over the problems that have both."""


def assembled(data: Dataset, experiment: str, rungs: Sequence[Technique]) -> list[Assembled]:
    """Rungs that ran with the shared assembler; a program that is another's again is left out."""
    shared_experiment = experiment + scorecard.SHARED_PTXAS
    problems = data.problems(shared_experiment)
    found = []
    for rung in rungs:
        for backend in ("triton", "triton_native"):
            pairs = [
                (data.point(experiment, problem, rung.name, backend), point)
                for problem in problems
                if (point := data.point(shared_experiment, problem, rung.name, backend)).kind == "measured"
            ]
            ratios: list[Ratio] = [ratio for shipped, shared in pairs if (ratio := data.ratio(shared, shipped))]
            if pairs:
                found.append(Assembled(rung, backend, *pairs[0], geometric_mean(ratio.value for ratio in ratios)))
    return found
