"""What a technique gained where a language has it: the language's own kernel with it over the one before it, both at
one tile, from the rows of any experiment. It says whether a term of the ledger could be had by writing it.

Kernels of one group are compared there. Where no group timed both, each is compared with the anchor of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.catalog import sources, techniques
from harness.catalog.problem import ANCHOR, Problem, Tile
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.gap import FLAGSHIP, GLUON, TERMS, TLX, WAYS, Term, shape
from harness.rows import intervals, noise, reading
from harness.rows.intervals import Estimate
from harness.rows.reading import Hashes, Row

SURE = math.log(1.03)
"""A loss without an interval counts from here on: boards of one name differ by up to 3 percent."""


@dataclass(frozen=True)
class Step:
    """A technique in a language, at one tile: the kernel `to` over the kernel `start`. `before`: the tile of `start`
    where it is another one, of a step that only changes the tile."""

    backend: str
    to: str
    start: str
    tile: Tile
    size: Estimate
    before: Tile | None = None

    @property
    def loses(self) -> bool:
        """Whether the kernel with the technique is the slower one, beyond what is by chance."""
        high = self.size.interval.high
        return self.size.value < -SURE if high is None else high < 1


@cache
def written(term: Term, start: str) -> tuple[tuple[str, str, str], ...]:
    """(backend, kernel with the technique, kernel before it) of each technique of a term, where the language from which
    the way starts has programs for both and they differ. Of TLX, which has one program, those of Gluon: it has the same
    schedule."""
    backend = GLUON if start == TLX else start
    lacks = next((one.lacks for one in ABLATIONS if one.name == term.leave_out), (term.name,))
    steps = [_step(backend, *one.step) for one in TERMS if one.name in lacks and one.step]
    return tuple(dict.fromkeys(step for step in (*steps, *term.twins) if _differ(*step)))


def _step(backend: str, to: str, start: str) -> tuple[str, str, str]:
    """A step of the ladder in a language, in which a twin may build on another rung."""
    technique = techniques.find(to)
    return backend, to, technique.builds_on_in.get(backend, start) if technique else start


class Twins:
    """The kernels that terms of the ledger have in other languages, timed on one GPU."""

    def __init__(self, rows: Iterable[Row], hashes: Hashes) -> None:
        asked = {step for start, way in WAYS.items() for term in way for step in written(term, start)}
        kernels = {(backend, name) for backend, *names in asked for name in names}
        kernels |= {(start, FLAGSHIP) for start in WAYS}
        known = []
        self._rows: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
        self._anchors: dict[tuple[Any, ...], Row] = {}
        for row in sorted(rows, key=lambda row: str(row["time"])):
            if row["kind"] == "environment":
                known.append(row)
            elif row["kind"] == "timing" and row.get("mode") != "sustained" and reading.is_as_shipped(row):
                kernel = row["backend"], row.get("technique")
                if row["backend"] == ANCHOR and reading.counts(row, hashes):
                    known.append(row)
                    self._anchors[noise.group(row)] = row
                elif kernel in kernels and reading.counts(row, hashes):
                    known.append(row)
                    self._rows[reading.slug(row), *kernel][reading.tile_slug(row)] = row
        self._known = intervals.Intervals(noise.Timings(known))

    def steps(self, term: Term, start: str, problem: Problem) -> list[Step]:
        """Those of a term on a problem: of each technique one at every tile where both kernels were timed, the tile
        with the fastest kernel first."""
        found = []
        for backend, to, before in written(term, start):
            with_it, without = (self._rows.get((problem.slug, backend, name), {}) for name in (to, before))
            tiles = sorted(
                with_it.keys() & without.keys(),
                key=lambda tile: -max(reading.tflops(with_it[tile]), reading.tflops(without[tile])),
            )
            for tile in tiles:
                if size := self._size(with_it[tile], without[tile]):
                    found.append(Step(backend, to, before, Tile.parse(tile), size))
        return found

    def tile_step(self, backend: str, problem: Problem, wanted: Tile, best: Tile) -> list[Step]:
        """The language's flagship at the fastest tile that was timed of the shape of `wanted`, over itself at `best`;
        none where it has no such tile, or no row at either."""
        timed = self._rows.get((problem.slug, backend, FLAGSHIP), {})
        alike = [tile for tile in timed if shape(Tile.parse(tile)) == shape(wanted) != shape(best)]
        if not alike or best.slug not in timed:
            return []
        tile = max(alike, key=lambda tile: reading.tflops(timed[tile]))
        size = self._size(timed[tile], timed[best.slug])
        return [Step(backend, FLAGSHIP, FLAGSHIP, Tile.parse(tile), size, best)] if size else []

    def _size(self, to: Row, start: Row) -> Estimate | None:
        if size := self._known.estimate([(to, 1.0), (start, -1.0)]):
            return size
        over = [self._over_anchor(row) for row in (to, start)]
        return over[0].minus(over[1]) if over[0] and over[1] else None

    def _over_anchor(self, row: Row) -> Estimate | None:
        anchor = self._anchors.get(noise.group(row))
        return self._known.estimate([(row, 1.0), (anchor, -1.0)]) if anchor else None


def _differ(backend: str, *names: str) -> bool:
    """Whether the language has a program for each of these techniques, and no two are the same."""
    programs = [_program(backend, name) for name in names]
    return None not in programs and len(set(programs)) == len(programs)


def _program(backend: str, name: str) -> str | None:
    """The technique whose file holds the program in this language; None where there is no such file."""
    technique = techniques.find(name)
    if technique is None or not sources.kernel_file(backend, technique.path).is_file():
        return None
    other = sources.same_program(technique.path, backend)
    return name if other is None else _program(backend, other)
