"""The gap between a language's best kernel and the flagship, term by term, with what bears out each cause."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from functools import cache

from harness.operators.attention import prices
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.gap import CAUSES, FLAGSHIP, GLUON, SHARED, THEIRS, TLX, TRITON, UNDONE, Term
from harness.rows.ledger import Ledger, Line, ledgers, percent
from harness.rows.reading import AGAIN_LIMIT
from harness.rows.stats import Estimate
from reports.data.dataset import Dataset
from reports.pages.common import Rows

PROOFS = {proof.name: (claim, proof) for claim in CLAIMS if claim.dialect != "cuda" for proof in claim.proofs}
STARTS = {TRITON: "the best core Triton kernel", GLUON: "the best Gluon kernel", TLX: "the TLX kernel"}
"""Of a way to the flagship."""
LANGUAGES = {TRITON: "core Triton", GLUON: "Gluon", TLX: "TLX"}
ASSEMBLED = {prices.OVER_ANCHOR[SHARED]: "cuDNN beside it", SHARED: "Triton by nvcc’s ptxas"}
"""What a reader calls the kernels of a group that nvcc's ptxas assembled."""


def found(rows: Rows) -> tuple[Dataset, list[Ledger]]:
    """The first dataset that timed ledgers, and these, the headline's problem first; else the main one, and none."""
    made = ((data, _ledgers(data)) for data in rows.fresh_first)
    return next((one for one in made if one[1]), (rows.main, []))


@cache
def _ledgers(data: Dataset) -> list[Ledger]:
    every = ledgers(*map(data.table, ("timing", "code", "gate"))) if data.timings() else []
    return [one for one in every if one.prices is prices]


def lines(one: Ledger) -> list[Line]:
    """The largest first; at the end those that have no size, and what is part of another."""
    return sorted(one.lines, key=lambda line: (not line.counts, -abs(line.size.value if line.size else 0)))


def is_small(line: Line) -> bool:
    """Whether two timings of one kernel may differ by as much as the term."""
    return line.size is not None and abs(math.expm1(line.size.value)) < AGAIN_LIMIT


def cause(line: Line) -> str:
    """In words; none for a term that chance could be."""
    return "no more than chance" if is_small(line) else CAUSES[line.cause]


def gains(one: Ledger, line: Line) -> tuple[Estimate | None, ...]:
    """What the flagship gains over the kernel without it, what the ladder's step gains, and what a CUDA kernel
    limited to what core Triton can express gains, if that is taken out of their mean."""
    ends = ((FLAGSHIP, line.term.leave_out), line.term.step, line.term.limited)
    both = [end if end and all(end) else None for end in ends]
    *added, taken = (one.estimate({end[0]: 1.0, end[1]: -1.0}) if end else None for end in both)
    sizes = [gain.value for gain in added if gain]
    is_taken = line.size and sizes and not math.isclose(statistics.fmean(sizes), line.size.value, abs_tol=1e-9)
    return *added, taken if is_taken else None


def between(line: Line) -> str:
    """From the smaller to the larger of a term's two prices: +2.1 to +8.1%."""
    ends = sorted(percent(price.value) for price in line.prices)
    return minus(f"{ends[0]:+.1f} to {ends[-1]:+.1f}%") if len(ends) > 1 else ""


def told(lines: Sequence[Line]) -> str:
    """How many terms are gains, losses, and no more than chance."""
    counted = [line for line in lines if line.counts and line.size]
    small = sum(map(is_small, counted))
    above = sum(line.size.value > 0 for line in counted if line.size and not is_small(line))
    below = len(counted) - small - above
    return f"{above} terms above 0, {below} below 0 and {small} within {100 * AGAIN_LIMIT:.1f}%"


def note(line: Line, titles: Mapping[str, str], apart: float | None) -> str:
    """What a reader of a term's size should know. `apart`: how far a ratio of one board moves to the next."""
    told = []
    if not line.counts:
        verb = "counted" if line.term.cause == UNDONE else "not added,"
        told.append(f"{verb} within “{titles[line.term.part_of or 'compiler']}”")
    if line.disagrees:
        told.append("its two prices disagree")
    if is_small(line):
        told.append(f"within {100 * AGAIN_LIMIT:.1f}%")
    elif line.size and apart and abs(line.size.value) < apart:
        told.append(f"within {100 * apart:.1f}%")
    missing = line.why
    for kernel, words in ASSEMBLED.items():
        missing = missing.replace(kernel, words)
    return "; ".join(filter(None, [*told, missing]))


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
