"""The first page: the answer in a sentence, its bars, the matrix, and what each step buys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.problem import Problem
from harness.catalog.techniques import TECHNIQUES
from reports.data.dataset import Dataset
from reports.draw import bars, waterfall
from reports.facts import answer, headlines, ledger, matrix, processes, steps
from reports.facts.expressibility import FAULTS, LONG, Known
from reports.pages import comparisons, downloads

COLUMNS = ("cuda", "triton")


def page(data: Dataset, datasets: Sequence[Dataset], known: Known) -> dict[str, Any]:
    """`data`: the rows of the headline GPU; `datasets`: all; `known`: what each language can say."""
    found = answer.answer(data)
    if found is None:
        return {"answer": None, "of_all": TECHNIQUES, "more": [], "steps": []}
    first, rest = matrix.lines(data, found.problem, known)
    lines = [*first, *rest]
    drawn, more = waterfalls(data, found), comparisons.sections(data, datasets, found)
    return {
        "answer": found,
        "sentence": headlines.sentence(found),
        "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
        "bars_title": headlines.bars_title(found),
        "first": first,
        "rest": rest,
        "lines": lines,
        "matrix_title": headlines.matrix_title(lines),
        "counts": matrix.counts(lines, "triton"),
        "impossible": headlines.impossible(lines),
        "percent": headlines.percent,
        "languages": matrix.LANGUAGES,
        "long": LONG,
        "faults": {fault: what for fault, what in FAULTS.items() if _seen(lines, fault)},
        "least": processes.LEAST,
        "runs": f"{100 * headlines.RUNS:.0f}",
        "few": headlines.few_processes(found),
        "unlike": headlines.unlike_tuning(found),
        "gap": next((ledger.short(one) for one in ledger.found([data])[1] if one.problem == found.problem), ""),
        "where": where(data, found),
        "steps": drawn,
        "more": more,
        "files": list(downloads.first_page(found, drawn, more)),
    }


def where(data: Dataset, found: answer.Answer) -> list[str]:
    """What the numbers are about: GPU, problem, tiles, day, compilers. The bar of another Triton names its version."""
    rows = [bar.point.row for bar in found.bars if bar.point.row and not bar.is_library]
    days = sorted({str(row["time"])[:10] for row in rows})
    installed = (row for row in rows if row.get("compiler") and "@" not in row["backend"])
    compilers = sorted({str(row["compiler"].get("front_end")) for row in installed})
    return [
        data.gpu,
        described(found.problem),
        "each kernel at its best tile",
        f"{'recorded' if data.recorded else 'measured here'} {' to '.join(dict.fromkeys((days[0], days[-1])))}"
        if days
        else "",
        *(name.replace("nvcc", "CUDA").replace("triton", "Triton") for name in compilers),
    ]


def described(problem: Problem) -> str:
    """head_dim 128, bf16, full attention, batch 4, 16 heads, 4096 tokens"""
    heads = f"{problem.heads}" if problem.heads == problem.heads_kv else f"{problem.heads} over {problem.heads_kv}"
    tokens = f"{problem.seq_q}" if problem.seq_q == problem.seq_kv else f"{problem.seq_q} by {problem.seq_kv}"
    size = f"batch {problem.batch}, {heads} heads, {tokens} tokens"
    return f"head_dim {problem.head_dim}, {problem.dtype}, {problem.mask} attention, {size}"


def waterfalls(data: Dataset, found: answer.Answer) -> list[dict[str, Any]]:
    """One per tile policy: its title, and the drawing for a screen and for a phone."""
    best = {column: found.bar("wgmma", column) for column in COLUMNS}
    drawn = []
    for policy in steps.POLICIES:
        chains = steps.chains(data, found.problem, policy, COLUMNS)
        if not chains[0].techniques:
            return []
        told = headlines.steps_title(chains)
        drawings = [
            Markup(waterfall.waterfall(chains, best, width, policy, told))
            for width in (waterfall.WIDE, waterfall.NARROW)
        ]
        drawn.append({"policy": policy, "title": told, "drawings": drawings, "chains": chains})
    return drawn


def _seen(lines: Sequence[matrix.Line], fault: str) -> bool:
    return any(one.fault == fault for line in lines for one in line.said.values())
