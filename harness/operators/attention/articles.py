"""Articles that published a ladder: their steps and numbers as data, beside what is measured for them here.

A number in here is a quotation, typed from the article's text. What this project measures is in rows, never here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.catalog.entries import Experiment, Tile
from harness.operators.attention.problem import Problem

OWN_CODE_GPU = "NVIDIA H200"
"""The GPU that every `own_code` was measured on."""
WIDE = (("lazy_consumers", Tile(256, 64, 3, 8)), ("lazy_scores_in_flight", Tile(256, 64, 3, 8)))
BEST = (
    ("lean_instructions", Tile(128, 64)),
    ("lean_mbarrier_ring", Tile(128, 128, 2)),
    ("lazy_rescale", Tile(128, 128, 2)),
)
"""The fastest rungs of mma.sync with head_dim 64, beside WIDE where the problem fills the GPU."""
BEST_OF_128 = (("lean_instructions", Tile(128, 64)), ("lazy_rescale", Tile(128, 64, 2)), *WIDE)


@dataclass(frozen=True)
class Step:
    """One step: what stands for it here, at which tile, and what is then different.

    `tflops` is what the article prints, by its own FLOP rule; `gain` is what it prints where it gives a ratio only. A
    step that has neither was changed together with the next one that has, and is apart here, or is not in the article.
    """

    name: str
    technique: str
    tile: Tile
    tflops: float | None = None
    gain: float | None = None
    over: str = ""
    """Name of the step that it is compared with; the one before by default."""
    differs: str = ""


@dataclass(frozen=True)
class Shape:
    """One of the article's problems. `rungs` are measured on it beside the steps, at the tiles given.

    `tflops` is the article's last kernel. `libraries`: backend -> TFLOPS, as printed. `own_code`: TFLOPS (by this
    project's rule) of the article's own code on an H200, measured separately, so it is no side of an interleaved ratio.
    """

    problem: Problem
    rungs: tuple[tuple[str, Tile], ...]
    tflops: float | None = None
    libraries: Mapping[str, float] = field(default_factory=dict)
    own_code: float | None = None


@dataclass(frozen=True)
class Article:
    """`shapes[0]` is the problem of the steps. `flops`: this project's FLOPs over the article's for one problem."""

    name: str
    title: str
    card: str
    shapes: tuple[Shape, ...]
    steps: tuple[Step, ...]
    cannot_compare: tuple[str, ...]
    """What of the article has no counterpart here, and why."""
    flops: float = 1.0
    flop_rule: str = "4 * B * H * Sq * Skv * D, as here"
    own_code_is: str = "the article's last kernel"
    l2_hit_rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Card -> L2 hit rate in percent, before and after consecutive blocks share K and V, as printed."""
    author: str = ""
    """As the text names the author; empty where it does not."""
    link: str = ""
    """The address that the text gives, of the article or of its code."""

    @property
    def problem(self) -> Problem:
        return self.shapes[0].problem

    def before(self, step: Step) -> Step | None:
        """The step that `step` is compared with here. Raises KeyError when `over` names no step before it."""
        place = self.steps.index(step)
        if step.over:
            return {other.name: other for other in self.steps[:place]}[step.over]
        return self.steps[place - 1] if place else None

    def printed_before(self, step: Step) -> Step | None:
        """The nearest step before with printed TFLOPS; None where `step` has none itself."""
        if step.tflops is None:
            return None
        earlier = self.steps[: self.steps.index(step)]
        return next((other for other in reversed(earlier) if other.tflops is not None), None)

    def printed_gain(self, step: Step) -> float | None:
        """The article's gain of a step, over the step before that has a number."""
        before = self.printed_before(step)
        return step.tflops / before.tflops if before and step.tflops and before.tflops else step.gain

    def experiment(self) -> Experiment:
        """All of the article's cells in both languages."""
        steps = tuple((self.problem, step.technique, step.tile) for step in self.steps)
        further = tuple((shape.problem, *rung) for shape in self.shapes for rung in shape.rungs)
        return Experiment(
            problems=tuple(shape.problem for shape in self.shapes),
            cells=tuple(dict.fromkeys((*steps, *further))),
            backends=("cuda", "triton"),
        )
