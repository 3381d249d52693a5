"""What the answer of every operator shows: what to write, what it costs, how to measure it; the pages of most."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.catalog.entries import Technique
from harness.catalog.techniques import LANGUAGES
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, fastest
from reports.data.names import cell_title, short_gpu, short_title
from reports.draw import bars
from reports.facts import answer as facts
from reports.facts.answer import Race, kernels, over_one, over_problems
from reports.facts.steps import own_problem
from reports.pages import downloads
from reports.pages.common import Line, Page, Rows, provenance

GRID = "grid"
IN_TORCH = {"cudnn": "cudnn", "cublas": "nvidia-cublas"}
"""Part of a peer's name -> what environments call the library that torch brings for it. Other peers are torch's own."""
ADDRESS = re.compile(r"(https?://|ssh://|(?=[\w.-]+@))(?:([\w.-]+)(?::[^/@]*)?@)?([\w./~:-]+)")
"""Of a repository, by http(s) or ssh: how it begins, a user, and the rest."""


@dataclass(frozen=True)
class Comparison:
    """What makes an operator's answer. `between`: what is between its products, which is why its languages differ as
    they do. `beside`: an experiment with languages that GRID lacks."""

    race: Race
    between: str
    beside: str | None = None

    def pages(self, rows: Rows) -> Iterator[Page]:
        every = self.gpus(rows)
        for path, data in every.items():
            yield Page(path, f"{data.operator.name}/index.html", partial(self.page, data, every))

    def line(self, rows: Rows, gpu: str) -> Line | None:
        """Of this GPU where its rows are there, else of the first one that has any; None without a ladder."""
        every = self.gpus(rows)
        if not every:
            return None
        path, data = next(((path, data) for path, data in every.items() if data.gpu == gpu), next(iter(every.items())))
        found, title = self._answer(data), data.operator.title
        return Line(title, path, self.between, short_title(found.problem), found.gpu, facts.choices(found))

    def gpus(self, rows: Rows) -> dict[str, Dataset]:
        """Path -> its dataset, of those that timed CUDA and core Triton: first this machine's, then those with GRID."""
        ladder = self.race.headline
        timed = [
            data
            for data in rows.fresh_first
            if {"cuda", "triton"} <= {row.backend for row in data.counting(ladder, data.operator.techniques)}
        ]
        timed.sort(key=lambda data: data.recorded and not data.counting(GRID, data.operator.techniques))
        names = [downloads.stem(data, "bars") if place else data.operator.name for place, data in enumerate(timed)]
        return {f"answer/{name}.html": data for name, data in zip(names, timed, strict=True)}

    def page(self, data: Dataset, every: Mapping[str, Dataset]) -> dict[str, Any]:
        """`every`: what `gpus` gives, for the switch."""
        found, grid = self._answer(data), self.every_problem(data)
        over_grid = facts.over(data, grid, "library", LANGUAGES)
        steps = self.steps(data, found.problem)
        untimed = [rung for rung in data.operator.techniques if rung not in [rung for rung, *_ in steps]]
        every_run = {"every step": self.race.headline, "every problem": GRID}
        return {
            **shown(data, found, every, {"grid": grid}, every_run),
            "compared": {language: found.over(found.best(language), found.fastest_library) for language in LANGUAGES},
            "steps": steps,
            "untimed": untimed,
            "timed_at": next((path for path, one in every.items() if one.counting(self.race.headline, untimed)), None),
            "climb": climb(steps, found),
            "newest": any("@" in row.backend for row in data.counting(self.race.headline)),
            "languages": LANGUAGES,
            "over_grid": over_grid,
            "over_cuda": facts.over(data, grid, "cuda", ("gluon",)),
            "ladder": data.operator.experiment(self.race.headline),
            "all_problems": data.operator.experiment(GRID),
        }

    def every_problem(self, data: Dataset) -> facts.Grid:
        """Of the grid, with the languages that another experiment timed on some of them."""
        beside = dict(over_problems(data, self.beside, LANGUAGES)) if self.beside else {}
        found = []
        for problem, points in over_problems(data, GRID, LANGUAGES):
            others = beside.get(problem, points)
            found.append(
                (problem, {name: point if point.row else others.get(name, point) for name, point in points.items()})
            )
        return found

    def _answer(self, data: Dataset) -> facts.Answer:
        found = facts.answer(data, self.race)
        assert found, f"{data.gpu}: it timed the ladder"
        return found

    def steps(self, data: Dataset, problem: Problem) -> list[tuple[Technique, Problem, dict[str, Point]]]:
        """Every rung that was timed, with its fastest point in each language, as the bars have it: at the problem that
        the ladder has for it, else at `problem`, or at another one of the ladder where it was not timed there."""
        found = []
        order = sorted(data.problems(self.race.headline), key=lambda other: other != problem)
        timed = {language: self.race.experiments(data, language) for language in LANGUAGES}
        for technique in data.operator.techniques:
            own = own_problem(technique)
            for where in [own, *order] if own else order:
                points = {name: fastest(kernels(data, timed[name], where, [technique], name)) for name in LANGUAGES}
                if any(point.counts for point in points.values()):
                    found.append((technique, where, points))
                    break
        return found


def clone(checkout: Path) -> str:
    """git clone URL && cd NAME, without a password; empty unless the checkout has an origin by http(s) or ssh."""
    if not (checkout / ".git").exists():  # git would ask a repository around it
        return ""
    try:
        asked = ["git", "-C", str(checkout), "config", "--get", "remote.origin.url"]
        url = subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if not (found := ADDRESS.fullmatch(url)):
        return ""
    begins, user, rest = found.groups()
    of_user = f"{user}@" if user and not begins.startswith("http") else ""
    name = rest.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    return f"git clone {begins}{of_user}{rest} && cd {name}"


def shown(
    data: Dataset,
    found: facts.Answer,
    every: Mapping[str, Dataset],
    grids: Mapping[str, facts.Grid],
    runs: Mapping[str, str],
) -> dict[str, Any]:
    """`grids`: name -> what facts.over_problems found, a file each. `runs`: what it measures -> experiment."""
    stem, command = downloads.stem(data, "bars"), bench(found)
    table = [
        {
            "panel": bar.panel,
            "kernel": bar.label,
            "tflops": bar.tflops,
            "share_of_best": share.value if (share := found.share(bar)) else None,
            **downloads.about(bar.point.row),
        }
        for bar in found.bars
    ]
    files = [downloads.Download(f"answer-{stem}", table, found.rows)]
    for name, grid in grids.items():
        if grid:
            each = [(problem, points, *one) for problem, points in grid for one in points.items()]
            speeds = []
            for problem, points, kernel, point in each:
                speed = point.tflops if point.counts else None
                moved = speed and 1000 * speed * problem.bytes / problem.flops
                line = {"problem": problem.slug, "kernel": kernel, "tflops": speed, "gb_s": moved}
                if kernel in LANGUAGES and (ratio := over_one(data, points, kernel)):
                    beside = facts.beside(data, points, kernel)
                    line |= {"ratio_to_library": ratio.value, "library_tflops": beside.tflops}
                speeds.append(line)
            files.append(downloads.Download(f"{name}-{stem}", speeds, [point.row for *_, point in each]))
    return {
        "answer": found,
        "linked": found.linked,
        "finding": facts.finding(found),
        "bars": [Markup(bars.bars(found, width)) for width in (bars.WIDE, bars.NARROW)],
        "choices": facts.choices(found),
        "where": where(data, found),
        "command": command,
        "own": {
            "make report": "the first page’s bars first, then all that this site shows",
            command: "the fastest bar of CUDA, Gluon and core Triton",
            **{f"twinkernels run {data.operator.experiment(name)}": what for what, name in runs.items()},
        },
        "libraries": libraries(data, found),
        "caption": provenance(data, found.rows),
        "gpus": {path: (_of_gpu(one), one) for path, one in every.items()},
        "elsewhere": elsewhere(data, every, runs),
        "stem": stem,
        "shown": data,
        "files": files,
        **grids,
    }


def elsewhere(data: Dataset, every: Mapping[str, Dataset], runs: Mapping[str, str]) -> dict[str, tuple[str, str, int]]:
    """What this GPU lacks of `runs` -> the first page of another that has it, that GPU, and how many problems."""
    found: dict[str, tuple[str, str, int]] = {}
    for what, name in runs.items():
        timed = {path: one for path, one in every.items() if one.counting(name, data.operator.techniques)}
        if timed and data not in timed.values():
            path, other = next(iter(timed.items()))
            found[what] = path, short_gpu(other.gpu), len(other.problems(name))
    return found


def bench(found: facts.Answer) -> str:
    """What times the bars of our own kernels."""
    best = [found.best(language).point.row for language in LANGUAGES]
    names = dict.fromkeys(f"{found.problem.operator}/{row.technique}" for row in best if row)
    return f"twinkernels bench {' '.join(names)} --problem {found.problem.slug}"


def where(data: Dataset, found: facts.Answer) -> list[str]:
    """What the numbers are about: GPU, problem, days, compilers."""
    rows = [bar.point.row for bar in found.bars if bar.point.row and not bar.is_library]
    days = sorted({str(row.time)[:10] for row in rows})
    installed = (row for row in rows if row.compiler and "@" not in row.backend)
    compilers = sorted({str(row.compiler.get("front_end")) for row in installed})
    how = "recorded" if data.recorded else "measured here"
    return [
        data.gpu,
        cell_title(found.problem),
        *([f"{how} {' to '.join(dict.fromkeys((days[0], days[-1])))}"] if days else []),
        *(name.replace("nvcc", "CUDA").replace("triton", "Triton") for name in compilers),
    ]


def libraries(data: Dataset, found: facts.Answer) -> dict[str, tuple[str, str]]:
    """Library among the bars -> (how to get it, empty where PyTorch has it; the version timed, empty without one)."""
    found_as = {}
    for bar in found.bars:
        if bar.is_library:
            needed, row = data.operator.libraries.get(bar.backend), bar.point.row
            software = data.environments[row.environment].details.get("software", {}) if row else {}
            in_torch = next((name for part, name in IN_TORCH.items() if part in bar.backend), "torch")
            version = software.get(needed.software if needed else in_torch)
            if isinstance(version, int):  # 91900 is 9.19.0
                version = f"{version // 10_000}.{version // 100 % 100}.{version % 100}"
            found_as[bar.label] = (needed.install if needed else "", str(version or ""))
    return found_as


def _of_gpu(data: Dataset) -> str:
    """Its name, and whether only an earlier version of the CUDA kernels was timed on it."""
    timed = any(row.backend == "cuda" and row.usable for row in data.timings())
    return f"{short_gpu(data.gpu)}{'' if timed else ', earlier version'}"


def climb(
    steps: Iterable[tuple[Technique, Problem, dict[str, Point]]], found: facts.Answer
) -> dict[str, tuple[float, float]]:
    """Language -> TFLOPS of its first step at the answer's problem, and of its best kernel where that is faster."""
    firsts: dict[str, float] = {}
    for _, where, points in steps:
        for language, point in points.items():
            if where == found.problem and point.kind == "measured" and point.tflops:
                firsts.setdefault(language, point.tflops)
    lasts = {language: found.best(language).tflops or 0 for language in firsts}
    return {language: (first, lasts[language]) for language, first in firsts.items() if first < lasts[language]}
