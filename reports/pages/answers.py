"""The answer of an operator beside the first one: what to write, what it costs, each step and every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from harness.catalog import techniques
from harness.catalog.entries import Technique
from harness.catalog.techniques import LANGUAGES
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, fastest
from reports.data.names import cell_title, short_gpu
from reports.draw import bars
from reports.facts import answer as facts
from reports.facts.answer import SERIES_OF, Race, over_problems
from reports.pages import downloads
from reports.pages.common import Line, Page, Rows, grid_lines, provenance
from reports.pages.prose import Number


@dataclass(frozen=True)
class Comparison:
    """What makes an operator's answer. `between`: what is between its products, which is why its languages differ as
    they do. `template`: extends answers.html. `grid`: the experiment with every problem."""

    race: Race
    between: str
    template: str
    grid: str = "grid"

    def pages(self, rows: Rows) -> Iterator[Page]:
        """One for each GPU that has rows."""
        every = self.gpus(rows)
        for path, data in every.items():
            yield Page(path, self.template, partial(self.page, data, every))

    def line(self, rows: Rows, gpu: str) -> Line | None:
        """Of this GPU where its rows are there, else of the first one that has any; None without a ladder."""
        every = self.gpus(rows)
        if not every:
            return None
        path, data = next(((path, data) for path, data in every.items() if data.gpu == gpu), next(iter(every.items())))
        found = self._answer(data)
        title = cell_title(found.problem).partition("  ")[0]
        return Line(data.operator.title, path, self.between, title, found.gpu, facts.choices(found))

    def parts(self, technique: Technique) -> list[tuple[str, dict[str, Any]]]:
        """None: a technique's page shows rows alone."""
        return []

    def references(self, data: Dataset) -> dict[str, Callable[..., Number]]:
        """None beyond those of every operator."""
        return {}

    def gpus(self, rows: Rows) -> dict[str, Dataset]:
        """Path -> the dataset that it shows: that of this machine first. Of those that timed CUDA and core Triton."""
        ladder = self.race.headline
        timed = [
            data
            for data in rows.fresh_first
            if {"cuda", "triton"} <= {row.backend for row in data.counting(ladder, data.operator.techniques)}
        ]
        names = [downloads.stem(data, "bars") if place else data.operator.name for place, data in enumerate(timed)]
        return {f"answer/{name}.html": data for name, data in zip(names, timed, strict=True)}

    def page(self, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
        """`every`: what `gpus` gives, for the switch."""
        found, grid = self._answer(data), over_problems(data, self.grid, LANGUAGES)
        steps = self.steps(data, found.problem)
        name = downloads.stem(data, "bars")
        table = [
            {"panel": bar.panel, "kernel": bar.label, "tflops": bar.tflops, **downloads.about(bar.point.row)}
            for bar in found.bars
        ]
        best = [found.best(language).point.row for language in LANGUAGES]
        kernels = dict.fromkeys(techniques.qualified(row.technique, data.operator.name) for row in best if row)
        files = [downloads.Download(f"answer-{name}", table, found.rows)]
        if grid:
            rows = [point.row for _, points in grid for point in points.values()]
            files.append(downloads.Download(f"grid-{name}", grid_lines(grid), rows))
        return {
            "answer": found,
            "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
            "choices": facts.choices(found),
            "compared": {language: found.over(found.best(language), found.fastest_library) for language in LANGUAGES},
            "steps": steps,
            "untimed": [rung for rung in data.operator.techniques if rung not in [rung for rung, *_ in steps]],
            "beyond": beyond(found, steps),
            "not_timed": not_timed(found),
            "languages": LANGUAGES,
            "grid": grid,
            "where": [data.gpu, cell_title(found.problem)],
            "caption": provenance(data, found.rows),
            "command": f"twinkernels bench {' '.join(kernels)} --problem {found.problem.slug}",
            "ladder": data.operator.experiment(self.race.headline),
            "all_problems": data.operator.experiment(self.grid),
            "gpus": {path: (short_gpu(one.gpu), one) for path, one in every.items()},
            "stem": name,
            "shown": data,
            "files": files,
        }

    def _answer(self, data: Dataset) -> facts.Answer:
        found = facts.answer(data, self.race)
        assert found, f"{data.gpu}: it timed the ladder"
        return found

    def steps(self, data: Dataset, problem: Problem) -> list[tuple[Technique, Problem, dict[str, Point]]]:
        """Every rung that was timed, with its fastest point in each language: at `problem`, or at another one of the
        ladder where it was not timed there."""
        ladder = self.race.headline
        found = []
        order = sorted(data.problems(ladder), key=lambda other: other != problem)
        for technique in data.operator.techniques:
            for where in order:
                points = {language: fastest_of(data, ladder, where, [technique], language) for language in LANGUAGES}
                if any(point.counts for point in points.values()):
                    found.append((technique, where, points))
                    break
        return found


def peak(data: Dataset, panel: str) -> float | None:
    """By wgmma all that the tensor cores can; how much of it mma.sync reaches was not measured."""
    return 1.0 if panel == "wgmma" else None


def beyond(found: facts.Answer, steps: Iterable[tuple[Technique, Problem, dict[str, Point]]]) -> list[facts.Bar]:
    """The best of each language that is more than a board's difference faster than all its steps."""
    best = dict.fromkeys(LANGUAGES, 0.0)
    for _, where, points in steps:
        if where == found.problem:
            best = {language: max(best[language], points[language].tflops or 0) for language in LANGUAGES}
    bars = [found.best(language) for language in LANGUAGES]
    return [bar for bar in bars if (bar.tflops or 0) > facts.BOARDS * best[bar.backend]]


def not_timed(found: facts.Answer) -> list[str]:
    """The libraries that keep a place among the bars and have no speed there."""
    return [bar.label for bar in found.bars if bar.is_library and not bar.tflops]


def fastest_of(data: Dataset, experiment: str, problem: Problem, rungs: Iterable[Technique], language: str) -> Point:
    """The fastest of these rungs in a language, at its reference tile or at the one that `tune` chose."""
    return fastest(
        data.point(experiment, problem, rung.name, backend, best=tuned)
        for rung in rungs
        for backend in SERIES_OF[language]
        for tuned in (False, True)
    )
