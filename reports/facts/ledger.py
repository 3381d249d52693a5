"""The gap between a language's best kernel and the flagship, term by term, with what bears out each cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.catalog.problem import Tile
from harness.operators.attention import gap as catalog
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.gap import CAUSES, FLAGSHIP, GLUON, TLX, TRITON, Term
from harness.rows import ledger, reading
from harness.rows.intervals import Estimate
from harness.rows.ledger import Ledger, Priced, percent
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row

PROOFS = {proof.name: (claim, proof) for claim in CLAIMS if claim.dialect != "cuda" for proof in claim.proofs}
SOURCES = {
    "language": "needs a hatch",
    "compiler": "Triton’s compiler",
    "assembler": "ptxas",
    "effort": "could be written today",
    "unexplained": "unexplained",
}
"""Cause -> where that part of the gap is from, on the first page."""
STARTS = {TRITON: "the best core Triton kernel", GLUON: "the best Gluon kernel", TLX: "the TLX kernel"}
"""Of a way to the flagship."""
LANGUAGES = {TRITON: "core Triton", GLUON: "Gluon", TLX: "TLX"}


@dataclass(frozen=True)
class Line:
    """A term in a table; `share` is its part of the gap."""

    priced: Priced
    share: float | None

    @property
    def term(self) -> Term:
        return self.priced.term

    @property
    def cause(self) -> str:
        return CAUSES[self.priced.cause]

    @property
    def size(self) -> Estimate | None:
        """None where it is not known, or is a part of another term."""
        return None if self.term.part_of else self.priced.size


def found(datasets: Sequence[Dataset]) -> tuple[Dataset | None, list[Ledger]]:
    """The ledgers of the first dataset that timed them; the headline's problem first."""
    for data in datasets:
        if made := ledger.ledgers(data.rows, data.hashes):
            return data, sorted(made, key=lambda one: one.problem != ledger.HEADLINE)
    return None, []


def lines(one: Ledger) -> list[Line]:
    """All terms, the largest first; at the end those that have no size, and what is part of another."""
    whole = one.gap.value if one.gap else None
    made = [Line(priced, None) for priced in one.terms]
    shared = [Line(line.priced, line.size.value / whole if line.size and whole else None) for line in made]
    return sorted(
        shared,
        key=lambda line: (bool(line.term.part_of), line.size is None, -abs(line.size.value if line.size else 0)),
    )


def gain(estimate: Estimate | None) -> str:
    """+3.1% (2.6 to 3.5), or without an interval where there is none."""
    if estimate is None:
        return "–"
    value, between = f"{percent(estimate.value):+.1f}%", estimate.interval
    if between.low is None or between.high is None:
        return minus(value)
    return minus(f"{value} ({100 * (between.low - 1):.1f} to {100 * (between.high - 1):.1f})")


def minus(number: str) -> str:
    """With the sign for negative numbers in place of a hyphen, and no sign before zero."""
    return re.sub(r"[-+](?=0(?:\.0+)?(?![.\d]))", "", number).replace("-", "−")


def short(one: Ledger) -> str:
    """The gap and its causes in one sentence, for the first page; empty where a number is missing. What rounds to
    nothing is left out: a phone has room for few words."""
    if one.gap is None or not one.causes:
        return ""
    sizes = {SOURCES[cause]: round(percent(size.value)) for cause, size in one.causes.items()}
    parts = [f"{source} {size:+}%" for source, size in sizes.items() if size]
    return minus(f"Our best CUDA kernel is {percent(one.gap.value):.0f}% faster: {', '.join(parts)}.")


def evidence(term: Term) -> list[tuple[str, str, str]]:
    """(name, what it shows, cell of the matrix) of each proof behind a cause."""
    shown = [(name, *PROOFS[name]) for name in term.proofs]
    return [(name, proof.shows, f"{claim.technique}-{claim.dialect}") for name, claim, proof in shown]


def orders(data: Dataset, one: Ledger, term: Term, codes: Iterable[Row]) -> list[tuple[str, str]]:
    """(kernel, order of its main loop in machine code) of the kernels that a cause names. Rows of the GPU come before
    `codes`, those of compilers."""
    kernels = [_kernel(one, backend, name) for backend, name in term.orders]
    rows = [_main_loop([*data.newest, *codes], one, data.hashes, *kernel) for kernel in kernels]
    return [(_described(row), str(row["code"]["main_loop"]["sequence"])) for row in rows if row]


def _kernel(one: Ledger, backend: str, named: str) -> tuple[str, str, Tile | None]:
    """(backend, technique, tile) of a kernel as a term names it; without a tile any counts."""
    if backend == "cuda":
        name = one.kernel(named)
        technique = name.partition(" at ")[0]
    else:
        technique, name = named, backend if named == FLAGSHIP else catalog.THEIRS.get(named, "")
    return backend, technique, Tile.from_dict(one.rows[name]["tile"]) if name in one.rows else None


def _main_loop(
    rows: Iterable[Row], one: Ledger, hashes: reading.Hashes, backend: str, technique: str, tile: Tile | None
) -> Row | None:
    language, _, by_nvcc = backend.partition(", ")
    found = [
        row
        for row in rows
        if (row.get("technique"), row["backend"]) == (technique, language)
        and row.get("problem") == one.problem.to_dict()
        and (tile is None or row.get("tile") == tile.to_dict())
        and bool(row.get("assembler")) is bool(by_nvcc)
        and (row.get("code") or {}).get("main_loop")
        and reading.is_current(row, hashes)
    ]
    return max(found, key=lambda row: str(row["time"]), default=None)


def _described(row: Row) -> str:
    code, ptxas = row["code"], (row.get("compiler") or {}).get("ptxas")
    words = [f"{row['technique']} ({row['backend']}, {tile_slug(row)}{f', ptxas {ptxas}' if ptxas else ''})"]
    if count := code["main_loop"].get("instructions"):
        words.append(f"{count} instructions in a step")
    if code.get("registers"):
        words.append(f"{code['registers']} registers, {code.get('spill_bytes') or 'no'} bytes spilled")
    return ", ".join(words)
