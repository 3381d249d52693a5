"""One run's rows and its worker processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from harness import environment, results, techniques
from harness.progress import Interrupts, Progress
from harness.variants import Case
from harness.worker import Deadlines, Worker


class Session:
    """Opens a run with its environment row. `earlier` are rows that `--resume` found in the same file, `standing` those
    of other files that this run builds on, with their environments; `loader` is harness.variants or a module with the
    same functions."""

    def __init__(
        self,
        experiment: str,
        on: str,
        writer: results.Writer,
        earlier: Iterable[Mapping[str, Any]],
        loader: Any,
        deadlines: Deadlines,
        progress: Progress,
        interrupts: Interrupts,
        standing: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self.experiment, self.on, self.loader, self.deadlines = experiment, on, loader, deadlines
        self.progress, self.interrupts = progress, interrupts
        self.rows: list[dict[str, Any]] = []
        self._writer = writer
        self._log = writer.path.with_suffix(".log")
        self._workers: dict[tuple[tuple[str, str], ...], Worker] = {}
        self._earlier = {results.key(row): dict(row) for row in earlier if row.get("status") != "interrupted"}
        elsewhere = sorted(standing, key=lambda row: row["time"])
        self._standing = {results.key(row): dict(row) for row in elsewhere if row["kind"] != "environment"}
        self._environments = {row["id"]: row for row in elsewhere if row["kind"] == "environment"}
        self._groups = len({row["group"] for row in self._earlier.values() if "group" in row})
        self.source_sha256 = cache(self._source_sha256)

        description = environment.describe()
        self.gpu, self.peaks = description["gpu"], description["peaks"]
        self.arch = None
        if self.gpu and on == "gpu":
            major = self.gpu["capability"][0]
            self.arch = next((arch for arch, known in techniques.CAPABILITY.items() if known[0] == major), None)
        self._environment = results.environment_id(description)
        self._environments.pop(self._environment, None)
        row = {"kind": "environment", "id": self._environment, "on": on, "details": description}
        self.rows.append(writer.write(row))
        for warning in description["warnings"]:
            progress.say(f"warning: {warning}")

    # Workers

    def worker(self, variables: Mapping[str, str]) -> Worker:
        """The live process with these environment variables, started when there is none."""
        name = tuple(sorted(variables.items()))
        if name not in self._workers or not self._workers[name].alive:
            self._workers[name] = Worker(variables, self.loader.__name__, self.on, self._log, self.deadlines)
        return self._workers[name]

    def release(self) -> None:
        """Ends all workers: their memory on the GPU is free again."""
        for worker in self._workers.values():
            if worker.alive:
                worker.kill()
        self._workers.clear()

    # Rows

    def new_group(self) -> str:
        """A name for an interleaved group, unique among all runs."""
        self._groups += 1
        return f"{self._writer.path.stem}-{self._groups:02d}"

    def earlier(self, case: Case, kind: str, mode: str | None = None) -> dict[str, Any] | None:
        """The final row that an earlier run of this file has for the case, or a row that stands."""
        key = results.key({**self.identity(case), "kind": kind, "mode": mode})
        return self._earlier.get(key) or self._standing.get(key)

    def stands(self, case: Case, kind: str) -> bool:
        """Whether a row of another file, which this run builds on, is about the case."""
        return results.key({**self.identity(case), "kind": kind, "mode": None}) in self._standing

    def identity(self, case: Case) -> dict[str, Any]:
        return {
            "on": self.on,
            "experiment": self.experiment,
            "technique": case.technique,
            "backend": case.backend,
            "problem": case.problem.to_dict(),
            "tile": case.tile and case.tile.to_dict(),
            "arch": self.arch,
            "source_sha256": self.source_sha256(case),
            "environment": self._environment,
        }

    def write(self, case: Case, fields: Mapping[str, Any]) -> dict[str, Any]:
        """One row about `case`, on disk and on the terminal."""
        row = {name: value for name, value in {**self.identity(case), **fields}.items() if value is not None}
        if origin := self._environments.pop(row["environment"], None):  # of a row that was repeated from elsewhere
            self.rows.append(self._writer.write(origin))
        row = self._writer.write(_finite(row))
        self.rows.append(row)
        outcome = row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
        if row.get("samples_ms"):
            outcome = f"{statistics.median(row['samples_ms']):.4f} ms  {outcome}"
        self.progress.say(f"{row['kind']:6}  {case}  {outcome}")
        return row

    def _source_sha256(self, case: Case) -> str | None:
        try:
            return self.loader.source_sha256(case)
        except FileNotFoundError:
            return None


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null instead."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
