"""Rows of gates and sanitizers. No number here was ever measured."""

from typing import Any

from harness.operators.attention.problem import Problem
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]


def gate(technique: str, problem: Problem, **rest: Any) -> Row:
    return synthetic.make("gate", technique, "cuda", problem, None, experiment="correctness") | rest


def sanitizer(technique: str, tool: str, *findings: str) -> Row:
    row = gate(technique, synthetic.PROBLEMS[0], experiment="sanitizer", tool=tool)
    return row | {
        "status": "wrong" if findings else "passed",
        "reason": "it found",
        "details": {"findings": [*findings]},
    }


def sanitized() -> list[Row]:
    bug = sanitizer("scalar", "synccheck") | {"experiment": "sanitizer_planted", "details": {"planted": "a_bug"}}
    race = sanitizer("scalar", "racecheck", "a hazard at <kernel>", "another")
    unseen = sanitizer("scalar", "initcheck") | {"status": "unsupported", "reason": "initcheck does not see it"}
    return [sanitizer("scalar", "memcheck"), race, bug, unseen]


def gates() -> list[Row]:
    small, long = Problem.square(2, 4, 512, 64, dtype="fp16"), Problem(2, 4, 2, 256, 512, 64, "fp16")
    good = {
        "normal": {"max_abs": 0.004, "yardstick": 0.004, "floor": 0.0},
        "outliers": {"max_abs": 0.006, "yardstick": 0.004, "floor": 0.0},
    }
    bad = {"outliers": {"max_abs": None, "yardstick": 0.004, "floor": 0.0}}
    return [
        gate("scalar", small, numerics=good),
        gate("scalar", long, numerics={"normal": {"max_abs": 0.001, "yardstick": 0.004, "floor": 0.0}}),
        gate("xor_swizzle", small, numerics=good),
        gate("xor_swizzle", long, status="wrong", reason="not finite on outliers <b>", numerics=bad),
        gate("lean_instructions", small, status="unsupported", reason="declines"),
    ]
