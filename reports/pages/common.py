"""What most pages show: the variables of their templates, from datasets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.catalog import sources, techniques
from harness.catalog.entries import Ladder, Technique
from harness.catalog.techniques import SERIES, TECHNIQUES
from harness.operators.attention.problem import Problem
from reports.data.dataset import Dataset, Point, Row, grouped, quartiles
from reports.data.names import cell_title
from reports.data.questions import question
from reports.draw import banks, figures
from reports.facts import counters, resources, versions
from reports.facts.comparisons import GRID, LENGTHS
from reports.facts.holes import group_holes, unmeasured
from reports.facts.scores import earlier, earlier_cells, scored
from reports.pages import comparisons, downloads, filling

SHOWN_LENGTH = 4096
COOL = {"hopper_sustained": GRID}
"""Experiment that times kernels under load alone -> the one that timed the same kernels cool."""


@dataclass(frozen=True)
class Figure:
    svg: Markup
    caption: str
    alt: str
    data: str
    """The files of downloads.experiments that have its numbers, less their ending; empty where there are none."""


def ladder(data: Dataset, datasets: Sequence[Dataset], which: Ladder) -> dict[str, Any]:
    """`datasets`: all of them, in the order in which they are asked for counters and machine code."""
    rungs = rungs_of(which)
    names = [rung.name for rung in rungs]
    return {
        "ladder": which,
        "rungs": rungs,
        "series": series(rungs),
        "parents": {rung.name: parent for rung, parent in parents_elsewhere(rungs)},
        "figures": ladder_figures(data, which),
        "tables": [
            ladder_table(data, which.experiment, problem, rungs) for problem in shown_problems(data, which.experiment)
        ],
        "holes": group_holes(r for r in data.holes(which.experiment) if r.technique in (None, *names)),
        "earlier": [
            (backend, name) for backend in SERIES for name in earlier(data, which.experiment, backend) if name in names
        ],
        "steps": counters.conflict_steps(datasets),
        "picture": banks.picture,
        "usage": (usage := resources.usage(datasets, rungs)),
        "has_warps": any(item.fits is not None for item in usage),
        "has_active": any(item.active is not None for item in usage),
        "arch": resources.ARCH,
        "head_dim": resources.HEAD_DIM,
        "hit_rates": resources.hit_rates(datasets),
        "has_l2_orders": set(resources.L2_ORDERS) <= set(names),
        "assembled": resources.assembled(data, which.experiment, rungs),
    }


def ladder_table(data: Dataset, experiment: str, problem: Problem, rungs: Sequence[Technique]) -> dict[str, Any]:
    """One problem: per rung and twin the burst timing, the step, the sustained timing and the best tile; the peers."""

    def points(name: str | None, backends: Sequence[str], mode: str = "burst", best: bool = False) -> dict[str, Point]:
        return {backend: data.point(experiment, problem, name, backend, mode, best=best) for backend in backends}

    peers = data.peers(experiment)
    lines: list[dict[str, Any]] = []
    for rung in rungs:
        shown = sources.series(SERIES, rung.path)
        lines.append(
            {
                "rung": rung,
                "burst": points(rung.name, shown),
                "sustained": points(rung.name, shown, "sustained"),
                "best": points(rung.name, shown, best=True),
                "gains": {backend: data.gain(experiment, problem, rung, backend) for backend in shown},
            }
        )
    return {
        "problem": problem,
        "lines": lines,
        "burst": points(None, peers),
        "sustained": points(None, peers, "sustained"),
        "has_sustained": "sustained" in data.modes(experiment),
        "has_best": any(point.counts for line in lines for point in line["best"].values()),
    }


def experiment(data: Dataset, name: str) -> dict[str, Any]:
    rows = [row for row in data.newest if row.experiment == name]
    ours = [row for row in rows if row.technique and row.current]
    timed = [*rows, *data.timings(COOL[name])] if name in COOL else rows
    both = loaded(row for row in timed if not row.technique or row.current)
    return {
        "where": data.provenance(ours),
        "scored": scored(data, name),
        "name": name,
        "stem": downloads.stem_of(data, name),
        "question": question(name),
        "shown": comparisons.lengths(data) if name == LENGTHS else None,
        "filled": filling.section(data) if name == GRID else None,
        "beside": versions.beside(data, name),
        "loaded": both,
        "limited": sum(bool((row.clocks or {}).get("throttle")) for _, row in both),
        "cool": COOL.get(name),
        "groups": grouped(rows, lambda row: row.problem),
        "total": len(rows),
        "holes": group_holes(data.holes(name)),
        "unmeasured": unmeasured(data, name),
        "earlier": earlier_cells(data, name),
        "pairs": data.pairs(name),
        "machines": data.environments_of(rows),
    }


def loaded(rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """(burst, sustained): the newest timings of each kernel that was timed in both modes."""
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: row.time):
        if row.kind == "timing" and row.samples_ms:
            kernel = (row.problem, row.backend, row.technique or "", row.tile)
            found.setdefault(kernel, {})[row.mode] = row
    return [(modes["burst"], modes["sustained"]) for _, modes in sorted(found.items()) if len(modes) == 2]


def per_ghz(row: Row) -> float | None:
    """TFLOPS for each GHz of the clock in the kernel; None where that was not read."""
    ghz = row.clock_ghz
    return row.speed / ghz if ghz else None


def shown_problems(data: Dataset, experiment: str) -> list[Problem]:
    """The problems on which a ladder's page shows it: of an experiment with several lengths those of SHOWN_LENGTH."""
    problems = data.problems(experiment)
    return [problem for problem in problems if problem.seq_kv == SHOWN_LENGTH] or problems


def ladder_figures(data: Dataset, which: Ladder) -> list[Figure]:
    rungs, experiment = rungs_of(which), which.experiment
    return [
        Figure(
            Markup(figures.ladder(data, experiment, problem, rungs)),
            data.provenance(data.counting(experiment, rungs)),
            f"TFLOPS per rung in CUDA and in Triton, {cell_title(problem)}",
            downloads.stem(data, experiment),
        )
        for problem in shown_problems(data, experiment)
    ]


def rungs_of(which: Ladder) -> list[Technique]:
    return [technique for technique in TECHNIQUES if technique.ladder == which.name]


def series(rungs: Sequence[Technique]) -> tuple[str, ...]:
    """The columns of a ladder's tables: Gluon only where a rung is written in it."""
    return tuple(name for name in SERIES if any(sources.has_series(name, rung.path) for rung in rungs))


def parents_elsewhere(rungs: Sequence[Technique]) -> list[tuple[Technique, Technique]]:
    """Rungs whose parent is not the rung above, and that parent."""
    above = [None, *rungs]
    pairs = [(rung, techniques.parent(rung), before) for rung, before in zip(rungs, above, strict=False)]
    return [(rung, parent) for rung, parent, before in pairs if parent and parent != before]


def spread(row: Row) -> str:
    """322 [321, 323]: median and quartiles of the speed."""
    low, middle, high = quartiles(row)
    digits = 1 if middle < 100 else 0
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
