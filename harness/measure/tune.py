"""Selects tiles, in two phases: gates every tile of every technique's grid, once, with a stopwatch around each launch;
then times the few fastest of each kernel properly, interleaved with each other, and keeps the fastest per cell.

This gate has one input distribution, the operator's first: no tile counts for what happened here. The experiments that
use the chosen ones gate these again, on all distributions, and time them anew.

Only distinct programs are tuned. A twin that is another's program inherits its tile.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources, techniques, tiles
from harness.catalog.cases import Case, SameProgram, of_grids, origin, same_program
from harness.catalog.entries import Experiment, Tile
from harness.measure import groups, runner
from harness.operators.protocol import Problem
from harness.rows import results

QUICK = {"min_samples": 10, "max_seconds": 3.0, "target": 0.005, "limit": 0.02}
"""Options of timing.time_group: enough to tell tiles apart that matter."""
FINALISTS = 3
"""Tiles of one kernel that are timed properly, at least."""
HOST_MS = 0.25
"""Milliseconds by which a launch between two waits may seem slower than another because of the host: a tile no further
behind than that is timed properly too. A short kernel takes less itself."""


def tune(
    names: Sequence[str],
    backends: Sequence[str],
    problems: Sequence[Problem],
    path: Path,
    *,
    on: str = "gpu",
    resume: bool = False,
    **options: Any,
) -> None:
    """Writes a row of kind tune per tile to `path`, of which `select` makes a table. `options` go to runner.run."""
    experiment = Experiment(
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
    runner.run(
        experiment,
        on=on,
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
        """Whether an earlier run has the cell's row."""
        return any(self.session.earlier(case, "tune", mode) for mode in (None, *self.modes))

    def decline(self, case: Case, reason: str) -> None:
        self.settle(case, {"status": "unsupported", "reason": reason})

    def settle(self, case: Case, fields: runner.Row) -> None:
        passed = fields["status"] == "passed"
        self.gated[case] = fields if passed else self.write_outcome(case, "tune", fields)

    def screen(self) -> None:
        """Leaves the fastest tiles of each kernel for the timing; a row says of each other one that it was slower.

        A launch at the gate, between two waits, is a rough measure, good enough to tell a tile that is far behind.
        """
        rivals: dict[object, list[Case]] = {}
        for case, row in self.gated.items():
            if row["status"] == "passed" and not self.session.interrupts.requested:
                rivals.setdefault((groups.rivals(case), case.problem), []).append(case)
        for cases in rivals.values():
            launch_ms = {case: self.gated[case]["details"]["launch_ms"] for case in cases}
            cases.sort(key=lambda case: launch_ms[case])
            for case in cases[FINALISTS:]:
                if launch_ms[case] <= launch_ms[cases[0]] + HOST_MS:
                    continue
                details = {**self.gated.pop(case)["details"], "screened": f"slower at the gate than {FINALISTS} others"}
                self.session.write(case, {"kind": "tune", "status": "passed", "details": details})

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
    """The tile with the lowest median of each technique, backend and cell; where several problems share a cell, the
    lowest sum of medians over the tiles that passed on all of them."""
    medians: dict[tuple[str, str, str], dict[Tile, dict[Problem, float]]] = {}
    tried: dict[tuple[str, str, str], set[Tile]] = {}
    for row in results.newest(rows):
        if results.what(row) != "tune":
            continue
        problem = operators.problem_of(row["problem"], row.get("operator"))
        tile = Tile.from_dict(row["tile"])
        for name in problem.cells:
            cell = (row["technique"], row["backend"], name)
            tried.setdefault(cell, set()).add(tile)
            if row["status"] == "passed" and row.get("samples_ms"):
                medians.setdefault(cell, {}).setdefault(tile, {})[problem] = statistics.median(row["samples_ms"])
    found = []
    for cell, by_tile in medians.items():
        problems = max(len(times) for times in by_tile.values())
        complete = {tile: sum(times.values()) for tile, times in by_tile.items() if len(times) == problems}
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
        if len(group) == 2:  # the entry for all lengths, and one class
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
