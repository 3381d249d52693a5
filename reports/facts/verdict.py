"""The verdict on each technique: what it buys in each language, what is missing, and a sentence that says so.

Every number and every word of a sentence is chosen from rows; nothing is typed.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from harness.catalog.problem import Problem
from harness.catalog.techniques import SERIES
from harness.operators.attention.claims import CLAIMS
from harness.rows import reading
from harness.rows.intervals import Interval
from harness.rows.reading import tile_slug
from reports.data.dataset import Dataset, Point, Ratio
from reports.data.names import LABELS
from reports.data.titles import title
from reports.facts import answer, processes, steps

NOTHING = 0.02
"""A gain below 2% in either direction is given as little or nothing where it has no interval: another tile or compiler
moves as much."""
ANOTHER = 0.1
"""A gain at the best tiles is given beside the one at the reference tile where they are this far apart, or where one
buys what the other costs."""
DECLINED, NO_PROGRAM = "unsupported: ", "it runs the program of"
"""How the reasons of holes that are no failure begin."""


@dataclass(frozen=True)
class Gain:
    """Geometric mean of a ratio over the problems where both sides count. `linked`: some went over the anchor.
    `interval`: of the mean, with ends where enough processes timed every pair."""

    value: float
    cells: int
    low: float
    high: float
    linked: bool
    interval: Interval | None = None

    @property
    def is_no_change(self) -> bool:
        """By the interval where it has ends, else by NOTHING."""
        if self.interval and self.interval.low is not None:
            return self.interval.is_no_change
        return abs(self.value - 1) <= NOTHING

    @property
    def mixed(self) -> bool:
        """It buys on one problem what it costs on another, as far as two decimals tell, and not nothing on all."""
        return round(self.low, 2) < 1 < round(self.high, 2) and max(1 - self.low, self.high - 1) > NOTHING

    @property
    def phrase(self) -> str:
        """Buys, costs, changes nothing or depends on the problem, with the number, and its interval where it has ends:
        "about" where it is linked."""
        value = f"{'about ' if self.linked else ''}{self.value:.2f}×"
        if self.mixed:
            return f"gives {value} the speed on average, from {self.low:.2f}× to {self.high:.2f}×"
        certain = ""
        if self.interval and self.interval.low is not None:
            certain = f"95% interval {self.interval.low:.2f} to {self.interval.high:.2f}"
        if self.is_no_change or value == "1.00×":
            told = ", ".join(filter(None, (value, certain)))
            return f"changes {'nothing' if value == '1.00×' else 'little'} ({told})"
        return (
            f"gives {value} the speed" + (f" ({certain})" if certain else "") + (", a loss" if self.value < 1 else "")
        )


@dataclass(frozen=True)
class Hole:
    """Why a twin has no number at its reference tile."""

    where: str
    """Head dimensions and masks; empty where it is so on all problems."""
    reason: str
    is_declined: bool
    """The kernel does not support that, which is no failure."""
    at_best: str
    """What the twin reaches there at its best tile, with the tile and the problem; empty where nothing was timed."""

    def told(self, languages: Iterable[str]) -> str:
        """The hole in a sentence or two; `languages` are those that have it."""
        tile = " at the reference tile" if self.at_best else ""
        where = f" ({self.where})" if self.where else ""
        best = f" At its best tile it reaches {self.at_best}." if self.at_best else ""
        return f"No number in {' and '.join(languages)}{tile}{where}: {self.reason}.{best}"


@dataclass(frozen=True)
class Language:
    """One twin of a technique."""

    backend: str
    point: Point
    """At the headline problem."""
    gain: Gain | None
    best_gain: Gain | None
    """The gain where it and its parent are each at the committed best tile."""
    program: str | None
    """The technique whose program it runs at the same tile."""
    tile_alone: bool
    """It is the parent's program at another tile, for one head_dim at least."""
    lacking: str
    """What the re-exporting file says that the language cannot express or leaves to its compiler."""
    grade: str | None
    """What the language is claimed to say of the technique."""
    holes: list[Hole]
    dropped: bool
    """Its source asks for the technique, and the machine code shows that the compiler did not do it."""
    parent_spills: int
    """Bytes a thread that its parent keeps in local memory at the headline problem."""
    built_on: str
    """The rung on which its twin builds, where that is not the ladder's parent; else empty."""
    wrong: int
    """Problems on which the gate found the earlier version wrong that `point` is of."""

    @property
    def spills_before(self) -> str:
        """That the gain is one over a parent that spills, in a few words; empty where it is not."""
        if not self.gain or self.gain.value <= 1.5 or self.parent_spills < steps.SPILLS:
            return ""
        return f"a parent that spills {self.parent_spills / 1000:.1f} kB a thread"


@dataclass
class Verdict:
    technique: Technique
    parent: Technique | None
    languages: dict[str, Language]
    versus: Gain | None
    """Triton over CUDA, the same instruction class."""
    best_versus: Gain | None
    """The same, each at its committed best tile."""
    crippled: tuple[Gain, Gain] | None = None
    """Where the parent was slow on purpose, in CUDA: what it had lost, and what both steps together give."""
    sentence: str = ""

    def caveat(self, backend: str) -> str:
        """What a language's gain is over, where that is a crippled parent; else empty."""
        if backend == "cuda" and self.crippled:
            return f"over a parent that is slow on purpose; both steps {self.crippled[1].value:.2f}×"
        language = self.languages.get(backend)
        return f"over {language.spills_before}" if language and language.spills_before else ""

    @property
    def holes(self) -> list[tuple[Hole, str]]:
        """Each hole once, and as a sentence about the languages that have it."""
        found: dict[Hole, list[str]] = {}
        for language in self.languages.values():
            for hole in language.holes:
                found.setdefault(hole, []).append(LABELS[language.backend])
        return [(hole, hole.told(languages)) for hole, languages in found.items()]

    def declines(self, backend: str) -> bool:
        """Whether the twin supports none of the problems at its reference tile."""
        holes = self.languages[backend].holes if backend in self.languages else []
        return any(hole.is_declined and not hole.where for hole in holes)


def verdict(data: Dataset, experiment: str, technique: Technique) -> Verdict:
    """Of a technique, over the problems of an experiment."""
    problems = data.problems(experiment)
    in_series = sources.series(SERIES, technique.path)
    languages = {backend: _language(data, experiment, problems, technique, backend) for backend in in_series}
    versus, best_versus = _both(
        data, lambda problem, best: data.versus(experiment, problem, technique, "triton", "cuda", best=best), problems
    )
    crippled = _over_a_crippled_parent(data, experiment, problems, technique)
    result = Verdict(technique, techniques.parent(technique), languages, versus, best_versus, crippled)
    result.sentence = sentence(result)
    return result


def sentence(result: Verdict) -> str:
    """What the step buys in both languages, and where Triton then stands."""
    if result.parent is None:
        text = "The ladder starts here."
    else:
        languages = [one for one in result.languages.values() if one.backend != "triton_native" and _has_step(one)]
        text = "; ".join(map(_clause, languages)) + "."
        text = text[0].upper() + text[1:]
        if result.parent.mma != result.technique.mma and not any(one.gain for one in languages):
            text = "The kernel before it multiplies by another instruction, so the step has no ratio."
        before = techniques.parent(result.parent)
        if result.crippled and before:
            lost, together = result.crippled
            text += (
                f" Its parent is slow on purpose, at {lost.value:.2f}× the speed of “{title(before.name)}” in CUDA; "
                f"both steps together give {together.value:.2f}× the speed of that kernel."
            )
    if result.versus is None:
        return text
    then = " then" if result.parent else ""
    best, problems = result.best_versus, result.versus.cells
    means = f" Ratios are means over {problems} problems." if problems > 1 else ""
    tuned = f"{best.value:.2f}×" if best and _apart(result.versus, best) else ""
    if result.versus.is_no_change:
        at_best = f"; with each at its best tile Triton runs at {tuned} the speed of CUDA" if tuned else ""
        return f"{text} At the same tile both{then} run equally fast{at_best}.{means}"
    at_best = f", or {tuned} with each at its best tile" if tuned else ""
    speed = f"runs at {result.versus.value:.2f}× the speed of CUDA"
    return f"{text} At the same tile Triton{then} {speed}{at_best}.{means}"


def lacking(technique: Technique, backend: str) -> str:
    """What a re-exporting twin says that core Triton cannot express or leaves to the compiler: a few words such as "the
    layout of shared memory", or none."""
    path = sources.kernel_file(backend, technique.path)
    if path.suffix != ".py" or not sources.same_program(technique.path, backend):
        return ""
    text = " ".join((ast.get_docstring(sources.parse(path)) or "").split())
    found = re.search(r"Core Triton (?:cannot express (.+?)|leaves (.+?) to the compiler)[:.]", text)
    return found[1] or found[2] if found else ""


def _language(data: Dataset, experiment: str, problems: list[Problem], technique: Technique, backend: str) -> Language:
    points = [data.point(experiment, problem, technique.name, backend) for problem in problems]
    gain, best_gain = _both(
        data, lambda problem, best: data.gain(experiment, problem, technique, backend, best=best), problems
    )
    tile_alone = steps.is_parents_program(technique, backend) and not _same_tiles(technique, backend)
    again = next((point.program for point in points if point.program), None) or _repeated(technique, backend)
    program = None if tile_alone else again
    return Language(
        backend,
        points[0] if points else Point("hole", reason="not measured"),
        gain,
        best_gain,
        program,
        tile_alone,
        lacking(technique, backend),
        _grade(technique, backend),
        _holes(data, experiment, dict(zip(problems, points, strict=True)), technique, program, backend),
        dropped=bool(problems) and steps.hint_dropped(data, technique, backend, problems[0], points[0]),
        parent_spills=_parent_spills(data, experiment, problems, technique, backend),
        built_on=technique.builds_on_in.get(backend, ""),
        wrong=len({reading.slug(row) for row in data.wrong(points[0])}) if points else 0,
    )


def _holes(
    data: Dataset,
    experiment: str,
    points: Mapping[Problem, Point],
    technique: Technique,
    program: str | None,
    backend: str,
) -> list[Hole]:
    """Each reason why there is no number once, with where it is so, unless it is so everywhere."""
    cells: dict[str, list[Problem]] = {}
    for problem, point in points.items():
        if point.kind == "hole" and point.reason != "not measured":
            reason = point.reason
            if program and data.point(experiment, problem, program, backend).reason == reason:
                reason = f"{NO_PROGRAM} “{title(program)}”, which has none"
            cells.setdefault(plain(reason), []).append(problem)
    return [
        Hole(
            "" if len(where) == len(points) > 1 else _cells(where),
            reason.removeprefix(DECLINED),
            reason.startswith((DECLINED, NO_PROGRAM)),
            _at_best(data, experiment, where, technique, backend),
        )
        for reason, where in cells.items()
    ]


def _cells(problems: Sequence[Problem]) -> str:
    """d=64, d=128 causal: the first with both masks."""
    masks: dict[int, list[str]] = {}
    for problem in problems:
        masks.setdefault(problem.head_dim, []).append(problem.mask)
    return ", ".join(
        f"d={head_dim}" if len(set(found)) > 1 else f"d={head_dim} {found[0]}" for head_dim, found in masks.items()
    )


def plain(reason: str) -> str:
    """A hole's reason in words: without Python's traceback, and without the tile and the problem that cells differ
    in."""
    if found := re.search(r"out of resource: (.+?), Required: (\d+), Hardware limit: (\d+)", reason):
        what, needed, there = found[1], int(found[2]), int(found[3])
        return f"{DECLINED}the kernel needs {needed:,} bytes of {what} for a block, and the GPU has {there:,}"
    if reason.startswith("not converged"):
        return reason.replace("not converged: ", "repeated timings did not settle, at ")
    return reason.partition("; got ")[0] if reason.startswith(DECLINED) else reason


def _at_best(data: Dataset, experiment: str, problems: Sequence[Problem], technique: Technique, backend: str) -> str:
    """Of the first page's problem, where it is among them."""
    for problem in sorted(problems, key=lambda one: one != answer.headline(data)):
        point = data.point(experiment, problem, technique.name, backend, best=True)
        if point.row and (speed := processes.speed(data, point)):
            return f"{speed.mean:.0f} TFLOPS (d={problem.head_dim} {problem.mask}, tile {tile_slug(point.row)})"
    return ""


def _both(
    data: Dataset, ratio: Callable[[Problem, bool], Ratio | None], problems: Iterable[Problem]
) -> tuple[Gain | None, Gain | None]:
    """The gain at the reference tile, and at the best ones where it is known on as many problems."""
    reference, best = (_gain(data, (ratio(problem, best) for problem in problems)) for best in (False, True))
    comparable = best and (reference is None or best.cells >= reference.cells)
    return reference, best if comparable else None


def _gain(data: Dataset, ratios: Iterable[Ratio | None]) -> Gain | None:
    known = [ratio for ratio in ratios if ratio]
    numbers = [ratio.value for ratio in known]
    if not numbers:
        return None
    mean = statistics.geometric_mean(numbers)
    linked = any(ratio.linked for ratio in known)
    return Gain(mean, len(numbers), min(numbers), max(numbers), linked, data.mean_interval(known))


def _apart(gain: Gain, best: Gain) -> bool:
    """Whether the gain at the best tiles is worth a word beside that at the reference tile."""
    differs = abs(best.value / gain.value - 1) > ANOTHER
    opposed = min(gain.value, best.value) < 1 - NOTHING and max(gain.value, best.value) > 1 + NOTHING
    return differs or opposed


def _clause(language: Language) -> str:
    name = LABELS[language.backend]
    place = f"in {name}, where it builds on “{title(language.built_on)}”," if language.built_on else f"in {name}"
    if language.program:
        return f"{_runs(language)} the kernel of “{title(language.program)}”"
    if language.gain is None:
        if language.holes:
            reasons = f"reason{'s' * (len(language.holes) > 1)}"
            return f"{place} the step has no number at the reference tile, for the {reasons} below"
        if language.point.counts:
            return f"{place} the kernel before it has no timing to compare with"
        if language.point.kind != "earlier":
            return f"{place} the step was not measured"
        problems = f"{language.wrong} problem{'s' if language.wrong != 1 else ''}"
        found = f", which the gate found wrong on {problems}" if language.wrong else ""
        return f"{place} only an earlier version was measured{found}"
    if language.dropped:
        return f"{name}’s compiler ignores the hint, so that only the tile changes: {language.gain.value:.2f}×"
    text = language.gain.phrase
    if language.best_gain and _apart(language.gain, language.best_gain):
        text += f" ({language.best_gain.value:.2f}× with each at its best tile)"
    if language.spills_before:
        text += f", over {language.spills_before}"
    if language.tile_alone and language.lacking:
        return f"{_runs(language)} the parent’s kernel, and the other tile alone {text}"
    return f"{place} {'the tile alone' if language.tile_alone else 'it'} {text}"


def _has_step(language: Language) -> bool:
    """Gluon's ladder starts at its first kernel."""
    return language.backend != "gluon" or language.gain is not None


def _runs(language: Language) -> str:
    """That it runs another technique's program, and why: what its twin's file says that the language lacks, as far as
    the matrix has it so."""
    name = LABELS[language.backend]
    if not language.lacking:
        return f"{name} runs"
    if language.grade == "hatch":
        return f"{name} has only an escape hatch for {language.lacking}, so it runs"
    if language.grade in ("hint", "automatic"):
        return f"{name} leaves {language.lacking} to its compiler, so it runs"
    return f"{name} cannot express {language.lacking}, so it runs"


def _grade(technique: Technique, backend: str) -> str | None:
    """In the newest version that the matrix has."""
    dialect = {"triton_native": "triton"}.get(backend, backend)
    claims = [claim for claim in CLAIMS if claim.cell == (technique.name, dialect)]
    return max(claims, key=lambda claim: claim.holds_for[-1]).grade if claims else None


def _over_a_crippled_parent(
    data: Dataset, experiment: str, problems: list[Problem], technique: Technique
) -> tuple[Gain, Gain] | None:
    """What the parent had lost in CUDA and what both steps together give, where the one gives back what the other lost;
    else None."""
    parent = techniques.parent(technique)
    before = parent and techniques.parent(parent)
    if parent is None or before is None:
        return None
    lost, won = (
        _gain(data, (data.gain(experiment, problem, one, "cuda") for problem in problems))
        for one in (parent, technique)
    )
    if not lost or not won or not steps.gives_back(lost.value, won.value):
        return None
    pairs = [[data.point(experiment, problem, one.name, "cuda") for one in (technique, before)] for problem in problems]
    together = _gain(data, (data.ratio(*pair) for pair in pairs))
    return (lost, together) if together else None


def _parent_spills(data: Dataset, experiment: str, problems: list[Problem], technique: Technique, backend: str) -> int:
    parent = techniques.parent(technique, backend)
    if parent is None or not problems:
        return 0
    return steps.spill_bytes(data, data.point(experiment, problems[0], parent.name, backend))


def _same_tiles(technique: Technique, backend: str) -> bool:
    parent = techniques.parent(technique, backend)
    tile = techniques.reference_tile
    return parent is not None and all(tile(technique, head_dim) == tile(parent, head_dim) for head_dim in (64, 128))


def _repeated(technique: Technique, backend: str) -> str | None:
    """The parent, where the twin is the parent's program at the parent's tiles though it was timed anew."""
    parent = techniques.parent(technique, backend)
    same = parent and steps.is_parents_program(technique, backend) and _same_tiles(technique, backend)
    return parent.name if parent and same else None
