"""Where the gap between core Triton and the flagship comes from, in words: terms, causes, and what bears them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.catalog import techniques
from harness.catalog.problem import Problem, Tile
from harness.catalog.roofs import PEAK
from harness.operators.attention import gap as catalog
from harness.operators.attention import tiles
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.gap import CAUSES, FLAGSHIP, GLUON, TLX, TRITON, WAYS, Term
from harness.rows import ledger, reading, twins
from harness.rows.intervals import Estimate
from harness.rows.ledger import EXPERIMENT, Ledger, Priced, percent
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Row
from reports.facts import counters

__all__ = ["EXPERIMENT"]

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
    hoped = None if one.limited(priced.term) else expected(priced.term, one.problem)
    return Line(priced, CAUSES[priced.cause], share, hoped, command(one, priced.term))


def expected(term: Term, problem: Problem) -> float | None:
    """Percent, as written before anything was measured; None for lengths that nobody predicted."""
    return term.expected.get(tiles.cell(problem)) if problem.seq_q == ledger.HEADLINE.seq_q else None


def command(one: Ledger, term: Term) -> str:
    """Times a term's kernels again, in one group at one tile; where they have several, all that are of their
    languages."""
    step = term.step or ()
    if {catalog.SHARED, TRITON} <= set(step):
        return f"twinkernels run {EXPERIMENT} --backend triton --ptxas shared"
    ends = [*one.left_out(term), *map(one.kernel, step), *one.limited(term)]
    series = {end: end.partition(", ")[0] for end in ends}
    languages = sorted({series[end] if series[end] in WAYS else "cuda" for end in ends})
    backends = "".join(f" --backend {language}" for language in languages)
    used = {_tile(one, end) for end in ends}
    if len(used) > 1 or any(series[end] in WAYS and end not in one.rows for end in ends):
        return f"twinkernels run {EXPERIMENT}{backends}"
    theirs = {**dict.fromkeys(WAYS, FLAGSHIP), **{name: kernel for kernel, name in catalog.THEIRS.items()}}
    names = dict.fromkeys(theirs.get(end) or end.partition(" at ")[0] for end in ends)
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
    here = f"At {where(one.problem)}"
    if one.gap is None:
        if one.start != TRITON:
            return f"{here} the way from {STARTS[one.start]} is not measured yet."
        return f"{here} the two kernels have not been timed in one group yet."
    told = f"{here} the flagship is {percent(one.gap.value):.1f}% faster than {STARTS[one.start]}"
    if one.explained is None:
        return f"{told}."
    if one.start != TRITON:
        proven = "" if set(one.causes) - {"unexplained"} else " None of the terms has a proven cause."
        if any(not priced.size for priced in one.terms if not priced.term.part_of):
            return f"{told}. Terms without a size are in the remainder.{proven}"
        return f"{told}. The terms lead from one measured kernel to the next, so there is no remainder.{proven}"
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
    below = [f"{board} ({100 * share:.1f}%)" for board, share in one.shares.items() if share < ledger.GOAL]
    rests = " It rests on one process." if one.gap and one.gap.processes == 1 else ""
    boards = f" over all boards, and missed on {' and '.join(below)}" if below and verdict == "reached" else ""
    return (
        f"The goal, a cause for {100 * ledger.GOAL:.0f}% of the gap, is about this problem alone. It is "
        f"{verdict}{boards}.{rests} The other problems are shown as they were found."
    )


def unpredicted(found: Sequence[Ledger]) -> str:
    """For which lengths and ways there is no expected size, in a sentence."""
    lengths = sorted({one.problem.seq_q for one in found} - {ledger.HEADLINE.seq_q})
    at_lengths = f"at {' and '.join(map(str, lengths))} tokens, and none " if lengths else ""
    return f"No size was predicted {at_lengths}on the way from TLX, so there the column is empty."


def other_tile(one: Ledger, term: Term) -> str:
    """That a term's two kernels differ in their tile too, where the term is about something else, or that something is
    left out at another tile than the flagship's; else empty."""
    if any(" at " in name for name in one.left_out(term)):
        return f"left out at {catalog.SQUARE.slug}"
    to, start = map(one.kernel, term.step or ("", ""))
    if term.name not in SAME_PROGRAM or not {to, start} <= set(one.rows) or _tile(one, to) == _tile(one, start):
        return ""
    return f"not at one tile: {_tile(one, to)} over {_tile(one, start)}"


def short(one: Ledger) -> str:
    """The gap and its causes in one sentence, for the first page; empty where a number is missing. What rounds to
    nothing is left out: a phone has room for few words."""
    if one.gap is None or not one.causes:
        return ""
    sizes = {SOURCES[cause]: round(percent(size.value)) for cause, size in one.causes.items()}
    parts = [f"{source} {size:+}%" for source, size in sizes.items() if size]
    return minus(f"Our best CUDA kernel is {percent(one.gap.value):.0f}% faster: {', '.join(parts)}.")


def by_cause(one: Ledger) -> str:
    """What each cause adds up to, in a sentence; empty where no term has a size."""
    if one.gap is None or not one.causes:
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


def orders(data: Dataset, one: Ledger, term: Term, codes: Iterable[Row] = ()) -> list[Order]:
    """The machine code that a cause names: the ends of ways at their tiles, what a language has of a technique at the
    tile of its step, other CUDA kernels as the way has them. Rows of a GPU come before `codes`, those of compilers."""
    compiled = list(codes)
    kernels = ((step, name) for step in one.twins(term)[::-1] for name in (step.to, step.start))
    tiles = {(step.backend, name): step.tile.to_dict() for step, name in kernels}
    found = []
    for backend, named in term.orders:
        if backend == "cuda":
            name = one.kernel(named)
            technique = name.partition(" at ")[0]
        else:
            technique, name = named, backend if named == FLAGSHIP else catalog.THEIRS.get(named, "")
        tile = tiles.get((backend, technique)) or Tile.parse(_tile(one, name)).to_dict()
        kernel = one.problem, backend, technique, tile, data.hashes
        if row := _main_loop(data.newest, *kernel) or _main_loop(compiled, *kernel):
            found.append(_order(row))
    return found


def _main_loop(
    rows: Iterable[Row], problem: Problem, backend: str, technique: str, tile: Any, hashes: reading.Hashes
) -> Row | None:
    """The newest row that has the order of this kernel's main loop."""
    language, _, by_nvcc = backend.partition(", ")
    found = [
        row
        for row in rows
        if (row.get("technique"), row["backend"], row.get("tile")) == (technique, language, tile)
        and row.get("problem") == problem.to_dict()
        and bool(row.get("assembler")) is bool(by_nvcc)
        and (row.get("code") or {}).get("main_loop")
        and reading.is_current(row, hashes)
    ]
    return max(found, key=lambda row: str(row["time"]), default=None)


def _order(row: Row) -> Order:
    code, loop = row["code"], row["code"]["main_loop"]
    ptxas = (row.get("compiler") or {}).get("ptxas")
    words = [f"{row['technique']} ({row['backend']}, {tile_slug(row)}{f', ptxas {ptxas}' if ptxas else ''})"]
    if loop.get("instructions"):
        words.append(f"{loop['instructions']} instructions in a step")
    if code.get("registers"):
        words.append(f"{code['registers']} registers, {code.get('spill_bytes') or 'no'} bytes spilled")
    if loop.get("serialized"):
        words.append("every product serialized")
    return Order(", ".join(words), str(loop["sequence"]))


def advice(term: Term, told: Iterable[tuple[Problem, Line]]) -> list[tuple[str, str]]:
    """(where, what follows) of a term: by the sign that was measured, where that decides."""
    if not term.otherwise:
        return [("", term.could)] if term.could else []
    sized = [(problem, line.priced.size) for problem, line in told if line.priced.size]
    certain = [(problem, size) for problem, size in sized if size.interval.low is not None]
    changes = [(problem, size.value) for problem, size in certain if not size.interval.is_no_change]
    found = []
    for text, here in (
        (term.could, [problem for problem, size in changes if size > 0]),
        (term.otherwise, [problem for problem, size in changes if size < 0]),
    ):
        if here:
            found.append((f"at {'; '.join(map(where, here))}", text))
    return found or [("where it is a gain", term.could), ("where it is a loss", term.otherwise)]


def where(problem: Problem) -> str:
    """A problem in words."""
    return f"head_dim {problem.head_dim}, {problem.mask}, {problem.seq_q} tokens"


def written(one: Ledger, term: Term) -> str:
    """What the language’s own kernels gain by the term's techniques on this problem, each at its fastest tile; empty
    where none was timed."""
    first = {(step.backend, step.to): step for step in one.twins(term)[::-1]}
    told = [f"{step.to} {_short_gain(step.size)} at {step.tile.slug}" for step in list(first.values())[::-1]]
    return f"{_writer(one, term)}: {', '.join(told)}" if told else ""


def taken_out(priced: Priced) -> str:
    """What is gained by a technique that core Triton's best kernel has too: in the CUDA kernel limited to its language,
    which is taken out, and in itself; empty where there is no such number."""
    if not priced.limited:
        return ""
    own = f"; core Triton’s own gains {gain(priced.own)}" if priced.own else ""
    return f"a CUDA kernel limited to core Triton’s words gains {gain(priced.limited)}, taken out{own}"


def steps(one: Ledger, term: Term) -> str:
    """The same at every tile, with the kernel before each and on how many processes it rests."""
    told = []
    for step in one.twins(term):
        before = f"itself at {step.before.slug}" if step.before else step.start
        size = f"{gain(step.size)}, {step.size.interval.rests_on}"
        told.append(f"{step.to} over {before} ({step.backend}, {step.tile.slug}): {size}")
    writer = _writer(one, term)
    return f"{writer[0].upper()}{writer[1:]} at {where(one.problem)}: {'; '.join(told)}" if told else ""


def alike(found: Sequence[Ledger], term: Term) -> list[tuple[str, str, str]]:
    """What the technique gains in kernels limited to what core Triton can express, problem by problem: the two kernels
    of a pair, and the numbers."""
    theirs = {name: f"{kernel} in core Triton" for kernel, name in catalog.THEIRS.items()}
    told = []
    of_each = [(one.problem, one.alike(term)) for one in found]
    for number, (to, start) in enumerate(term.alike):
        if numbers := [f"{where(problem)}: {gain(sizes[number])}" for problem, sizes in of_each if sizes[number]]:
            told.append((theirs.get(to, to), theirs.get(start, start), " · ".join(numbers)))
    return told


def untimed(one: Ledger, term: Term) -> list[str]:
    """Commands that time the language's own kernels at the tile of its best one, where they take it and that was not
    done."""
    if one.own(term) or not (row := one.rows.get(one.start)):
        return []
    tile = Tile.from_dict(row["tile"])
    done = {(step.backend, step.to) for step in one.twins(term) if step.tile == tile}

    def takes(backend: str, name: str) -> bool:
        return techniques.unsupported(techniques.get(name), backend, one.problem, tile) is None

    return [
        f"twinkernels bench {to} {start} --backend {backend} --problem {one.problem.slug} --tile {tile.slug}"
        for backend, to, start in twins.written(term, one.start)
        if backend.partition("_")[0] == one.start
        and (backend, to) not in done
        and takes(backend, to)
        and takes(backend, start)
    ]


def _writer(one: Ledger, term: Term) -> str:
    """Whose kernels these are: of TLX's techniques Gluon's."""
    series = GLUON if one.start == TLX and not term.of_tile else one.start
    return f"{LANGUAGES[series]}’s own kernels"


def _short_gain(size: Estimate) -> str:
    return minus(f"{percent(size.value):+.1f}%")


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
    assembler = (row.get("compiler") or {}).get("ptxas") or "of an unknown version"
    return (
        f"At head_dim {row['problem']['head_dim']} with tile {tile_slug(row)} ptxas {assembler} says: "
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
