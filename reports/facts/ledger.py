"""Where the gap between core Triton and the flagship comes from, in words: terms, causes, and what bears them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.catalog import ledger as catalog
from harness.catalog import tiles
from harness.catalog.ledger import CAUSES, FLAGSHIP, GLUON, TLX, TRITON, WAYS, Term
from harness.catalog.problem import Problem
from harness.catalog.roofs import PEAK
from harness.expressibility.cells import CLAIMS
from harness.rows import ledger, reading
from harness.rows.intervals import Estimate
from harness.rows.ledger import EXPERIMENT, Ledger, Priced, percent
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row
from reports.facts import counters

__all__ = ["EXPERIMENT"]

PROOFS = {proof.name: (claim, proof) for claim in CLAIMS if claim.dialect != "cuda" for proof in claim.proofs}
SOURCES = {
    "language": "what needs a hatch",
    "compiler": "choices of Triton’s compiler",
    "assembler": "ptxas",
    "effort": "what Triton could write today",
    "unexplained": "unexplained",
}
"""Cause -> where that part of the gap is from, on the first page."""
STARTS = {TRITON: "the best core Triton kernel", GLUON: "the best Gluon kernel", TLX: "the TLX kernel"}
"""Of a way to the flagship."""
SAME_PROGRAM = ("compiler", "gluon_schedule", "tlx_schedule")
"""Terms of one program in two languages."""
LANGUAGES = {TRITON: "core Triton", GLUON: "Gluon", TLX: "TLX"}


@dataclass(frozen=True)
class Line:
    """A term as a table has it; `share` is its part of the gap."""

    priced: Priced
    cause: str
    share: float | None
    expected: float | None
    command: str
    """That times it again."""

    @property
    def term(self) -> Term:
        return self.priced.term

    @property
    def size(self) -> float:
        """Its logarithm, 0 where it is not known."""
        return self.priced.size.value if self.priced.size else 0.0


@dataclass(frozen=True)
class Order:
    """The order of a kernel's main loop in machine code."""

    kernel: str
    sequence: str


def found(datasets: Sequence[Dataset]) -> tuple[Dataset | None, list[Ledger]]:
    """Of the first dataset that has the experiment's rows; the headline's problem first."""
    for data in datasets:
        if made := ledger.ledgers(data.rows, data.hashes):
            return data, sorted(made, key=lambda one: one.problem != ledger.HEADLINE)
    return None, []


def lines(one: Ledger) -> list[Line]:
    """All terms, the largest first; at the end those that have no size, and what is part of another."""
    return sorted(
        (_line(one, priced) for priced in one.terms),
        key=lambda line: (bool(line.term.part_of), line.priced.size is None, -abs(line.size)),
    )


def _line(one: Ledger, priced: Priced) -> Line:
    known = one.gap and one.gap.value and priced.size and not priced.term.part_of
    share = priced.size.value / one.gap.value if known and priced.size and one.gap else None
    return Line(priced, CAUSES[priced.cause], share, expected(priced.term, one.problem), command(one, priced.term))


def expected(term: Term, problem: Problem) -> float | None:
    """Percent, as written before anything was measured; None for lengths that nobody predicted."""
    return term.expected.get(tiles.cell(problem)) if problem.seq_q == ledger.HEADLINE.seq_q else None


def command(one: Ledger, term: Term) -> str:
    """Times a term's kernels again, in one group at one tile; where they have several, all that are of their
    languages."""
    step = term.step or ()
    if {catalog.SHARED, TRITON} <= set(step):
        return f"twinkernels run {EXPERIMENT} --backend triton --ptxas shared"
    ends = [FLAGSHIP, term.leave_out] if term.leave_out else []
    ends += [TRITON if end == catalog.SHARED else end for end in step]
    languages = sorted({end if end in WAYS else "cuda" for end in ends})
    backends = "".join(f" --backend {language}" for language in languages)
    used = {_tile(one, end) for end in ends}
    if len(used) > 1 or any(end in WAYS and end not in one.rows for end in ends):
        return f"twinkernels run {EXPERIMENT}{backends}"
    names = dict.fromkeys(FLAGSHIP if end in WAYS else end.partition(" at ")[0] for end in ends)
    return f"twinkernels bench {' '.join(names)}{backends} --problem {one.problem.slug} --tile {used.pop()}"


def _tile(one: Ledger, name: str) -> str:
    """The tile at which a kernel stands in the ledger, measured or not."""
    return tile_slug(one.rows[name]) if name in one.rows else name.partition(" at ")[2] or one.tile.slug


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


def sentence(one: Ledger) -> str:
    """What the page opens with, of one problem."""
    where = f"At head_dim {one.problem.head_dim}, {one.problem.mask}, {one.problem.seq_q} tokens"
    if one.gap is None:
        if one.start != TRITON:
            return f"{where} the way from {STARTS[one.start]} is not measured yet."
        return f"{where} the two kernels have not been timed in one group yet."
    told = f"{where} the flagship is {percent(one.gap.value):.1f}% faster than {STARTS[one.start]}"
    if one.explained is None:
        return f"{told}."
    if one.start != TRITON:
        return f"{told}. Its two terms meet at one kernel, so there is no remainder."
    share, interval = one.explained
    ends = f" ({100 * interval.low:.0f} to {100 * interval.high:.0f})" if interval.low and interval.high else ""
    return f"{told}; the terms below explain {100 * share:.0f}%{ends} of that."


def ends(one: Ledger) -> list[str]:
    """A sentence for each of the two kernels: speed and tile."""
    told = []
    for name, title in ((one.start, STARTS[one.start]), (FLAGSHIP, "the flagship")):
        if (row := one.rows.get(name)) and (speed := one.tflops(name)):
            told.append(f"{title[0].upper()}{title[1:]} reaches {speed:.0f} TFLOPS with tile {tile_slug(row)}.")
    return told


def goal(one: Ledger) -> str:
    """What is asked of the share that has a cause, on the problem that the goal names; empty on others."""
    if one.problem != ledger.HEADLINE or one.explained is None:
        return ""
    verdict = "reached" if one.explained[0] >= ledger.GOAL else "missed"
    return (
        f"The goal, a cause for {100 * ledger.GOAL:.0f}% of the gap, is about this problem alone and is {verdict}. "
        "The other problems are shown as they were found."
    )


def other_tile(one: Ledger, term: Term) -> str:
    """That a term's two kernels differ in their tile too, where the term is about something else; else empty."""
    to, start = (TRITON if end == catalog.SHARED else end for end in term.step or ("", ""))
    if term.name not in SAME_PROGRAM or not {to, start} <= set(one.rows) or _tile(one, to) == _tile(one, start):
        return ""
    return f"not at one tile: {_tile(one, to)} over {_tile(one, start)}"


def short(one: Ledger) -> str:
    """The gap and its causes in one sentence, for the first page; empty where a number is missing."""
    if one.gap is None or not one.causes:
        return ""
    parts = [f"{SOURCES[cause]} {percent(size.value):+.0f}%" for cause, size in one.causes.items()]
    return minus(f"Our best CUDA kernel is {percent(one.gap.value):.0f}% faster: {', '.join(parts)}.")


def by_cause(one: Ledger) -> str:
    """What each cause adds up to, in a sentence; empty where no term has a size."""
    if one.gap is None or not one.causes or one.start != TRITON:
        return ""
    parts = [f"{CAUSES[cause]} {gain(size)}" for cause, size in one.causes.items()]
    return f"By cause: {'; '.join(parts)}."


def evidence(term: Term) -> list[tuple[str, str, str]]:
    """(name, what it shows, cell of the matrix) of each proof behind a cause."""
    told = []
    for name in term.proofs:
        claim, proof = PROOFS[name]
        told.append((name, proof.shows, f"{claim.technique}-{claim.dialect}"))
    return told


def order(data: Dataset, one: Ledger, term: Term) -> Order | None:
    """The machine code that a cause names, at the tile of the ledger or, of Triton, at its own."""
    if term.order is None:
        return None
    backend, technique = term.order
    wanted = one.rows.get(technique if backend == "cuda" else backend)
    for row in data.newest:
        if (row.get("technique"), row["backend"]) != (technique, backend) or not (row.get("code") or {}).get(
            "main_loop"
        ):
            continue
        same = wanted is None or row.get("tile") == wanted.get("tile")
        if (
            same
            and row["problem"]["head_dim"] == one.problem.head_dim
            and row["problem"]["causal"] is one.problem.causal
        ):
            return Order(f"{technique} ({backend}, {tile_slug(row)})", str(row["code"]["main_loop"]["sequence"]))
    return None


def refusal(codes: Iterable[Row], term: Term, hashes: reading.Hashes) -> str:
    """What ptxas says of the kernel that lacks a term, as the newest row of its code tells; empty where none of this
    checkout's source does."""
    rows = [
        row
        for row in codes
        if row.get("technique") == term.serialized
        and (row.get("code") or {}).get("remarks")
        and reading.is_current(row, hashes)
    ]
    if not rows:
        return ""
    row = max(rows, key=lambda row: str(row["time"]))
    said = " and ".join(f"“{remark}”" for remark in row["code"]["remarks"])
    return (
        f"At head_dim {row['problem']['head_dim']} with tile {tile_slug(row)} ptxas {row['compiler']['ptxas']} says: "
        f"{said}. It spills {row['code']['spill_bytes']} bytes per thread."
    )


@dataclass(frozen=True)
class Counted:
    """What ncu counted of a kernel: `issue` in percent of the issue slots; `tensor` the problem's FLOP in percent of
    what all tensor cores can do in the kernel's time at its clock, both under ncu; `stalls` are the largest reasons why
    a warp did not issue, in warps for each issued instruction; `passes` of shared memory."""

    kernel: str
    issue: float | None
    tensor: float | None
    passes: float | None
    stalls: list[tuple[str, float]]


def counted(data: Dataset, one: Ledger) -> list[Counted]:
    """The ledger's kernels, each at its own tile, of those that ncu looked at: the ends of ways first."""
    rows = {
        (row["technique"], row["backend"], tile_slug(row)): row
        for row in sorted(data.newest, key=lambda row: row["time"])
        if row["kind"] == "counters"
        and row["status"] == "passed"
        and row.get("technique")
        and row["problem"] == one.problem.to_dict()
        and reading.is_current(row, data.hashes)
    }
    found = []
    for name in dict.fromkeys((*WAYS, catalog.VOCABULARY, FLAGSHIP, *catalog.kernels(), *sorted(one.rows))):
        end = one.rows.get(name)
        if end and end.get("technique") and not name.endswith(", shared"):
            kernel = end["technique"], end["backend"], tile_slug(end)
            if kernel in rows:
                found.append(_counted(" ".join(kernel), rows[kernel], one.problem, data.multiprocessors(rows[kernel])))
    return found


def _counted(name: str, row: Row, problem: Problem, multiprocessors: int) -> Counted:
    metrics = row["details"]["metrics"]
    nanoseconds, hertz = metrics.get(counters.DURATION), metrics.get(counters.SM_HERTZ)
    most = PEAK * multiprocessors * hertz * nanoseconds / 1e9 if nanoseconds and hertz else None
    return Counted(
        name,
        metrics.get("smsp__issue_active.avg.pct_of_peak_sustained_active"),
        100 * problem.flops / most if most else None,
        metrics.get("memory_l1_wavefronts_shared"),
        counters.stalls(row),
    )


def boards(one: Ledger) -> list[tuple[str, Ledger]]:
    """A ledger for each board, where there are several."""
    return [(board, one.on(board)) for board in one.boards] if len(one.boards) > 1 else []
