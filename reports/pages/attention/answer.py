"""The answer of attention: what is compared, and the techniques that decide."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from harness.catalog import experiments, techniques
from harness.catalog.roofs import PEAK
from harness.operators.attention.prices import EXPERIMENT as GAP
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset
from reports.facts import answer as facts
from reports.facts import matrix
from reports.facts.answer import Answer
from reports.facts.expressibility import Known, Said

LADDER, VERSIONS, ROOFS, GRID, DECODE = "ladder", "hopper_versions", "hopper_roofs", "hopper_grid", "decode"
SHOWN = ("cuda", "gluon", "triton")
DECIDING = {
    "Warp specialization": "producer_consumer",
    "TMA with its swizzle": "tma_swizzle",
    "Manual swizzle, padding": "padded_rows",
    "Tile, no power of two": "wide_tile",
    "Softmax overlaps wgmma": "overlapped_softmax",
}
"""Title -> the technique whose grades, program and time a line has."""


def answer(data: Dataset, problem: Problem | None = None) -> Answer | None:
    return facts.answer(data, RACE, problem)


def _experiments(data: Dataset, language: str) -> list[str]:
    """Those that time the ladders: one, and those of the hopper ladder. The gap's times TLX too, which of the others
    only hopper_versions does."""
    found = [name for name in data.experiments if name == LADDER or name.startswith("hopper")]
    return [*found, *([GAP] if language == "tlx" else [])]


def roof(data: Dataset, name: str) -> float | None:
    """The share of what the tensor cores can do in a clock that a kernel of the hardware limits reached."""
    if name not in {roof.name for roof in experiments.load(ROOFS).roofs}:
        raise KeyError(f"roof: got {name!r}, expected one that the experiment {ROOFS} measures")
    rows = [row for row in data.newest if row.kind == "roof" and row.roof == name and row.status == "passed"]
    rates = (max(rows, key=lambda row: row.time).per_clock or {}).get("flop") if rows else None
    return statistics.median(rates) / PEAK if rates else None


RACE = facts.Race(
    languages={"wgmma": ("cuda", "triton", "gluon", "tlx"), "mma_sync": ("cuda", "triton", "gluon")},
    libraries={"wgmma": ("flex", "sdpa_cudnn", "fa3", "fa4"), "mma_sync": ("sdpa_flash",)},
    experiments=_experiments,
    headline=LADDER,
    labels={"sdpa_flash": "FlashAttention-2"},
    roof=roof,
)
DECODING = facts.Race(
    languages={"mma_sync": SHOWN},
    libraries={"mma_sync": experiments.load(f"attention/{DECODE}").peers},
    experiments=lambda data, language: [DECODE],
    headline=DECODE,
)
"""Few queries on many keys: memory is the limit, and no product is large enough for wgmma."""


@dataclass(frozen=True)
class Deciding:
    """A technique that decides. `wrong`: checks that Triton's kernel failed, of how many; `version`: the Triton that
    compiled it."""

    title: str
    technique: str
    said: dict[str, Said]
    cost: matrix.Cost
    wrong: tuple[int, int]
    version: str


def deciding(data: Dataset, problem: Problem, known: Known, gated: Iterable[Dataset] = ()) -> list[Deciding]:
    """In the order of DECIDING. `gated`: the GPUs whose checks count, by default that of `data`."""
    datasets = list(gated) or [data]
    found = []
    for title, name in DECIDING.items():
        gates = [row for one in datasets for row in one.gates(name, "triton") if row.status != "unsupported"]
        wrong = sum(row.status == "wrong" for row in gates), len(gates)
        version = max((str(row.compiler["front_end"]).split()[-1] for row in gates if row.compiler), default="")
        technique = techniques.get(f"attention/{name}")
        said = matrix.said_of(name, known, ("triton", "gluon", "cuda"))
        found.append(Deciding(title, name, said, matrix.cost(data, problem, technique), wrong, version))
    return found
