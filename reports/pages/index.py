"""The first page: the answer, its bars, the matrix, and what each step buys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog.techniques import TECHNIQUES
from reports.data.dataset import Dataset
from reports.data.names import cell_title
from reports.draw import bars, waterfall
from reports.facts import answer, ledger, matrix, processes, steps
from reports.facts.expressibility import FAULTS, LONG, Known
from reports.pages import comparisons, downloads

COLUMNS = ("cuda", "triton")
TILES = {"best": "each at its best tile", "reference": "all at CUDA’s reference tile"}
LARGEST = "xor_swizzle"
"""The step that the page calls the largest."""


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
        "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
        "first": first,
        "rest": rest,
        "lines": lines,
        "counts": {language: matrix.counts(lines, language) for language in matrix.LANGUAGES},
        "languages": matrix.LANGUAGES,
        "long": LONG,
        "faults": {fault: what for fault, what in FAULTS.items() if _seen(lines, fault)},
        "least": processes.LEAST,
        "gap": next((ledger.short(one) for one in ledger.found([data])[1] if one.problem == found.problem), ""),
        "where": where(data, found),
        "steps": drawn,
        "more": more,
        "files": list(downloads.first_page(found, drawn, more)),
    }


def where(data: Dataset, found: answer.Answer) -> list[str]:
    """What the numbers are about: GPU, problem, tiles, day, compilers. The bar of another Triton names its version."""
    rows = [bar.point.row for bar in found.bars if bar.point.row and not bar.is_library]
    days = sorted({str(row.time)[:10] for row in rows})
    installed = (row for row in rows if row.compiler and "@" not in row.backend)
    compilers = sorted({str(row.compiler.get("front_end")) for row in installed})
    how = "recorded" if data.recorded else "measured here"
    return [
        data.gpu,
        cell_title(found.problem),
        "each kernel at its best tile",
        f"{how} {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "",
        *(name.replace("nvcc", "CUDA").replace("triton", "Triton") for name in compilers),
    ]


def waterfalls(data: Dataset, found: answer.Answer) -> list[dict[str, Any]]:
    """One per tile policy: its steps, and the drawing for a screen and for a phone."""
    best = {column: found.bar("wgmma", column) for column in COLUMNS}
    drawn = []
    for policy in steps.POLICIES:
        chains = steps.chains(data, found.problem, policy, COLUMNS)
        if not chains[0].techniques:
            return []
        alt = f"What each step buys in CUDA and in core Triton, {TILES[policy]}"
        drawings = [
            Markup(waterfall.waterfall(chains, best, width, policy, alt))
            for width in (waterfall.WIDE, waterfall.NARROW)
        ]
        gains = {step.technique.name: step for step in chains[0].columns["cuda"]}
        swizzle = gains.pop(LARGEST, None)
        rest = max((step.gain for step in gains.values()), default=None)
        drawn.append({"policy": policy, "drawings": drawings, "chains": chains, "swizzle": swizzle, "rest": rest})
    return drawn


def _seen(lines: Sequence[matrix.Line], fault: str) -> bool:
    return any(one.fault == fault for line in lines for one in line.said.values())
