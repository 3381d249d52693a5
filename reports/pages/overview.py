"""Pages that list: every technique with the matrix, its proofs, regressions, the data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness import operators
from harness.catalog import experiments, techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import RELEASES, rungs
from harness.expressibility import matrix, verdicts
from harness.expressibility.claims import RIVALS, VERSIONS
from harness.expressibility.verdicts import files_of
from harness.rows import reading
from reports.data.dataset import Dataset, grouped
from reports.data.names import LANGUAGES, page_of, short_gpu, theme, themes, title
from reports.facts import scores
from reports.facts.expressibility import LONG, WORDS, Known, Said, said_of
from reports.facts.gains import gains, on_both
from reports.pages import downloads
from reports.pages.common import Rows, group_holes

OTHERS = "Not on a ladder"
DIFFER = 1.05
"""Gains of one technique on two GPUs are listed where they differ by more."""
COMMANDS = {
    "bench": "How fast are kernels that somebody asked for?",
    "tune": "Which tile is fastest, in each language?",
    "ncu": "What do the GPU's counters say of each kernel?",
    "sanitizer": "Do NVIDIA's sanitizers find an error in a kernel?",
    "sanitizer_planted": "Do NVIDIA's sanitizers find an error that is known to be there?",
    "inspect": "What is each kernel made of?",
    "memory": "What does each CUDA kernel do when it runs, counted on a CPU?",
}
"""What those ask that are commands and have no file in experiments/."""


def techniques_page(rows: Mapping[str, Rows], compiled: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every technique by theme: its idea, what each language can say, what it buys in each. `compiled`: proofs."""
    known = rows[operators.FIRST].known
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in themes()}
    for rung in rungs():
        lines.setdefault(theme(rung), []).append(_line(known, techniques.key(rung), rung.change, rung, rows))
    where = {name: heading for heading, titles in themes().items() for name in titles}
    on_ladders = {techniques.key(rung) for rung in rungs()}
    for name, idea in matrix.techniques_of_matrix().items():
        if name not in on_ladders and any((name, language) in known for language in LANGUAGES):
            lines.setdefault(where.get(name, OTHERS), []).append(_line(known, name, idea))
    graded = {technique for technique, language in known if language in LANGUAGES}
    return {
        "themes": {name: _together(some) for name, some in lines.items() if some},
        "several": len(operators.every()) > 1,
        "languages": LANGUAGES,
        "long": LONG,
        "drawn": {one.grade for (_, language), one in known.items() if language in LANGUAGES},
        "proven": matrix.proven(matrix.cells(compiled)),
        "written": {
            head: sum(said.counts == "direct" for (_, of), said in known.items() if of == language)
            for language, head in LANGUAGES.items()
        },
        "timed": (RELEASES[0], written_in(known, RELEASES[0])),
        "graded": len(graded),
        "versions": VERSIONS,
        "rivals": RIVALS,
        "asked": [(name, idea, said_of(name, known, RIVALS)) for name, idea in matrix.asked().items()],
        "changes": changes(known),
        "gpus": two_gpus(rows[operators.FIRST]),
    }


def written_in(known: Known, version: str) -> dict[str, int]:
    """How many techniques an author can write in each language that this version of Triton has."""
    found = dict.fromkeys((head for language, head in LANGUAGES.items() if version in VERSIONS[language]), 0)
    for (_, language), said in known.items():
        mark = said.cell.marks.get(version) if said.cell and language in LANGUAGES else None
        if mark and mark.state == verdicts.PROVEN and mark.grade == "direct" and not mark.fault:
            found[LANGUAGES[language]] += 1
    return found


def two_gpus(rows: Rows) -> dict[str, Any] | None:
    """Whether the first two GPUs agree about what an operator's techniques buy; None where both timed none."""
    others = [data for data in rows.datasets if data.recorded and data.gpu != rows.main.gpu]
    shared = on_both(rows.main, others[0]) if others else []
    if not shared:
        return None
    return {
        "operator": rows.main.operator.title,
        "names": [short_gpu(data.gpu) for data in (rows.main, others[0])],
        "shared": len(shared),
        "limit": DIFFER,
        "differing": [one for one in shared if one.apart > DIFFER],
    }


def _together(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """In their order, but what several operators call by one name one after another."""
    names = [line["name"].rpartition("/")[2] for line in lines]
    return sorted(lines, key=lambda line: names.index(line["name"].rpartition("/")[2]))


def _line(
    known: Known, name: str, idea: str, rung: Technique | None = None, rows: Mapping[str, Rows] | None = None
) -> dict[str, Any]:
    data = rows[rung.operator].of_technique(rung.name) if rung and rows else None
    found = gains(data, data.experiment_of(rung), rung) if rung and data and data.rows else None
    return {
        "name": name,
        "title": title(rung.name if rung else name),
        "idea": idea,
        "operator": operators.get(rung.operator).title if rung else "",
        "path": page_of(rung) if rung else None,
        "said": said_of(name, known),
        "gains": found,
    }


def proof(rows: Mapping[str, Rows], name: str) -> dict[str, Any]:
    """Of one technique in every language."""
    known = rows[operators.FIRST].known
    rung = next((one for one in rungs() if one.name == name), None)
    languages = {language: head for language, head in {**LANGUAGES, **RIVALS}.items() if (name, language) in known}
    datasets = rows[rung.operator if rung else operators.FIRST].datasets
    return {
        "name": name,
        "idea": rung.change if rung else (matrix.techniques_of_matrix() | matrix.asked()).get(name, ""),
        "path": page_of(rung) if rung else None,
        "languages": languages,
        "said": said_of(name, known, languages),
        "gated": {
            language: found[0]
            for language in languages
            if (found := [one for data in datasets if (one := gated(known[name, language], data))])
        },
        "long": LONG,
    }


def gated(said: Said, data: Dataset) -> dict[str, Any] | None:
    """What gates on a GPU say where a claim names an experiment of gates: version -> the tiles at which the result is
    right and wrong, the installed version first, and the first reason."""
    claim = said.cell.newest.claim if said.cell else None
    if not claim or not claim.gates:
        return None
    rows = [
        row
        for row in data.newest
        if (row.kind, row.experiment) == ("gate", claim.gates)
        and row.backend.partition("@")[0] == claim.dialect
        and row.current
    ]
    by_version = grouped(rows, lambda row: row.backend.partition("@")[2])
    wrong = [str(row.reason) for row in rows if row.status == "wrong"]
    tiles = {
        version or RELEASES[0]: [
            sorted({row.tile for row in some if row.status == status}) for status in ("passed", "wrong")
        ]
        for version, some in sorted(by_version.items())
    }
    return {"experiment": claim.gates, "reason": wrong[0] if wrong else "", "tiles": tiles} if rows else None


def changes(known: Known) -> list[tuple[Said, str, bool]]:
    """(cell, language, lost) of cells that differ between versions, first those of which an older one does more."""
    found = []
    for (_, language), said in known.items():
        if language in LANGUAGES and said.cell and said.cell.changes:
            proven = [mark for mark in said.cell.marks.values() if mark.state == verdicts.PROVEN]
            *older, newest = [(bool(mark.fault), list(WORDS).index(mark.grade)) for mark in proven]
            found.append((said, language, any(rank < newest for rank in older)))
    return sorted(found, key=lambda one: not one[2])


def regressions(data: Dataset) -> dict[str, Any]:
    """How cells of the scorecard moved from run to run, and how far they move although nothing changed."""
    found = scores.sections(data)
    each = {id(one): one for section in found.values() for one in section}.values()  # one may be in several sections
    table = [
        {
            "technique": line.technique,
            "language": line.backend,
            "problem": line.problem.slug,
            "tile": line.tile,
            "mode": moment.rows[-1]["mode"],
            "time": moment.time,
            "over_anchor": moment.value,
            "source_sha256": moment.source,
            "verdict": line.verdict.verdict if line.verdict and moment is line.moments[-1] else "",
        }
        for line in each
        for moment in line.moments
    ]
    rows = [row for line in each for moment in line.moments for row in moment.rows]
    return {
        "sections": found,
        "unedited": [one for one in each if one.verdict and not one.edited],
        "noise": scores.between_boards(data) if data.recorded and data.rows else None,
        "anchor": data.operator.anchor,
        "files": [downloads.Download("regressions", table, rows)] if table else [],
    }


def data_page(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """Every experiment with its question, its rows, and what has no number."""
    questions = COMMANDS | {name: experiments.question(name).replace("`", "") for name in experiments.full_names()}
    tables = []
    for data in datasets:
        counts = Counter(row.experiment for row in data.newest)
        holes = grouped(data.holes, lambda row: row.experiment)
        lines = [
            {
                "name": name,
                "question": questions.get(data.operator.experiment(asked)) or questions.get(asked, ""),
                "rows": counts[name],
                "stem": downloads.stem_of(data, name),
                "holes": group_holes(holes.get(name, [])),
            }
            for name, asked in ((name, name.removesuffix(reading.SHARED_PTXAS)) for name in data.experiments)
        ]
        tables += [(data, lines)] if lines else []
    return {
        "tables": tables,
        "scorecards": [(data, entries) for data in datasets if (entries := scores.scored(data))],
        "files": [one for data in datasets for one in downloads.experiments(data)],
    }


def programs(known: Known) -> set[str]:
    """The files of all proofs, from the root of the repository, with what a program needs beside it."""
    proofs = [shown.proof for said in known.values() for shown in said.proofs]
    return {path for proof in proofs for program in (proof.subject, proof.control) for path in files_of(program)}
