"""Selects tiles, problem by problem: samples every tile of every technique's grid in a few launches, gates the fastest
of each kernel, times these properly, interleaved with each other, and keeps the fastest per cell.

This gate has one input distribution, the operator's first: no tile counts for what happened here. The experiments that
use the chosen ones gate these again, on all distributions, and time them anew. A run that ends early has all rows of
the problems before.

Only distinct programs are tuned. A twin that is another's program inherits its tile.
"""

import importlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques, tiles
from harness.catalog.cases import Case, SameProgram, of_grids, origin, same_program
from harness.catalog.entries import NamedExperiment, Tile
from harness.measure import groups, runner
from harness.measure.worker import Deadlines, Failed
from harness.operators.protocol import Problem
from harness.rows import results

QUICK = {"min_samples": 10, "max_seconds": 1.5, "target": 0.005, "limit": 0.02}
"""Options of timing.time_group: enough to tell tiles apart that matter."""
SAMPLES = 4
"""Launches by which all tiles are compared before any is gated."""
FINALISTS = 3
"""Tiles of one kernel that are timed properly, at least."""
MOST_FINALISTS = groups.LARGEST - 2
"""The same, at most: all are timed in one group, beside a second series of the first."""
NEAR = 1.08
"""A tile whose fastest sample takes at most so many times the best tile's is timed properly."""
LAUNCH_SECONDS = 30.0
"""Deadline of a launch: a tile that hangs costs no more time."""


def tune(
    names: Sequence[str],
    backends: Sequence[str],
    problems: Sequence[Problem],
    path: Path,
    *,
    resume: bool = False,
    **options: Any,
) -> None:
    """Writes a row of kind tune per tile to `path`, of which `select` makes a table. `options` go to runner.run."""
    experiment = NamedExperiment(
        name="tune",
        problems=tuple(problems),
        techniques=tuple(names),
        backends=tuple(backends),
        peers=(),
        distributions=operators.of(problems[0]).distributions[:1],
    )
    loader = importlib.import_module(options.get("loader", "harness.build"))
    selected = of_grids(names, backends, problems, loader.same_program)
    timing = {**QUICK, **options.pop("timing", {})}
    options.setdefault("deadlines", Deadlines(launch=LAUNCH_SECONDS))
    runner.run(
        experiment,
        path=path,
        resume=resume,
        selected=selected,
        how=Tuning,
        gate={"repeats": 4},
        timing=timing,
        **options,
    )


class Tuning(runner.Run):
    """Times the tiles of each kernel against each other. A cell has one row, of kind tune: how the gate ended where it
    is not timed."""

    kind = "tune"
    together = staticmethod(groups.rivals)

    def skips(self, case: Case) -> bool:
        return any(self.session.earlier(case, "tune", mode) for mode in (None, *self.modes))

    def decline(self, case: Case, reason: str) -> None:
        self.settle(case, {"status": "unsupported", "reason": reason})

    def settle(self, case: Case, fields: runner.Row) -> None:
        passed = fields["status"] == "passed"
        self.gated[case] = fields if passed else self.write_outcome(case, "tune", fields)

    def gate_all(self) -> None:
        problems = runner.by_problem(self.fresh())
        for number, cases in enumerate(problems, 1):
            if self.session.interrupts.requested:
                return
            rivals: dict[object, list[Case]] = {}
            for case in cases:
                rivals.setdefault(groups.rivals(case), []).append(case)
            finalists = [case for series in rivals.values() for case in self.finalists(series)]
            for mode in self.modes if finalists else ():
                self.time_problem(finalists, mode)
            self.session.progress.step("tune", number, len(problems))

    def finalists(self, cases: Sequence[Case]) -> list[Case]:
        """The tiles of a kernel that pass the gate and are fast enough to be timed; writes the rows of the others."""
        samples: dict[Case, float] = {}
        for case in cases:
            if (ms := self.sample(case, min(samples.values(), default=math.inf))) is not None:
                samples[case] = ms
        found: list[Case] = []
        for case, ms in sorted(samples.items(), key=lambda one: one[1]):
            if self.session.interrupts.requested:
                return []
            if len(found) == MOST_FINALISTS or (len(found) >= FINALISTS and ms > NEAR * samples[found[0]]):
                screened = f"slower in {SAMPLES} launches than {len(found)} others"
                fields = {"status": "not_converged", "reason": f"{screened}: neither gated nor timed further"}
                self.session.write(case, {**fields, "kind": "tune", "details": {"launch_ms": ms, "screened": screened}})
                continue
            gated = self.gate(case)
            if gated["status"] == "passed":
                gated["details"]["launch_ms"] = ms
                found.append(case)
            self.settle(case, gated)
        return found

    def sample(self, case: Case, best_ms: float) -> float | None:
        """Milliseconds of the fastest of SAMPLES launches, fewer where it is far behind the best one's; None, and a
        row, where one fails."""
        if self.session.interrupts.requested:
            return None
        try:
            worker = self.session.worker(self.loader.environment_of(case, self.on) or {})
            return float(worker.call("sample", case, str(case), SAMPLES, best_ms))
        except KeyboardInterrupt:
            self.settle(case, {"status": "interrupted", "reason": "stopped while it was sampled"})
        except Failed as failure:
            self.settle(case, failure.fields)
        return None

    def time_all(self, mode: str) -> None:
        """Nothing is left to time: `gate_all` times each problem as soon as its finalists are known."""

    def time_finals(self, cases: list[Case], anchor: Case | None, mode: str) -> None:
        """There are none: a tile is chosen, not a kernel."""


def select(
    path: Path,
    problems: Sequence[Problem],
    *,
    folder: Path | None = None,
    same_program: SameProgram = same_program,
) -> Path | None:
    """Writes the fastest tiles of the rows in `path` to `folder`/<gpu>.toml (by default the operator's), which it
    returns; None where no row is of a GPU."""
    rows = results.read(path)
    gpu = next((gpu for row in rows if row["kind"] == "environment" and (gpu := row["details"]["gpu"])), None)
    if gpu is None:
        return None
    table = (folder or tiles.folder(problems[0].operator)) / f"{results.gpu_slug(gpu['name'])}.toml"
    selections = of_lengths(fastest(rows, path.stem), tiles.read(table) if table.exists() else [])
    tiles.update(table, [*selections, *inherited(selections, problems, same_program)])
    return table


def fastest(rows: Iterable[Mapping[str, Any]], run: str) -> list[tiles.Selection]:
    """The tile of each technique, backend and cell with the lowest median; where several problems share the cell, the
    lowest sum of medians among the tiles that were timed on all of them. If no tile was, the narrowest cell of a
    problem gets the fastest of the tiles that were timed on the most problems, and a wider cell gets none."""
    medians: dict[tuple[str, str, str], dict[Tile, dict[Problem, float]]] = {}
    tried: dict[tuple[str, str, str], set[Tile]] = {}
    problems: dict[tuple[str, str, str], set[Problem]] = {}
    for row in results.newest(rows):
        if results.what(row) != "tune":
            continue
        problem = operators.problem_of(row["problem"], row.get("operator"))
        tile = Tile.from_dict(row["tile"])
        for name in problem.cells:
            cell = (row["technique"], row["backend"], name)
            tried.setdefault(cell, set()).add(tile)
            problems.setdefault(cell, set()).add(problem)
            if row["status"] == "passed" and row.get("samples_ms"):
                medians.setdefault(cell, {}).setdefault(tile, {})[problem] = statistics.median(row["samples_ms"])
    found = []
    for cell, by_tile in medians.items():
        most = max(len(times) for times in by_tile.values())
        if most < len(problems[cell]) and cell[-1] not in {problem.cells[0] for problem in problems[cell]}:
            continue
        complete = {tile: sum(times.values()) for tile, times in by_tile.items() if len(times) == most}
        best = min(complete, key=lambda tile: (complete[tile], tile))
        found.append(tiles.Selection(*cell, best, len(tried[cell]), run))
    return sorted(found)


def of_lengths(selections: Sequence[tiles.Selection], table: Iterable[tiles.Selection]) -> list[tiles.Selection]:
    """The selections that a table gets. A run with problems of several classes of length gives all of them. A run with
    one class gives the entry for all lengths, or that class's alone where the table tells classes apart already."""
    told_apart = {(one.technique, one.backend, one.cell) for one in table}
    groups: dict[tuple[str, str, str], list[tiles.Selection]] = {}
    for one in selections:
        groups.setdefault((one.technique, one.backend, "-".join(one.cell.split("-")[:2])), []).append(one)
    found = []
    for (*_, plain), group in groups.items():
        if len(group) == 2 and any(one.cell == plain for one in group):  # the entry for all lengths, and one class
            known = [one for one in group if one.cell != plain and (one.technique, one.backend, one.cell) in told_apart]
            group = known or [one for one in group if one.cell == plain]
        found += group
    return sorted(found)


def inherited(
    selections: Iterable[tiles.Selection],
    problems: Iterable[Problem],
    same_program: SameProgram = same_program,
) -> list[tiles.Selection]:
    """The selections of programs for all twins that are the same program under another name, where these take the
    tile."""
    by_cell = {name: one for one in problems for name in one.cells}
    found = []
    for one in selections:
        if one.cell not in by_cell:  # of a run with more problems that was resumed
            continue
        case = Case("tune", one.technique, one.backend, by_cell[one.cell], one.tile)
        program = origin(case, same_program)
        for twin in (rung for rung in techniques.rungs() if rung.operator == case.problem.operator):
            if twin.name == one.technique or not sources.has_series(one.backend, twin.path):
                continue
            if techniques.unsupported(twin, one.backend, case.problem, one.tile):
                continue
            if origin(replace(case, technique=twin.name), same_program) == program:
                found.append(replace(one, technique=twin.name))
    return sorted(found)
