"""The gap between a language's best kernel and the flagship, term by term, with what bears out each cause."""

import math
import re
from collections.abc import Sequence
from functools import cache

from harness.operators.attention import prices
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.gap import FLAGSHIP, GLUON, SHARED, THEIRS, TLX, TRITON, Term
from harness.rows.ledger import Ledger, Line, ledgers, percent
from harness.rows.reading import AGAIN_LIMIT
from harness.rows.stats import Estimate
from reports.data.dataset import Dataset

PROOFS = {proof.name: (claim, proof) for claim in CLAIMS if claim.dialect != "cuda" for proof in claim.proofs}
STARTS = {TRITON: "the best core Triton kernel", GLUON: "the best Gluon kernel", TLX: "the TLX kernel"}
"""Of a way to the flagship."""
LANGUAGES = {TRITON: "core Triton", GLUON: "Gluon", TLX: "TLX"}
ASSEMBLED = {prices.OVER_ANCHOR[SHARED]: "cuDNN beside it", SHARED: "Triton by nvcc’s ptxas"}
"""What a reader calls the kernels of a group that nvcc's ptxas assembled."""


def found(datasets: Sequence[Dataset]) -> tuple[Dataset | None, list[Ledger]]:
    """The ledgers of the first dataset that timed them; the headline's problem first."""
    return _found(tuple(datasets))


@cache
def _found(datasets: tuple[Dataset, ...]) -> tuple[Dataset | None, list[Ledger]]:
    for data in datasets:
        if any(data.timings()):
            of_gpu = ledgers(data.table("timing"), data.table("code"), data.table("gate"))
            if made := [one for one in of_gpu if one.prices is prices]:
                return data, made
    return None, []


def lines(one: Ledger) -> list[Line]:
    """The largest first; at the end those that have no size, and what is part of another."""
    return sorted(one.lines, key=lambda line: (not line.counts, -abs(line.size.value if line.size else 0)))


def is_small(line: Line) -> bool:
    """Whether two timings of one kernel may differ by as much as the term."""
    return line.size is not None and abs(math.expm1(line.size.value)) < AGAIN_LIMIT


def gains(one: Ledger, term: Term) -> tuple[Estimate | None, Estimate | None]:
    """What the flagship gains over the kernel without the technique, and what the ladder's step gains."""
    left_out = one.estimate({FLAGSHIP: 1.0, term.leave_out: -1.0}) if term.leave_out else None
    return left_out, one.estimate({term.step[0]: 1.0, term.step[1]: -1.0}) if term.step else None


def share(one: Ledger, line: Line) -> float | None:
    return line.size.value / one.gap.value if line.counts and line.size and one.gap and one.gap.value else None


def why(line: Line) -> str:
    """What is missing for a term, in words for a reader."""
    text = line.why
    for kernel, words in ASSEMBLED.items():
        text = text.replace(kernel, words)
    return text


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


def evidence(term: Term) -> list[tuple[str, str, tuple[str, str]]]:
    """(name, what it shows, cell of the matrix) of each proof behind a cause."""
    shown = [(name, *PROOFS[name]) for name in term.proofs]
    return [(name, proof.shows, (claim.technique, claim.dialect)) for name, claim, proof in shown]


def orders(data: Dataset, one: Ledger, term: Term) -> list[tuple[str, str]]:
    """(kernel, order of its main loop in machine code) of the kernels that a cause names, at their tiles."""
    code = data.table("code")
    code = code[code.current & code.main_loop.notna() & (code.problem == one.problem.slug)]
    found = []
    for series, named in term.orders:
        backend, _, shared = series.partition(", ")
        technique, _, tile = named.partition(" at ")
        timed = one.rows.get(named if backend == "cuda" else series if named == FLAGSHIP else THEIRS.get(named, ""))
        rows = code[(code.technique == technique) & (code.backend == backend) & (code.assembler == (shared or "own"))]
        rows = rows[rows.tile == (timed["tile"] if timed else tile)] if timed or tile else rows
        if len(rows):
            row = rows.sort_values("time").iloc[-1]
            loop, ptxas = row.main_loop, (row.compiler or {}).get("ptxas", "of an unknown version")
            words = [f"{technique} ({backend}, {row.tile}, ptxas {ptxas})"]
            words.append(f"{row.registers:.0f} registers, {row.spill_bytes:.0f} bytes spilled")
            words += [f"{loop['instructions']} instructions in a step"] if loop.get("instructions") else []
            under, every = (loop[part]["exponentials"] for part in ("under_products", "all"))
            words += [f"{under} of {every} exponentials while a product is in flight"] if every else []
            found.append((", ".join(words), str(loop["sequence"])))
    return found
