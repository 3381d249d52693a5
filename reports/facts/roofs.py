"""What a multiprocessor did in a clock, and what that leaves attention at most."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.catalog import experiments
from harness.catalog.roofs import PEAK, Roof
from harness.operators.attention.roofs import KEYS, ROWS, unit_flop
from harness.rows import reading
from reports.data.dataset import Dataset, Row

EXPERIMENT = "hopper_roofs"
KERNEL, KERNEL_EXPERIMENT = "flagship", "hopper_grid"
"""What the roofs are compared with, in full attention and its longest sequence."""
HEAD_DIMS = (64, 128)
UNIT_EXPONENTIALS = ROWS * KEYS
EXPONENTIALS = ("exponentials", "exponentials_beside_n128")


@dataclass(frozen=True)
class Line:
    """One roof and its newest row. Rates are medians over launches; None where the row has none."""

    roof: Roof
    row: Row | None

    @property
    def passed(self) -> bool:
        return self.row is not None and self.row["status"] == "passed"

    @property
    def is_current(self) -> bool:
        """Whether the row measured this checkout's kernel."""
        return not self.roof.kernel or (self.row and self.row.source_sha256) == self.roof.source_sha256

    def rate(self, what: str) -> float | None:
        """`what` a clock of one multiprocessor."""
        values = (self.row.get("per_clock") or {}).get(what) if self.row and self.passed else None
        return statistics.median(values) if values else None

    @property
    def flop(self) -> float | None:
        return self.rate("flop")

    @property
    def share(self) -> float | None:
        """Of what the tensor cores can do in a clock."""
        return self.flop / PEAK if self.flop else None

    @property
    def work(self) -> str:
        """What else was done in a clock, in words."""
        rate = self.rate(self.roof.work)
        if rate is None:
            return ""
        return f"{1 / rate:.0f} clocks a unit" if self.roof.work == "units" else f"{rate:.4g} {self.roof.work}"

    def median(self, name: str) -> float | None:
        """Of a field with one number a launch: clock_ghz or tflops."""
        values = self.row.get(name) if self.row and self.passed else None
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Limit:
    """FLOP of attention that a multiprocessor does in a clock at most. `measured`: not computed from other rates."""

    label: str
    flop: float
    measured: bool

    @property
    def share(self) -> float:
        return self.flop / PEAK


@dataclass(frozen=True)
class Found:
    """The roofs of one GPU; `data` None where nobody measured them."""

    data: Dataset | None
    lines: list[Line]

    def share(self, name: str) -> str:
        """Of the tensor cores' peak that a roof reaches, or leaves them beside its other work."""
        share = self.line(name).share
        return "not measured" if share is None else f"{100 * share:.0f}%"

    def line(self, name: str) -> Line:
        return next(line for line in self.lines if line.roof.name == name)

    def limits(self, head_dim: int) -> list[Limit]:
        """Of a head dimension, those that have rows."""
        products = self.line(f"products_d{head_dim}").flop
        found = [Limit("products alone", products, True)] if products else []
        if products:
            tensor = unit_flop(head_dim) / products
            for label, amount, work in (
                ("and exponentials", UNIT_EXPONENTIALS, [self.line(name) for name in EXPONENTIALS]),
                ("and the whole softmax", 1, self._softmax(head_dim)),
            ):
                rated = [(line, amount / rate) for line in work if (rate := line.rate(line.roof.work))]
                alone = [clocks for line, clocks in rated if not line.flop]
                beside = [(clocks, line.flop / products) for line, clocks in rated if line.flop]
                if alone and beside:
                    clocks = min(shared(tensor, min(alone), *one) for one in beside)
                    found.append(Limit(label, unit_flop(head_dim) / clocks, False))
        for line in self.lines:
            if line.roof.kernel == "loop" and line.roof.size == head_dim and line.flop:
                found.append(Limit(_loop_label(line.roof), line.flop, True))
        if kernel := self._kernel(head_dim):
            found.append(kernel)
        return found

    def _kernel(self, head_dim: int) -> Limit | None:
        """What KERNEL reaches at its own clock over the longest sequence that has one: the median of the rows."""
        rows = [
            row
            for row in (self.data.counting(KERNEL_EXPERIMENT) if self.data else [])
            if (row["technique"], row["backend"], row["mode"]) == (KERNEL, "cuda", "burst")
            and row["problem"]["head_dim"] == head_dim
            and not row["problem"]["causal"]
            and reading.clock_ghz(row)
        ]
        if not rows or self.data is None:
            return None
        seq = max(row["problem"]["seq_q"] for row in rows)
        flop = statistics.median(
            reading.tflops(row) * 1e3 / (reading.clock_ghz(row) or 0) / self.data.multiprocessors(row)
            for row in rows
            if row["problem"]["seq_q"] == seq
        )
        return Limit(f"{KERNEL}, {seq} tokens", flop, True)

    def _softmax(self, head_dim: int) -> list[Line]:
        """The softmax of a unit, alone and beside products, by each number of warps."""
        return [line for line in self.lines if line.roof.kernel == "softmax" and line.roof.size == head_dim]


def found(datasets: Sequence[Dataset]) -> Found:
    """Of the first dataset in which a roof passed; without one, of the first that tried."""
    roofs = experiments.load(EXPERIMENT).roofs
    tried: list[Found] = []
    for data in datasets:
        rows: Mapping[str, Row] = {
            row["roof"]: row for row in sorted(data.newest, key=lambda row: row["time"]) if row["kind"] == "roof"
        }
        if rows:
            tried.append(Found(data, [Line(roof, rows.get(roof.name)) for roof in roofs]))
    nobody = Found(None, [Line(roof, None) for roof in roofs])
    return next((one for one in tried if any(line.passed for line in one.lines)), tried[0] if tried else nobody)


def shared(tensor: float, alone: float, beside: float, kept: float = 1.0) -> float:
    """Clocks of a unit: its products take `tensor`, its other work takes `alone` by itself and `beside` under products,
    which meanwhile keep the share `kept` of their rate. What is left of one when the other ends goes on by itself."""
    together = min(tensor / kept, beside)
    return together + (tensor - kept * together) + (1 - together / beside) * alone


def _loop_label(roof: Roof) -> str:
    if not roof.constants["EXPONENTIALS"]:
        return "loop without exponentials"
    polynomial = roof.constants["POLYNOMIAL"]
    return f"loop, {polynomial} of 8 by polynomial" if polynomial else "loop"
