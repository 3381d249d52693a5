"""What a rung takes of an SM, and what its assembler and its clock do to its speed: tables of the ladder pages."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.catalog.entries import Technique
from harness.catalog.techniques import SERIES
from harness.operators.attention.problem import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Point, Row
from reports.facts import counters

ARCH, HEAD_DIM = "sm_90a", 128
"""What the table of registers is about: the architecture that is measured."""

L2_ORDERS = ("batched_m_tiles", "l2_grid_order")
"""The same kernel, blocks in two orders."""


@dataclass(frozen=True)
class HitRates:
    """L2 hit rates in percent of L2_ORDERS on one problem at one tile, and the bytes that each read from DRAM."""

    problem: Problem
    tile: str
    rates: tuple[float, float]
    read: tuple[float | None, float | None]
    where: str


def hit_rates(datasets: Sequence[Dataset]) -> list[HitRates]:
    """On problems with more than one head, where ncu has counted both orders."""
    cells: dict[tuple[str, str], dict[str, tuple[Row, float, str]]] = {}
    for name in L2_ORDERS:
        for row, where in counters.profiled(datasets, name):
            rate = counters.metric(row, counters.HIT_RATE)
            if rate is not None and row.problem_fields["heads"] > 1:
                cells.setdefault((row.problem, row.tile), {}).setdefault(name, (row, rate, where))
    found = []
    for (slug, tile), cell in cells.items():
        if set(cell) == set(L2_ORDERS):
            (row, rate, where), (other, other_rate, _) = (cell[name] for name in L2_ORDERS)
            read = (counters.metric(row, counters.DRAM_READ), counters.metric(other, counters.DRAM_READ))
            found.append(HitRates(Problem.parse(slug), tile, (rate, other_rate), read, where))
    return found


@dataclass(frozen=True)
class Usage:
    """Of one rung: a row with machine code per twin, and what ncu says of the CUDA twin."""

    technique: Technique
    codes: dict[str, Row]
    spilled: dict[str, Row]
    """Per twin the row with the largest spill of the ladder's kinds of problem: both head dimensions, both masks."""
    fits: float | None
    """Warps that fit on an SM, in percent of the most that any kernel can have there."""
    active: float | None
    """Warps that were there, on average, in percent of the same; of a launch that filled the GPU."""


def usage(datasets: Sequence[Dataset], rungs: Sequence[Technique]) -> list[Usage]:
    """Rungs whose machine code is known; what was computed here before what was recorded."""
    found = []
    for rung in rungs:
        read = {backend: rows for backend in SERIES if (rows := _cells(datasets, rung, backend))}
        codes = {name: rows[0] for name, rows in read.items() if rows[0]["problem"]["head_dim"] == HEAD_DIM}
        profiled = [row for row, _ in counters.profiled(datasets, rung.name) if row.reference_tile]
        largest = max(
            (row for row in profiled if row.problem_fields["head_dim"] == HEAD_DIM),
            key=lambda row: Problem.parse(row.problem).flops,
            default=None,
        )
        if codes:
            spilled = {
                name: max(rows, key=lambda row: row["code"].get("spill_bytes") or 0) for name, rows in read.items()
            }
            fits, active, waves = (
                _metric(largest, name) for name in (counters.OCCUPANCY, counters.ACTIVE, counters.WAVES)
            )
            active = active if (waves or 0) >= 1 else None
            found.append(Usage(rung, codes, spilled, fits, active))
    return found


def _cells(datasets: Sequence[Dataset], rung: Technique, backend: str) -> list[Row]:
    """Of each head dimension and mask of the ladder, bf16, the first row with machine code; HEAD_DIM without a mask
    leads."""
    found: dict[tuple[int, bool], Row] = {}
    for data in datasets:
        for row in data.codes(rung.name, backend, ARCH):
            problem = row["problem"]
            if problem["dtype"] == "bf16" and problem["head_dim"] in (64, HEAD_DIM):
                found.setdefault((-problem["head_dim"], problem["causal"]), row)
    return [found[cell] for cell in sorted(found)]


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
    shared_experiment = experiment + reading.SHARED_PTXAS
    problems = data.problems(shared_experiment)
    found = []
    for rung in rungs:
        for backend in ("triton", "triton_native", "gluon"):
            pairs = [
                (data.point(experiment, problem, rung.name, backend), point)
                for problem in problems
                if (point := data.point(shared_experiment, problem, rung.name, backend)).kind == "measured"
            ]
            gains = [ratio.value for shipped, shared in pairs if (ratio := data.ratio(shared, shipped))]
            if pairs:
                found.append(Assembled(rung, backend, *pairs[0], statistics.geometric_mean(gains) if gains else None))
    return found
