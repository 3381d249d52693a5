"""Invented records: programs timed again and again on several boards, with a noise of their own. Deterministic; no
number here was ever measured."""

import math
import random
from itertools import product
from typing import Any

from harness.catalog import techniques
from harness.operators.attention.problem import Problem
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]

BOARDS, PROCESSES = 4, 2
WITHIN, BETWEEN = 0.002, 0.006
"""Standard deviations of a program's log time: between the groups of one board, between boards."""


def rows(problems: int = 6, within: float = WITHIN, between: float = BETWEEN, seed: int = 0) -> list[Row]:
    """Every process times, on each problem, one group: two library peers, which count as unchanged, and seven kernels.

    A program's time has an effect of its board and one of its group.
    """
    chance = random.Random(seed)
    found: list[Row] = [
        synthetic.environment(f"board{board}-{process}", f"board{board}")
        for board, process in product(range(BOARDS), range(PROCESSES))
    ]
    for length in range(problems):
        problem = Problem.square(4, 16, 512 * (length + 1), 128)
        members = [*((name, "cuda") for name in synthetic.SPEED["cuda"]), (None, "sdpa_cudnn"), (None, "sdpa_flash")]
        for name, backend in members:
            true = problem.flops / (synthetic.SPEED["cuda"] | {None: 400})[name] / 1e9
            for board in range(BOARDS):
                effect = chance.gauss(0, between)
                for process in range(PROCESSES):
                    ms = true * math.exp(effect + chance.gauss(0, within))
                    found.append(row(problem, name, backend, f"board{board}", process, ms))
    return found


def row(problem: Problem, name: str | None, backend: str, board: str, process: int, ms: float) -> Row:
    tile = techniques.reference_tile(techniques.of_qualified(name), problem.head_dim) if name else None
    where = f"{board}-{process}"
    rest = {"mode": "burst", "group": f"{where}-{problem.slug}", "environment": where}
    rest["samples_ms"] = synthetic.samples(f"{problem.slug} {name} {backend} {board} {process}", ms)
    rest["time"] = f"2030-01-02T03:{process:02d}:{int(board[5:]):02d}Z"
    return synthetic.make("timing", name, backend, problem, tile, **rest)


def of_process(rows: list[Row], board: str, process: int) -> list[Row]:
    """What one process measured, with its environment."""
    name = f"{board}-{process}"
    return [row for row in rows if name in (row.get("id"), row.get("environment"))]
