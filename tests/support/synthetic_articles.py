"""Invented rows of the articles' experiments and of the structured heads. No number here was ever measured."""

import math
from collections.abc import Iterator
from typing import Any

from harness.catalog import experiments, techniques
from harness.catalog.entries import Tile
from harness.operators.attention.articles import Article
from harness.operators.attention.problem import Problem
from tests.support.synthetic_rows import ENVIRONMENT, make, samples

Row = dict[str, Any]
SPEED = {"cuda": 40.0, "triton": 90.0}
"""TFLOPS of the first technique of the registry; each of the following is 8% (CUDA) or 3% faster."""
GROWTH = {"cuda": 1.08, "triton": 1.03}
PEERS = {"sdpa_cudnn": 400.0, "sdpa_flash": 250.0}


def rows(name: str) -> list[Row]:
    """A recorded run of one article's experiment, environment first."""
    article = experiments.article(name)
    return [ENVIRONMENT, *(row for row in _timings(article))]


def tflops(technique: str, backend: str, tile: Tile) -> float:
    place = [other.name for other in techniques.TECHNIQUES].index(technique)
    return SPEED[backend] * GROWTH[backend] ** place * (tile.block_n / 64) ** 0.1


def _timings(article: Article) -> Iterator[Row]:
    for shape in article.shapes:
        problem = shape.problem
        steps = [(step.technique, step.tile) for step in article.steps] if problem == article.problem else []
        for backend, (technique, tile) in ((b, cell) for b in SPEED for cell in dict.fromkeys((*steps, *shape.rungs))):
            yield _timing(article.name, backend, problem, tflops(technique, backend, tile), technique, tile)
        for peer, speed in PEERS.items():
            yield _timing(article.name, peer, problem, speed)


def _timing(
    experiment: str,
    backend: str,
    problem: Problem,
    speed: float,
    technique: str | None = None,
    tile: Tile | None = None,
) -> Row:
    of = {"experiment": experiment, "mode": "burst", "group": f"{experiment} {problem.slug}"}
    cloud = samples(f"{experiment} {problem.slug} {backend} {speed}", problem.flops / speed / 1e9)
    return make("timing", technique, backend, problem, tile, **of, samples_ms=cloud, clocks={"sm_mhz": 1980.0})


def heads() -> dict[str, Any]:
    """What structured_heads.compute returns."""
    bins = 64
    found = [
        {
            "name": name,
            "attention": [
                [round(255 * math.exp(-abs(i - j) / (2 + 3 * place))) if j <= i else 0 for j in range(bins)]
                for i in range(bins)
            ],
            "row_sums": [0.9996, 1.0003],
            "error_max": [0.001 / (1 + i / 8) for i in range(bins)],
            "error_median": [0.0001 / (1 + i / 8) for i in range(bins)],
            "max_abs": 0.001,
            "median_abs": 5e-05,
            "rounding": 0.0009,
        }
        for place, name in enumerate(("local", "strided", "global anchor", "block"))
    ]
    return {"technique": "direct_rescale", "seq": 256, "bin": 4, "heads": found}
