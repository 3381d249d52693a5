"""The page of findings: what authors of compilers and libraries may want to know, each with a reproducer.

notes/findings.md has them in order: a heading, which is the title, a block "```toml finding", and why it happens.

    name, file      an anchor on the page; the program that shows it, from the root of the repository
    command         what shows it, in the folder of the file; by default `python FILE`
    needs           what that takes and shows, but for ALONE
    prints          lines that it prints with the oldest Triton of RELEASES, or a table: version -> lines;
                    tests/unit/reports/test_findings.py runs it
    lines           what the lines of the first proof's program are, and those of its control
    affected        versions of Triton that have the fault: what rows say must agree

and where rows say which version has it:

    proofs = [[name of a proof, word, kind]]    kind: wrong, affected, fine or none; the first that is proven counts
    gate = [tile, tile that is right]           gates of GATED; timed = "flagship"; overlap = true
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness import operators
from harness.catalog import sources
from harness.catalog.entries import Tile
from harness.catalog.techniques import RELEASES
from harness.expressibility import matrix, verdicts
from harness.rows import reading
from reports.data.dataset import Dataset, Row, grouped
from reports.data.names import cell_title, label, short_gpu, short_title
from reports.facts import versions
from reports.facts.timelines import Span
from reports.facts.versions import Beside
from reports.pages import prose
from reports.pages.prose import MARKDOWN, NOT_MEASURED, Claims

PATH = "findings.html"
NOTE = Path(__file__).resolve().parent.parent / "notes" / "findings.md"
MOST = 10
KINDS = {
    "wrong": "wrong output, or a wait that never ends",
    "affected": "slower, ignored or refused",
    "fine": "not affected",
    "none": "not run, or no such call",
}
GATED = ("warp_specialize_stages", "producer_consumer", "b1-h16-n1024-d64-fp16-full")
"""Experiment, technique and problem whose gates tell about idle barriers."""
TIMED = "hopper_versions"
OVERLAP = ("overlapped_softmax", "d128-full")
"""The technique whose source puts every exponential under a product, and the cell whose machine code is read."""
NOT_RUN = "not run"
ALONE = ("probes", "reproducers")
"""Folders of programs that need Triton and nothing else, no GPU either."""


@dataclass(frozen=True)
class State:
    version: str
    word: str
    kind: str


@dataclass(frozen=True)
class Evidence:
    """One of four: lines of compiled programs, a table of words by tile and version, shares by problem, or lanes."""

    title: str
    lines: Mapping[str, Sequence[str]]
    table: Mapping[str, Sequence[State]]
    shares: Mapping[str, float]
    lanes: Mapping[str, Sequence[Span]]


@dataclass(frozen=True)
class Finding:
    """`prints`: version -> what the command prints; `issue`: the same as Markdown, to paste into a tracker."""

    name: str
    title: str
    why: Markup
    states: Sequence[State]
    file: str
    command: str
    prints: Mapping[str, str]
    needs: Markup
    evidence: Evidence | None
    issue: str

    @property
    def issue_path(self) -> str:
        return f"findings/{self.name}.md"

    def files(self) -> Iterator[tuple[str, str]]:
        yield self.file, (sources.ROOT / self.file).read_text()
        yield self.issue_path, self.issue


def page(
    data: Dataset,
    proofs: Sequence[Mapping[str, Any]],
    inspected: Sequence[Row],
    claims: Claims,
    datasets: Sequence[Dataset] = (),
) -> dict[str, Any]:
    """`inspected`: rows of machine code that compilers alone made; `datasets`: the GPUs whose checks count."""
    facts = _Facts(data, proofs, inspected, datasets)
    found = [_finding(*one, facts, claims) for one in sections()]
    return {"findings": found, "kinds": KINDS, "files": found, "most": MOST}


def sections() -> list[prose.Section]:
    return prose.sections(NOTE, "finding")


def command_of(block: Mapping[str, Any]) -> str:
    return str(block.get("command") or f"python {Path(block['file']).name}")


def prints(block: Mapping[str, Any]) -> dict[str, str]:
    """Version of Triton -> what the command prints with it."""
    lines = block.get("prints", {})
    by_version = {RELEASES[0]: lines} if isinstance(lines, str) else lines
    return {version: text.strip() for version, text in by_version.items()}


class _Facts:
    def __init__(
        self,
        data: Dataset,
        proofs: Sequence[Mapping[str, Any]],
        inspected: Sequence[Row],
        datasets: Sequence[Dataset],
    ) -> None:
        self.data, self.datasets = data, datasets
        self.proofs: dict[str, dict[str, matrix.Shown]] = {}
        for cell in matrix.cells(proofs):
            for version, mark in cell.marks.items():
                for shown in mark.proofs:
                    if shown.state == verdicts.PROVEN:
                        self.proofs.setdefault(shown.proof.name, {})[version] = shown
        self.beside = {one.backend: one for one in versions.beside(data, TIMED)}
        self.overlap = overlap([*inspected, *data.newest])
        gates = (row for row in data.newest if row.kind == "gate" and row.technique == GATED[1])
        self.gates = grouped(gates, lambda row: (row.experiment, row.backend, row.problem, row.tile))

    def gated(self, backend: str, tile: str, problem: str = GATED[2], experiment: str = GATED[0]) -> str:
        """What the gates of this checkout's kernel say of its output."""
        rows = filter(self.is_current, self.gates.get((experiment, backend, problem, tile), []))
        return " and ".join(sorted({_said(row) for row in rows})) or NOT_MEASURED

    def failed(self, backend: str) -> str:
        """How many checks of this checkout's kernel found a wrong output, on all GPUs."""
        gates = [row for data in self.datasets for row in data.gates(GATED[1], backend) if row.status != "unsupported"]
        return f"{sum(row.status == 'wrong' for row in gates)} of {len(gates)}" if gates else NOT_MEASURED

    def is_current(self, row: Row) -> bool:
        """Another Triton compiles the same source, and may have been gated only."""
        series = str(row.backend).partition("@")[0]
        return row.current or row.source_sha256 == self.data.hashes.get((row.technique, series))

    def over(self, backend: str) -> str:
        """The speed of a kernel that another Triton compiled, over that of the installed one's."""
        if backend not in self.beside:
            return NOT_MEASURED
        each = [one.value for one in self.beside[backend].cells.values()]
        return f"{self.beside[backend].ratio:.2f}× ({min(each):.2f} to {max(each):.2f}; {len(each)} problems)"

    def number(self, backend: str) -> float | None:
        return self.beside[backend].ratio if backend in self.beside else None

    def states(self, block: Mapping[str, Any]) -> list[State]:
        """By version of Triton, or by assembler where it is ptxas that has the fault."""
        if "overlap" in block:
            return [_moved(backend, row) for backend, row in self.overlap.items() if backend in ("cuda", "gluon")]
        return [self.state(block, version) for version in RELEASES]

    def state(self, block: Mapping[str, Any], version: str) -> State:
        backend = "triton" if version == RELEASES[0] else f"triton@{version}"
        if "gate" in block:
            word = self.gated(backend, block["gate"][0])
            return State(version, word, {"right": "fine", NOT_MEASURED: "none"}.get(word, "wrong"))
        if "timed" in block:
            if version == RELEASES[0] and self.beside:
                return State(version, "1.00×", "fine")
            ratio = self.number(backend)
            return State(version, f"{ratio:.2f}×", "affected") if ratio else State(version, NOT_RUN, "none")
        for proof, word, kind in block["proofs"]:
            if version in self.proofs.get(proof, {}):
                return State(version, word, kind)
        return State(version, NOT_RUN, "none")

    def evidence(self, block: Mapping[str, Any]) -> Evidence | None:
        """None where rows have none."""
        if "gate" in block:
            table = {
                f"{Tile.parse(tile).stages} stages": [self.state({"gate": [tile]}, version) for version in RELEASES]
                for tile in reversed(block["gate"])
            }
            asked_of = f"{short_gpu(self.data.gpu)}? {short_title(operators.parse(GATED[2]))}"
            return Evidence(f"Is the output right, alone on an {asked_of}", {}, table, {}, {})
        if "timed" in block:
            one = self.beside.get(f"triton@{RELEASES[-1]}")
            return _shares(one, short_gpu(self.data.gpu)) if one else None
        if "overlap" in block:
            read = self.overlap.get("cuda") or self.overlap.get("gluon")
            return _lanes(read) if read else None
        proof = block["proofs"][0][0]
        for version, shown in self.proofs.get(proof, {}).items():
            names = block.get("lines", ["in the program", "in the control"])
            lines = dict(zip(names, (shown.lines, shown.control_lines), strict=True))
            return Evidence(f"{shown.proof.shows} Triton {version}:", lines, {}, {}, {})
        return None


def overlap(rows: Sequence[Row]) -> dict[str, Row]:
    """Backend -> the machine code of its kernel of OVERLAP, at its reference tile where that is known."""
    asked = [
        row
        for row in rows
        if row.technique == OVERLAP[0]
        and (row.get("code") or {}).get("main_loop")
        and row.arch == "sm_90a"
        and reading.problem_of(row).cells[-1] == OVERLAP[1]
        and row.current
    ]
    return {row.backend: row for row in sorted(asked, key=lambda row: bool(row.reference_tile))}


def _said(row: Row) -> str:
    if row.status == "passed":
        return "right"
    if share := re.search(r"(\d+) of (\d+) elements of O are NaN", row.reason or ""):
        return f"{100 * int(share[1]) / int(share[2]):.0f}% NaN"
    return f"{row.status} ({row.check})" if row.check else row.status


def _moved(backend: str, row: Row) -> State:
    loop, ptxas = row["code"]["main_loop"], (row.get("compiler") or {}).get("ptxas", "")
    every, under = loop["all"]["exponentials"], loop["under_products"]["exponentials"]
    return State(
        f"ptxas {ptxas}, from {label(backend)}",
        f"{every - under} of {every} moved",
        "affected" if under < every else "fine",
    )


def _shares(one: Beside, gpu: str) -> Evidence:
    cells = {cell_title(problem): over.value for problem, over in one.cells.items()}
    title = f"Speed with {one.backend.partition('@')[2]} over {RELEASES[0]}’s, the line at the right; on an {gpu}"
    return Evidence(title, {}, {}, dict(sorted(cells.items(), key=lambda cell: cell[1])), {})


def _lanes(row: Row) -> Evidence:
    loop = row["code"]["main_loop"]
    every, under = loop["all"]["exponentials"], loop["under_products"]["exponentials"]
    issue, wait = Span("P V issued", 2), Span("wait for P V", 2)
    source = [issue, Span(f"{every} exponentials", 4), wait]
    before = [Span(f"{under} exponentials", 2)] if under else []
    code = [issue, *before, wait, Span(f"{every - under} exponentials", 4 - len(before) * 2)]
    title = f"Order within an iteration, counted in the machine code of the {label(row.backend)} kernel"
    return Evidence(title, {}, {}, {}, {"source": source, "machine code": code})


def _finding(title: str, block: dict[str, Any], text: str, facts: _Facts, claims: Claims) -> Finding:
    states = facts.states(block)
    having = [state.version for state in states if state.kind in ("wrong", "affected")]
    agrees = having == block.get("affected", having) and (having or not states)
    is_known = not states or any(state.kind != "none" for state in states)
    claims(
        f"{block['name']}: affected are {', '.join(having) or 'none'}", 0, (1 if agrees else -1) if is_known else None
    )
    functions = {name: getattr(facts, name) for name in ("gated", "failed", "over", "number")}
    try:
        why = prose.filled(text, functions, claim=claims).strip()
    except Exception as error:
        raise ValueError(f"{NOTE.name}, {block['name']}: {error}; correct the reference") from error
    evidence = facts.evidence(block)
    return Finding(
        block["name"],
        Markup(MARKDOWN.renderInline(title)),
        Markup(MARKDOWN.render(why)),
        states,
        block["file"],
        command_of(block),
        prints(block),
        Markup(MARKDOWN.renderInline(block.get("needs", ""))),
        evidence,
        _issue(title, block, why, states, evidence),
    )


def _issue(title: str, block: Mapping[str, Any], why: str, states: Sequence[State], evidence: Evidence | None) -> str:
    """The finding as Markdown, whole in itself."""
    parts = [f"# {title}", why]
    if states:
        heads = " | ".join(state.version for state in states)
        parts.append(f"| {heads} |\n|{'---|' * len(states)}\n| {' | '.join(state.word for state in states)} |")
    alone = "It needs Triton and no GPU." if Path(block["file"]).parent.name in ALONE else ""
    parts.append(" ".join(filter(None, (f"To reproduce: `{command_of(block)}`.", alone, block.get("needs")))))
    parts += [f"With Triton {version} it prints\n\n```\n{lines}\n```" for version, lines in prints(block).items()]
    if evidence:
        shown = [f"- {name}: {value:.2f}" for name, value in evidence.shares.items()]
        shown += [
            f"- {name}: " + ", ".join(f"{one.version} {one.word}" for one in row)
            for name, row in evidence.table.items()
        ]
        parts += [f"{evidence.title}\n\n" + "\n".join(shown)] if shown else []
    if alone:
        program = (sources.ROOT / block["file"]).read_text()
        parts.append(f"`{Path(block['file']).name}`:\n\n```python\n{program}```")
    return "\n\n".join(parts) + "\n"
