"""Rows as a report needs them: what was measured on one GPU, which row stands for a rung, and how two rungs compare.

Nothing here draws or writes; statistics are computed from samples at this point and nowhere earlier.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Literal

from harness.catalog import techniques
from harness.catalog.entries import Technique, Tile
from harness.operators.attention import tiles
from harness.operators.attention.problem import ANCHOR, Problem
from harness.rows import frame, reading, results, scorecard
from harness.rows.intervals import Interval, Intervals
from harness.rows.noise import Timings
from harness.rows.reading import Hashes, tile_slug

Row = Mapping[str, Any]
Kind = Literal["measured", "same_program", "earlier", "hole"]
Chosen = Mapping[tuple[str, str, str], Tile]
"""(technique, backend, cell of the tile table) -> the committed best tile."""
Tried = Mapping[tuple[str, str, str], int]
"""The same -> of how many tiles it is the best."""


@dataclass(frozen=True)
class Point:
    """What is known of one rung in one cell. `row` is there unless it is a hole; `reason` says why it is one.

    same_program: the twin re-exports another technique's program, which was measured once for both. Where the tile is
    the change, the same program at the tile of this rung is a measurement of this rung.
    """

    kind: Kind
    row: Row | None = None
    reason: str = ""
    program: str | None = None
    """That other technique."""
    unsettled: float | None = None
    """TFLOPS of a hole whose samples did not converge: no number to rely on."""

    @property
    def tflops(self) -> float | None:
        return reading.tflops(self.row) if self.row else None

    @property
    def counts(self) -> bool:
        return self.kind in ("measured", "same_program")


@dataclass(frozen=True)
class Ratio:
    """TFLOPS over TFLOPS. `linked`: over the anchor of two groups, because the two were not in one group. `pair`: the
    two rows."""

    value: float
    linked: bool
    pair: tuple[Row, Row] | None = None


def quartiles(row: Row) -> tuple[float, float, float]:
    """First quartile, median and third quartile of TFLOPS."""
    problem = Problem.from_dict(row["problem"])
    values = [problem.tflops(ms) for ms in row["samples_ms"]]
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def why(row: Row) -> str:
    """Status and reason of a row that is not a pass, such as "not converged: 352 TFLOPS ± 2.34%"."""
    error = re.match(r"relative error of the median ([\d.]+%)", row.get("reason") or "")
    if row["status"] == "not_converged" and error and row.get("samples_ms"):
        return f"not converged: {reading.tflops(row):.0f} TFLOPS ± {error[1]}"
    return f"{row['status']}: {row.get('reason')}"


def fastest(points: Iterable[Point]) -> Point:
    """Of the points that count the fastest, from a final group where there is one: its samples did not choose it.
    A hole where there is none, which says whether an earlier version was measured, or where one that did not converge
    was faster."""
    points = list(points)
    counting = [point for point in points if point.counts and point.row]
    finals = [point for point in counting if point.row and reading.is_final(point.row)]
    earlier = any(point.kind == "earlier" for point in points)
    hole = Point("hole", reason="measured in an earlier version only" if earlier else "not measured")
    best = max(finals or counting, key=lambda point: point.tflops or 0, default=hole)
    faster = max(points, key=lambda point: point.unsettled or 0, default=best)
    return faster if not finals and (faster.unsettled or 0) > (best.tflops or 0) else best


@dataclass(eq=False)
class Dataset:
    """All rows of one GPU and one origin: recorded in this repository, or computed here."""

    gpu: str
    recorded: bool
    rows: Sequence[Row]
    hashes: Hashes
    chosen: Chosen = field(default_factory=dict)
    tried: Tried = field(default_factory=dict)
    environments: dict[str, Row] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [{**row, "experiment": reading.page(row)} if row.get("assembler") else row for row in self.rows]
        self.environments = {row["id"]: row for row in self.rows if row["kind"] == "environment"}

    @property
    def origin(self) -> str:
        return "recorded" if self.recorded else "computed here"

    def multiprocessors(self, row: Row) -> int:
        """Of the GPU that timed the row."""
        count: int = self.environments[row["environment"]]["details"]["gpu"]["sm_count"]
        return count

    @cached_property
    def newest(self) -> list[dict[str, Any]]:
        """The newest row per key of those about a kernel."""
        return [row for row in results.newest(self.rows) if row["kind"] not in ("environment", "fleet")]

    @cached_property
    def _by_rung(self) -> dict[tuple[Any, ...], list[Row]]:
        return grouped(self.timings(), _series)

    @cached_property
    def _refused(self) -> dict[tuple[Any, ...], list[Row]]:
        """Gate rows that are not a pass: what they are about was not timed."""
        refused = (row for row in self.newest if row["kind"] == "gate" and row["status"] != "passed")
        return grouped(refused, _cell)

    @cached_property
    def _anchors(self) -> dict[tuple[Any, Any], Row]:
        """The anchor of each interleaved group: from all rows, because one key may be in many groups."""
        return {
            (row.get("environment"), row.get("group")): row
            for row in self.rows
            if row["kind"] == "timing" and row["backend"] == ANCHOR and row["status"] == "passed"
        }

    @cached_property
    def scores(self) -> list[dict[str, Any]]:
        """The scorecard's entries."""
        entries: list[dict[str, Any]] = scorecard.scorecard(*map(self.table, ("timing", "gate", "code")))["entries"]
        return entries

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return {}

    def table(self, kind: str) -> Any:
        """The rows of a kind as rows.frame has them."""
        if kind not in self._tables:
            self._tables[kind] = self._table(kind)
        return self._tables[kind]

    def _table(self, kind: str) -> Any:
        shared = reading.SHARED_PTXAS
        rows = [
            {**row, "experiment": row["experiment"].removesuffix(shared)} if row.get("assembler") else row
            for row in self.rows
        ]
        table = frame.table(kind, rows)
        programs = zip(table.technique, table.backend, table.source_sha256, strict=True)
        current = [not isinstance(name, str) or self.hashes.get((name, by)) == source for name, by, source in programs]
        found = table.assign(current=current)
        return (
            found.assign(usable=found.current & (found.status == "passed") & found.ms.notna())
            if kind == "timing"
            else found
        )

    @cached_property
    def intervals(self) -> Intervals:
        """Of ratios between rows, over the processes and boards that timed both."""
        return Intervals(Timings(self.rows))

    @cached_property
    def _replicas(self) -> dict[tuple[Any, ...], list[Row]]:
        return grouped((row for row in self.rows if row["kind"] == "timing"), _kernel)

    def replicas(self, row: Row) -> list[Row]:
        """All timings of the row's kernel on its problem at its tile, of any process and any version."""
        return self._replicas.get(_kernel(row), [])

    def linked(self, ours: Row, theirs: Row) -> float | None:
        """TFLOPS over TFLOPS, each over the anchor of its own group; None where a group has no anchor."""
        over = [self.over_anchor(row) for row in (ours, theirs)]
        return over[0] / over[1] if over[0] and over[1] else None

    def provenance(self, rows: Iterable[Row] = ()) -> str:
        """recorded on NVIDIA H200, 2030-01-02, commit 0123456: of the runs of `rows`, or of the newest run."""
        if not self.environments:
            return "nothing recorded yet"
        used = self.environments_of(rows) or sorted(self.environments.values(), key=lambda env: env["time"])[-1:]
        days = [environment["time"][:10] for environment in used]
        commits = list(dict.fromkeys(filter(None, map(_commit, used))))
        parts = [f"{self.origin} on {self.gpu}"]
        if days:
            parts.append(days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}")
        if commits:
            several = f"{len(commits)} commits from {commits[0]} to {commits[-1]}"
            parts.append(several if len(commits) > 2 else f"commit{'s' * (len(commits) - 1)} {' and '.join(commits)}")
        return ", ".join(parts)

    def environments_of(self, rows: Iterable[Row]) -> list[Row]:
        """The environment rows of the runs that `rows` are from, the oldest first."""
        used = {row.get("environment") for row in rows}
        return sorted((env for name, env in self.environments.items() if name in used), key=lambda env: env["time"])

    def counting(self, experiment: str, rungs: Iterable[Technique] = techniques.TECHNIQUES) -> list[Row]:
        """The timings of these rungs that count."""
        names = {rung.name for rung in rungs}
        timed = (row for row in self.timings(experiment) if row.get("technique") in names)
        return [row for row in timed if reading.counts(row, self.hashes)]

    @cached_property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(row["experiment"] for row in self.newest if row.get("experiment")))

    def problems(self, experiment: str) -> list[Problem]:
        """The problems that an experiment timed: full before causal, longest head first."""
        return self._problems.get(experiment, [])

    @cached_property
    def _problems(self) -> dict[str | None, list[Problem]]:
        """Those of head_dim 128 first: pages tell most about them."""
        return {
            experiment: sorted(
                dict.fromkeys(Problem.from_dict(row["problem"]) for row in rows),
                key=lambda p: (p.head_dim != 128, p.head_dim, p.causal, p.dtype, p.seq_q, p.seq_kv, p.batch),
            )
            for experiment, rows in self._timings.items()
        }

    @cached_property
    def _timings(self) -> dict[str | None, list[Row]]:
        found: dict[str | None, list[Row]] = {None: [row for row in self.newest if row["kind"] == "timing"]}
        for row in found[None]:
            found.setdefault(row["experiment"], []).append(row)
        return found

    def timings(self, experiment: str | None = None) -> list[Row]:
        """The newest timings, of one experiment or of all."""
        return self._timings.get(experiment, [])

    @cached_property
    def _by_cell(self) -> dict[tuple[Any, ...], list[Row]]:
        return grouped(self.timings(), lambda row: (row["experiment"], reading.slug(row), row["backend"]))

    def at(self, experiment: str, problem: Problem, backend: str) -> list[Row]:
        """All timings of a backend on one problem, whatever technique and tile."""
        return self._by_cell.get((experiment, problem.slug, backend), [])

    def peers(self, experiment: str) -> list[str]:
        """The libraries that an experiment timed."""
        return sorted({row["backend"] for row in self.timings(experiment) if not row.get("technique")})

    def modes(self, experiment: str) -> list[str]:
        """Those of timing that an experiment has rows of."""
        found = {row.get("mode") for row in self.timings(experiment)}
        return [mode for mode in ("burst", "sustained") if mode in found]

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
            return tile_slug(row) == tile.slug if tile else reading.is_reference_tile(row)

        name = (experiment, problem.slug, technique, backend)
        wanted = list(filter(asked, self._by_rung.get((*name, mode), [])))
        refused = sorted(filter(asked, self._refused.get(name, [])), key=lambda row: row["time"])
        passed = [row for row in wanted if row["status"] == "passed" and row.get("samples_ms")]
        current = [row for row in passed if reading.is_current(row, self.hashes)]
        if current:
            row = max(current, key=lambda row: row["time"])
            program = (row.get("details") or {}).get("same_program")
            if program and not tile and not reading.is_reference_tile({**row, "technique": program}):
                program = None  # its other tile is what this rung is about; the rung that it was timed for has another
            return Point("same_program" if program else "measured", row, program=program)
        failed = [row for row in wanted if row not in passed and reading.is_current(row, self.hashes)]
        failed = failed or [row for row in refused if reading.is_current(row, self.hashes)]
        if failed:
            newest = max(failed, key=lambda row: row["time"])
            unsettled = reading.is_unsettled(newest, self.hashes)
            return Point("hole", reason=why(newest), unsettled=reading.tflops(newest) if unsettled else None)
        if passed:
            newest = max(passed, key=lambda row: row["time"])
            return Point("earlier", newest, "measured with an earlier version of the kernel")
        if refused:
            return Point("hole", reason=f"earlier version {why(refused[-1])}")
        return Point("hole", reason="not measured")

    def ratio(self, ours: Point, theirs: Point) -> Ratio | None:
        """The mean over the processes that timed both programs in one group; else over the anchors of their groups.
        None where that fails too, or one of them does not count."""
        if not (ours.counts and theirs.counts and ours.row and theirs.row):
            return None
        pair = self.met(ours.row, theirs.row)
        if pair and (found := self.intervals.ratio(*pair)).processes:
            return Ratio(math.exp(found.value), linked=False, pair=pair)
        linked = self.linked(ours.row, theirs.row)
        return None if linked is None else Ratio(linked, linked=True)

    def met(self, ours: Row, theirs: Row) -> tuple[Row, Row] | None:
        """Two rows of one group: these, or else the newest of the same two programs."""
        if reading.same_group(ours, theirs):
            return ours, theirs
        pairs = product(self.intervals.timings(ours), self.intervals.timings(theirs))
        return max(
            filter(lambda pair: reading.same_group(*pair), pairs), key=lambda pair: pair[0]["time"], default=None
        )

    def mean_interval(self, ratios: Iterable[Ratio]) -> Interval | None:
        """The interval of the geometric mean of ratios; None where one of them went over anchors."""
        pairs = [ratio.pair for ratio in ratios]
        met = [pair for pair in pairs if pair]
        return self.intervals.mean(met) if met and len(met) == len(pairs) else None

    def over_anchor(self, row: Row) -> float | None:
        """TFLOPS over the TFLOPS of the anchor of the row's own group, None where the group has no anchor."""
        anchor = self._anchors.get((row.get("environment"), row.get("group")))
        return reading.ratio(row, anchor) if anchor else None

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
        if all(point.row for point in points) and len({point.row.get("mma") for point in points if point.row}) == 2:
            return None
        return self.ratio(points[0], points[1])

    def codes(self, technique: str, backend: str, arch: str | None = None, head_dim: int | None = None) -> list[Row]:
        """Rows that counted the instructions of this checkout's twin at the reference tile: inspected binaries, then
        those that the gate of the ladder read, then others; of each bf16 first and full before causal."""
        found = [
            row
            for row in self.with_code(technique, backend)
            if row["code"].get("census")
            and row.get("arch")  # none on a GPU for which the project compiles nothing
            and arch in (None, row["arch"])
            and head_dim in (None, row["problem"]["head_dim"])
            and reading.is_reference_tile(row)
            and reading.is_current(row, self.hashes)
        ]
        order = ("dtype", "causal", "head_dim")

        def place(row: Row) -> tuple[Any, ...]:
            return row["kind"] != "code", row.get("experiment") != "ladder", *(row["problem"][name] for name in order)

        return sorted(found, key=place)

    @cached_property
    def _with_code(self) -> dict[tuple[Any, Any], list[Row]]:
        read = (row for row in self.newest if (row.get("code") or {}).get("registers") is not None)
        return grouped(filter(reading.is_as_shipped, read), lambda row: (row.get("technique"), row["backend"]))

    def with_code(self, technique: str | None, backend: str) -> list[Row]:
        """Every row that read the machine code of a twin, of any version, problem and tile."""
        return self._with_code.get((technique, backend), [])

    def gates(self, technique: str, backend: str) -> list[Row]:
        """Gate rows of this checkout's twin."""
        return [row for row in self.of("gate", technique, backend) if reading.is_current(row, self.hashes)]

    def wrong(self, point: Point) -> list[Row]:
        """Gate rows that found the version wrong that a point of an earlier one is of."""
        if point.kind != "earlier" or not point.row:
            return []
        gates = self.of("gate", point.row["technique"], point.row["backend"])
        sha256 = point.row.get("source_sha256")
        return [row for row in gates if row["status"] == "wrong" and row.get("source_sha256") == sha256]

    @cached_property
    def _by_twin(self) -> dict[tuple[Any, ...], list[Row]]:
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.newest:
            for backend in (row["backend"], None):
                found.setdefault((row["kind"], row.get("technique"), backend), []).append(row)
        return found

    def of(self, kind: str, technique: str, backend: str | None = None) -> list[Row]:
        """Rows of one kind about one twin, or about all twins of a technique, of any version."""
        return self._by_twin.get((kind, technique, backend), [])

    def holes(self, experiment: str | None = None) -> list[Row]:
        """Rows of this checkout that are not a pass, but for those of a library that was timed again since."""
        return [row for row in self._holes if experiment in (None, row.get("experiment"))]

    @cached_property
    def _holes(self) -> list[Row]:
        latest: dict[str, str] = {}
        names = [(results.key(row), row) for row in self.newest]
        for name, row in names:
            latest[name] = max(row["time"], latest.get(name, ""))
        return [
            row
            for name, row in names
            if row["status"] != "passed" and row["time"] == latest[name] and reading.is_current(row, self.hashes)
        ]

    def speed_of_light(self, kernel: Row | None = None) -> float | None:
        """Dense 16-bit tensor-core peak in TFLOPS at the SM clock of this kernel's timing, at the card's highest where
        the row does not say it; None where that is not known."""
        for row in self.environments.values():
            details = row.get("details") or {}
            if peak := (details.get("peaks") or {}).get("tensor_tflops"):
                ghz, highest = reading.clock_ghz(kernel or {}), (details.get("gpu") or {}).get("max_sm_mhz")
                return peak * ghz * 1e3 / highest if ghz and highest else peak
        return None

    def bandwidth(self) -> float | None:
        """Bytes that DRAM moves in a second, None where it is not known."""
        peaks = [(row.get("details") or {}).get("peaks") or {} for row in self.environments.values()]
        return next((peak["bytes_per_s"] for peak in peaks if peak.get("bytes_per_s")), None)

    def pairs(self, experiment: str | None = None) -> list[tuple[Row, float]]:
        """The A/A pair of every group: one of its rows, and by how much two timings of one kernel differed."""
        found: dict[Any, tuple[Row, float]] = {}
        for row in self.rows:
            if row["kind"] == "timing" and experiment in (None, row["experiment"]):
                again = (row.get("details") or {}).get("again")
                if again:
                    found.setdefault((row.get("environment"), row["group"]), (row, again["difference"]))
        return list(found.values())


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Key -> its rows, in the order in which they come."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _cell(row: Row) -> tuple[Any, ...]:
    return row.get("experiment"), reading.slug(row), row.get("technique"), row["backend"]


def _series(row: Row) -> tuple[Any, ...]:
    return *_cell(row), row.get("mode")


def _kernel(row: Row) -> tuple[Any, ...]:
    return *_series(row), tile_slug(row)


def _commit(environment: Row) -> str:
    git = (environment.get("details") or {}).get("git") or {}
    return str(git.get("sha") or "")[:7] + (" with changes" if git.get("dirty") else "")
