"""The page that answers what to write for a matrix product, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from harness.catalog.techniques import LANGUAGES
from reports.data.dataset import Dataset
from reports.data.names import cell_title
from reports.draw import bars
from reports.facts import answer as facts
from reports.pages import downloads
from reports.pages.common import Rows, grid_lines, provenance
from reports.pages.gemm import answer


def gpus(rows: Rows) -> dict[str, Dataset]:
    """Path -> the dataset that it shows: that of this machine first. Of those that timed CUDA and core Triton."""
    timed = [
        data
        for data in rows.fresh_first
        if {"cuda", "triton"} <= {row.backend for row in data.counting(answer.LADDER, data.operator.techniques)}
    ]
    names = [downloads.stem(data, "bars") for data in timed]
    return {f"answer/{name if place else 'gemm'}.html": timed[place] for place, name in enumerate(names)}


def page(rows: Rows, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
    """`every`: what `gpus` gives, for the switch."""
    found = facts.answer(data, answer.RACE)
    assert found, f"{data.gpu}: it timed the ladder"
    grid, steps = answer.grid(data), answer.steps(data, found.problem)
    name = downloads.stem(data, "bars")
    table = [
        {"panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops, **downloads.about(bar.point.row)}
        for bar in found.bars
    ]
    best = [found.best(language).point.row for language in LANGUAGES]
    return {
        "answer": found,
        "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
        "choices": facts.choices(found),
        "compared": {language: found.over(found.best(language), found.fastest_library) for language in LANGUAGES},
        "steps": steps,
        "languages": LANGUAGES,
        "grid": grid,
        "where": [data.gpu, cell_title(found.problem)],
        "caption": provenance(data, found.rows),
        "command": f"twinkernels bench {' '.join(dict.fromkeys(f'gemm/{row.technique}' for row in best if row))} "
        f"--problem {found.problem.slug}",
        "gpus": every,
        "stem": name,
        "shown": data,
        "files": [
            downloads.Download(f"answer-{name}", table, found.rows),
            *(
                [
                    downloads.Download(
                        f"grid-{name}", grid_lines(grid), [one.row for _, points in grid for one in points.values()]
                    )
                ]
                if grid
                else []
            ),
        ],
    }
