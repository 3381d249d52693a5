"""The rows of one GPU as pages need them: which row is a rung's number in a cell, and how two rungs compare.

Rows are those of harness.rows.frame, one Row a line of its tables. Nothing here draws or writes.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pandas

from harness import operators
from harness.catalog import techniques, tiles
from harness.catalog.entries import MODES, Technique, Tile
from harness.operators.protocol import Operator, Problem
from harness.rows import frame, lock, reading, results, scorecard, stats

Kind = Literal["measured", "same_program", "earlier", "hole"]
Chosen = Mapping[tuple[str, str, str], Tile]
"""(technique, backend, cell of the tile table) -> the committed best tile."""
Tried = Mapping[tuple[str, str, str], int]
"""The same -> of how many tiles it is the best."""
CODE = ("registers", "spill_bytes", "smem_bytes", "census", "main_loop", "setmaxnreg", "remarks", "sass_sha256")
KINDS = ("environment", "timing", "gate", "code", "counters")
INTEGERS = {"registers", "spill_bytes", "smem_bytes", "found", "replicate"}
NAMES = {"kind"}
"""Columns of the tables that were read."""


class Row(Mapping[str, Any]):
    """A line of a table of harness.rows.frame: attributes are its columns, None where a value or the column is missing.

    As a mapping it has the fields of a raw row, for functions of harness.rows that take raw rows.
    """

    __slots__ = ("columns",)
    columns: dict[str, Any]

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def __getattr__(self, name: str) -> Any:
        try:
            return self.columns[name]
        except KeyError:
            if name in NAMES:
                return None
        raise AttributeError(name)

    def __getitem__(self, name: str) -> Any:
        value = self._field(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in ("code", *self.columns) if self._field(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # without a count of its fields

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def _field(self, name: str) -> Any:
        columns = self.columns
        if name in ("problem", "tile"):
            return columns.get(f"{name}_fields")
        if name == "code":
            read = {part: columns[part] for part in CODE if columns.get(part) is not None}
            return read if "registers" in read else None
        if name == "assembler":
            return "shared" if columns.get(name) == "shared" else None
        if name == "clock_ghz":
            return None if columns.get(name) is None else [columns[name]]
        return columns.get(name)


def made_of(found: pandas.DataFrame) -> list[dict[str, Any]]:
    """What kernels.lock asks of each row."""
    hashes = found[["source_sha256", "sass_sha256"]].astype(object)
    return hashes.where(hashes.notna(), None).to_dict("records")


def about(found: pandas.DataFrame, hashes: reading.Hashes | None) -> pandas.DataFrame:
    """A frame whose `current` is of kernels with these hashes, or what kernels.lock says is the same."""
    if hashes is None:
        return found
    names = [
        techniques.qualified(name, of) if isinstance(name, str) else None
        for name, of in zip(found.technique, found.operator, strict=True)
    ]
    given = [
        name is None
        or hashes.get((name, by)) == row["source_sha256"]
        or lock.vouches(row, (name, by), hashes.get((name, by)), tile)
        for name, by, tile, row in zip(names, found.backend, found.tile, made_of(found), strict=True)
    ]
    declined = found.current & (found.status == "unsupported")
    return with_current(found, declined | pandas.Series(given, index=found.index, dtype=bool))


def with_current(found: pandas.DataFrame, current: pandas.Series | bool) -> pandas.DataFrame:
    found = found.assign(current=current)
    if "usable" in found:
        found = found.assign(usable=found.current & (found.status == "passed") & found.ms.notna())
    return found


def lines(kind: str, found: pandas.DataFrame) -> list[Row]:
    """The rows of a frame, each with the name of its `kind` on pages."""
    columns = {}
    for name, series in found.items():
        plain = int if name in INTEGERS else lambda value: value
        values = zip(series.tolist(), series.isna().to_numpy(), strict=True)
        columns[name] = [None if missing else plain(value) for value, missing in values]
    NAMES.update(columns)
    rows = [Row(dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
    for row in rows:
        row.columns["kind"] = kind
        row.columns["kind"] = results.what(row)
        if row.columns.get("assembler") == "shared":
            row.columns["experiment"] = f"{row.experiment}{reading.SHARED_PTXAS}"
    return rows


@dataclass(frozen=True)
class Point:
    """What is known of one rung in one cell. `row` is there unless it is a hole; `reason` says why it is one.

    same_program: the twin re-exports another technique's program, which was measured once for both. Where the tile is
    the change, the same program at the tile of this rung is a measurement of this rung. `program` is that technique.
    `unsettled`: TFLOPS of a hole whose samples did not converge, no number to rely on. `mean`: over all processes that
    timed the program, so that a kernel has one value on every page.
    """

    kind: Kind
    row: Row | None = None
    reason: str = ""
    program: str | None = None
    unsettled: float | None = None
    mean: float | None = None

    @property
    def tflops(self) -> float | None:
        return self.mean or (self.row.speed if self.row else None)

    @property
    def counts(self) -> bool:
        return self.kind in ("measured", "same_program")


@dataclass(frozen=True)
class Ratio:
    """Speed over speed, the mean over the processes that timed both in one group. `low` and `high` bound it where these
    are enough, else they are the value. `linked`: over the anchors of two groups, because no group has both."""

    value: float
    low: float
    high: float
    processes: int
    linked: bool


def why(row: Row) -> str:
    """Status and reason of a row that is not a pass, such as "not converged: 352 TFLOPS ± 2.34%"."""
    error = re.match(r"relative error of the median ([\d.]+%)", row.reason or "")
    if row.status == "not_converged" and error and row.get("samples_ms"):
        return f"not converged: {row.speed:.0f} {row.unit} ± {error[1]}"
    return f"{row.status}: {row.reason}"


def without_case(reason: str) -> str:
    """Why a kernel is declined, less the tile and the problem that it was asked for."""
    return reason.partition("; got tile ")[0]


def fastest(points: Iterable[Point]) -> Point:
    """Of the points that count the fastest, from a final group if one has a kernel that is among the best, as in the
    scorecard: its samples did not choose it. A hole says whether an earlier version was measured, or one that did not
    converge was faster."""
    points = list(points)
    counting = [point for point in points if point.counts and point.row]
    cases = grouped(counting, lambda point: (point.row.technique, point.row.backend, point.row.tile))
    speeds = {case: max(point.tflops or 0 for point in some) for case, some in cases.items()}
    least = scorecard.AMONG_THE_BEST * max(speeds.values(), default=0)
    best_cases = [some for case, some in cases.items() if speeds[case] >= least]
    finals = [point for some in best_cases for point in some if point.row.final]
    earlier = any(point.kind == "earlier" for point in points)
    hole = Point("hole", reason="measured in an earlier version only" if earlier else "not measured")
    best = max(finals or counting, key=lambda point: point.tflops or 0, default=hole)
    faster = max(points, key=lambda point: point.unsettled or 0, default=best)
    return faster if not finals and (faster.unsettled or 0) > (best.tflops or 0) else best


class Dataset:
    """All rows of one GPU and one origin: recorded in this repository, or computed here."""

    def __init__(
        self,
        gpu: str,
        recorded: bool,
        tables: Mapping[str, pandas.DataFrame] | Sequence[Mapping[str, Any]],
        hashes: reading.Hashes | None = None,
        chosen: Chosen | None = None,
        tried: Tried | None = None,
        operator: Operator | None = None,
    ) -> None:
        """`tables`: of each kind the frame, or rows that they are made from, of one operator. `hashes`: see about."""
        self.operator = operator or operators.get(operators.FIRST)
        self.gpu, self.recorded, self._hashes = gpu, recorded, hashes
        self.chosen, self.tried = chosen or {}, tried or {}
        self._means: dict[str | None, float | None] = {}
        if not isinstance(tables, Mapping):
            kinds = KINDS if any(row["kind"] == "environment" for row in tables) else KINDS[1:]
            tables = {kind: frame.table(kind, tables) for kind in kinds} if tables else {}
        self._tables = {kind: about(found, None if kind == "environment" else hashes) for kind, found in tables.items()}

    @cached_property
    def rows(self) -> list[Row]:
        """All rows about kernels, of every kind but proofs, with the machine code that they read."""

        def about(row: Row) -> tuple[Any, ...]:
            return row.environment, row.time, *_place(row), row.tile

        code = self._lines("code")
        read = {(row.of, *about(row)): {part: row.columns[part] for part in CODE} for row in code}
        found = [row for row in code if row.of == "code"]
        for kind in ("timing", "gate", "counters"):
            for row in self._lines(kind):
                row.columns.update(read.get((kind, *about(row)), {}))
                found.append(row)
        return found

    def table(self, kind: str) -> pandas.DataFrame:
        return self._tables[kind] if kind in self._tables else frame.table(kind, [])

    def _lines(self, kind: str) -> list[Row]:
        return lines(kind, self.table(kind))

    @property
    def origin(self) -> str:
        return "recorded" if self.recorded else "computed here"

    @cached_property
    def environments(self) -> dict[str, Row]:
        return {row.id: row for row in self._lines("environment")}

    @cached_property
    def hashes(self) -> reading.Hashes:
        """Of the kernels that rows must be about to count."""
        return reading.checkout_hashes() if self._hashes is None else self._hashes

    @cached_property
    def newest(self) -> list[Row]:
        """The newest row of each cell and version of a kernel. A peer is kept once a group that another row is in,
        because ratios between groups go over its rows in both; replicates are each kept."""
        latest: dict[tuple[Any, ...], Row] = {}
        for row in self.rows:
            name = _cell_of(row), None if row.technique else row.get("group"), row.get("replicate")
            if name not in latest or row.time >= latest[name].time:
                latest[name] = row
        groups = {row.get("group") for row in latest.values() if row.technique} - {None}
        freshest = {name[0]: row for name, row in sorted(latest.items(), key=lambda item: item[1].time)}
        return [row for name, row in latest.items() if freshest[name[0]] is row or row.get("group") in groups]

    @cached_property
    def programs(self) -> stats.Timings:
        """Estimates over every process that timed a program."""
        return stats.Timings(self.table("timing"))

    @cached_property
    def scores(self) -> list[dict[str, Any]]:
        tables = map(self.table, ("timing", "gate"))
        entries: list[dict[str, Any]] = scorecard.scorecard(*tables)["entries"] if self._tables else []
        return entries

    # Which rows

    @cached_property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(row.experiment for row in self.newest if row.experiment))

    @cached_property
    def _timings(self) -> dict[str | None, list[Row]]:
        timed = [row for row in self.newest if row.kind == "timing"]
        return {None: timed, **grouped(timed, lambda row: row.experiment)}

    def timings(self, experiment: str | None = None) -> list[Row]:
        """The newest timings, of one experiment or of all."""
        return self._timings.get(experiment, [])

    def problems(self, experiment: str) -> list[Problem]:
        """The problems that an experiment timed, the headline's kind first."""
        slugs = {row.problem: row for row in self.timings(experiment)}
        return sorted(map(reading.problem_of, slugs.values()), key=self.operator.problem_order)

    def peers(self, experiment: str) -> list[str]:
        return sorted({row.backend for row in self.timings(experiment) if not row.technique})

    def modes(self, experiment: str) -> list[str]:
        found = {row.mode for row in self.timings(experiment)}
        return [mode for mode in MODES if mode in found]

    def counting(self, experiment: str, rungs: Iterable[Technique] = techniques.TECHNIQUES) -> list[Row]:
        names = {rung.name for rung in rungs}
        return [row for row in self.timings(experiment) if row.technique in names and row.usable]

    @cached_property
    def _by_cell(self) -> dict[tuple[Any, ...], list[Row]]:
        return grouped(self.timings(), lambda row: (row.experiment, row.problem, row.backend))

    def at(self, experiment: str, problem: Problem, backend: str) -> list[Row]:
        return self._by_cell.get((experiment, problem.slug, backend), [])

    @cached_property
    def _by_twin(self) -> dict[tuple[Any, ...], list[Row]]:
        both = [*((row, row.backend) for row in self.newest), *((row, None) for row in self.newest)]
        found = grouped(both, lambda one: (one[0].kind, one[0].technique, one[1]))
        return {name: [row for row, _ in some] for name, some in found.items()}

    def of(self, kind: str, technique: str, backend: str | None = None) -> list[Row]:
        """Rows of one kind about one twin, or about all twins of a technique, of any version."""
        return self._by_twin.get((kind, technique, backend), [])

    def experiment_of(self, technique: Technique) -> str:
        """That of the technique's ladder; where it has no timing that counts here, the first one that has."""
        own, first = techniques.experiment_of(technique), self.operator.ladders[0].experiment
        places = (own, first, *self.experiments)
        return next((name for name in places if (technique.name, name) in self._timed), own)

    @cached_property
    def _timed(self) -> set[tuple[str, str]]:
        return {(row.technique, row.experiment) for row in self.timings() if row.usable}

    def gates(self, technique: str, backend: str) -> list[Row]:
        """Gate rows of this checkout's twin."""
        return [row for row in self.of("gate", technique, backend) if row.current]

    def wrong(self, point: Point) -> list[Row]:
        """Gate rows that found the version wrong that a point of an earlier one is of."""
        if point.kind != "earlier" or not point.row:
            return []
        gates = self.of("gate", point.row.technique, point.row.backend)
        return [row for row in gates if row.status == "wrong" and row.source_sha256 == point.row.source_sha256]

    @cached_property
    def _with_code(self) -> dict[tuple[Any, Any], list[Row]]:
        newest: dict[tuple[Any, ...], Row] = {}
        for row in self._lines("code"):
            name = (row.of, *_cell_of(row))
            if row.assembler == "own" and (name not in newest or row.time >= newest[name].time):
                newest[name] = row
        return grouped(newest.values(), lambda row: (row.technique, row.backend))

    def with_code(self, technique: str | None, backend: str) -> list[Row]:
        """Every row that read the machine code of a twin, of any version, problem and tile."""
        return self._with_code.get((technique, backend), [])

    def codes(self, technique: str, backend: str, arch: str | None = None, tile_key: int | None = None) -> list[Row]:
        """Machine code of this checkout's twin at the reference tile: inspected binaries first, then the ladder's."""
        found = [
            row
            for row in self.with_code(technique, backend)
            if row.census
            and row.arch  # none on a GPU for which the project compiles nothing
            and arch in (None, row.arch)
            and tile_key in (None, reading.problem_of(row).tile_key)
            and row.reference_tile
            and row.current
        ]
        ladders = {ladder.experiment for ladder in self.operator.ladders}

        def place(row: Row) -> tuple[Any, ...]:
            order = self.operator.problem_order(reading.problem_of(row))
            return row.of != "code", row.experiment not in ladders, order

        return sorted(found, key=place)

    @cached_property
    def holes(self) -> list[Row]:
        """Rows of this checkout that are not a pass, but for those of a library that was timed again since."""
        latest = {cell: max(row.time for row in rows) for cell, rows in grouped(self.newest, _cell_of).items()}
        return [
            row for row in self.newest if row.status != "passed" and row.current and row.time == latest[_cell_of(row)]
        ]

    # The number of a cell

    @cached_property
    def _by_rung(self) -> dict[tuple[Any, ...], list[Row]]:
        return grouped(self.timings(), lambda row: (*_place(row), row.mode))

    @cached_property
    def _refused(self) -> dict[tuple[Any, ...], list[Row]]:
        """Gate rows that are not a pass: what they are about was not timed."""
        return grouped((row for row in self.newest if row.kind == "gate" and row.status != "passed"), _place)

    @cached_property
    def of_any_version(self) -> Dataset:
        """The same rows, of which all count, whatever version of a kernel they are of."""
        every = {
            kind: with_current(found, True) if "current" in found else found for kind, found in self._tables.items()
        }
        return Dataset(self.gpu, self.recorded, every, None, self.chosen, self.tried, self.operator)

    def point(
        self,
        experiment: str,
        problem: Problem,
        technique: str | None,
        backend: str,
        mode: str = "burst",
        best: bool = False,
        tile: Tile | None = None,
    ) -> Point:
        """One rung (or peer, technique None) in one cell: at `tile`, or else at the registry's tile or at the
        committed best one, which may be the registry's. A hole where none is committed."""
        if best and not tile:
            tile = tiles.pick(self.chosen, technique or "", backend, problem)
            if tile is None:
                return Point("hole", reason="not measured")

        def asked(row: Row) -> bool:
            return bool(row.tile == tile.slug if tile else row.reference_tile)

        name = (experiment, problem.slug, technique, backend)
        wanted = list(filter(asked, self._by_rung.get((*name, mode), [])))
        refused = sorted(filter(asked, self._refused.get(name, [])), key=lambda row: row.time)
        passed = [row for row in wanted if row.status == "passed" and row.samples_ms]
        current = [row for row in passed if row.current]
        if current:
            row = max(current, key=lambda row: row.time)
            program = row.same_program
            its = techniques.find(f"{problem.operator}/{program}") if program and not tile else None
            if its and row.tile != techniques.reference_tile(its, problem.tile_key).slug:
                program = None  # its other tile is what this rung is about; the rung that it was timed for has another
            return Point("same_program" if program else "measured", row, program=program, mean=self.mean(row))
        failed = [row for row in wanted if row not in passed and row.current]
        failed = failed or [row for row in refused if row.current]
        if failed:
            newest = max(failed, key=lambda row: row.time)
            is_unsettled = newest.status == "not_converged" and newest.get("samples_ms")
            return Point("hole", reason=why(newest), unsettled=newest.speed if is_unsettled else None)
        if passed:
            newest = max(passed, key=lambda row: row.time)
            return Point("earlier", newest, "measured with an earlier version of the kernel")
        if refused:
            return Point("hole", reason=f"earlier version {why(refused[-1])}")
        return Point("hole", reason="not measured")

    def mean(self, row: Row) -> float | None:
        """TFLOPS over all processes that timed a row's program; None where no group is known."""
        if row.program not in self._means:
            found = self.programs.estimate({row.program: 1.0}) if row.program else None
            self._means[row.program] = math.exp(found.value) if found else None
        return self._means[row.program]

    def beside(self, point: Point, other: Point | None) -> Point:
        """With its speed in the processes that timed the other one too, if any did."""
        both = [one.row.program for one in (point, other) if one and one.counts and one.row]
        found = self.programs.estimate({both[0]: 1.0}, beside=both[1:]) if len(both) == 2 and all(both) else None
        return replace(point, mean=math.exp(found.value)) if found else point

    # Two cells

    @cached_property
    def _replicas(self) -> dict[tuple[Any, ...], list[Row]]:
        timed = (row for row in self.rows if row.kind == "timing")
        return grouped(timed, lambda row: (*_place(row)[1:], row.mode, row.tile))

    @cached_property
    def _anchors(self) -> dict[tuple[Any, Any], Row]:
        return {
            (row.environment, row.group): row
            for row in self.rows
            if row.kind == "timing" and row.backend == self.operator.anchor and row.status == "passed"
        }

    def over_anchor(self, row: Row) -> float | None:
        """Speed over that of the anchor of the row's own group, None where the group has no anchor."""
        anchor = self._anchors.get((row.environment, row.group))
        return row.speed / anchor.speed if anchor else None

    def over_anchors(self, row: Row) -> float | None:
        """The mean over all groups that timed the row's program beside the anchor, else its kernel at its tile."""
        timed = self._replicas.get((*_place(row)[1:], row.mode, row.tile), [])
        for alike in ([one for one in timed if one.program == row.program], [one for one in timed if one.usable]):
            if over := [value for one in alike if (value := self.over_anchor(one))]:
                return statistics.geometric_mean(over)
        return None

    def ratio(self, ours: Point, theirs: Point) -> Ratio | None:
        """Over the processes that timed both programs in one group; else each over the anchors of its groups."""
        if not (ours.counts and theirs.counts and ours.row and theirs.row):
            return None
        if found := self.programs.ratio(ours.row.program, theirs.row.program):
            mean, between = math.exp(found.value), found.interval
            low, high = (mean if bound is None else bound for bound in (between.low, between.high))
            return Ratio(mean, low, high, found.processes, linked=False)
        over = [self.over_anchors(row) for row in (ours.row, theirs.row)]
        value = over[0] / over[1] if over[0] and over[1] else None
        return None if value is None else Ratio(value, value, value, 0, linked=True)

    def gain(
        self, experiment: str, problem: Problem, technique: Technique, backend: str, best: bool = False
    ) -> Ratio | None:
        """What the rung buys over its parent in the same language; `best`: each at its committed best tile."""
        parent = techniques.parent(technique, backend)
        if parent is None:
            return None
        points = [self.point(experiment, problem, name, backend, best=best) for name in (technique.name, parent.name)]
        return self.ratio(points[0], points[1])

    def versus(
        self, experiment: str, problem: Problem, technique: Technique, ours: str, theirs: str, best: bool = False
    ) -> Ratio | None:
        """The same rung in two languages; None across instruction classes. `best`: each at its committed best tile."""
        points = [self.point(experiment, problem, technique.name, backend, best=best) for backend in (ours, theirs)]
        if len({point.row.mma for point in points if point.row}) == 2:
            return None
        return self.ratio(points[0], points[1])

    # Machines

    def provenance(self, rows: Iterable[Mapping[str, Any]] = ()) -> str:
        """recorded on NVIDIA H200, 2030-01-02, commit 0123456: of the runs of `rows`, or of the newest run."""
        if not self.environments:
            return "nothing recorded yet"
        used = self.environments_of(rows) or sorted(self.environments.values(), key=lambda run: run.time)[-1:]
        days = [run.time[:10] for run in used]
        commits = list(dict.fromkeys(filter(None, map(_commit, used))))
        parts = [f"{self.origin} on {self.gpu}", days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"]
        if commits:
            several = f"{len(commits)} commits from {commits[0]} to {commits[-1]}"
            parts.append(several if len(commits) > 2 else f"commit{'s' * (len(commits) - 1)} {' and '.join(commits)}")
        return ", ".join(parts)

    def environments_of(self, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
        """The runs that `rows` are from, the oldest first."""
        used = {row.get("environment") for row in rows}
        return sorted((run for name, run in self.environments.items() if name in used), key=lambda run: run.time)

    def speed_of_light(self, kernel: Row | None = None) -> float | None:
        """Dense 16-bit tensor-core peak in TFLOPS, at the SM clock of this kernel's timing or else at the highest."""
        run = next((run for run in self.environments.values() if run.tensor_tflops), None)
        ghz = kernel and kernel.clock_ghz
        scale = ghz * 1e3 / run.max_sm_mhz if run and ghz and run.max_sm_mhz else 1
        return run.tensor_tflops * scale if run else None


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Key -> its rows, in the order in which they come."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _place(row: Row) -> tuple[Any, ...]:
    return row.experiment, row.problem, row.technique, row.backend


CELL = (
    *("kind", "experiment", "problem", "technique", "backend", "source_sha256"),
    *("mode", "tool", "roof", "kernel", "tile", "on", "arch"),
)
"""Columns that make two rows the same measurement."""


def _cell_of(row: Row) -> tuple[Any, ...]:
    return tuple(map(row.columns.get, CELL))


def _commit(run: Row) -> str:
    return (run.commit or "")[:7] + (" with changes" if run.dirty else "")
