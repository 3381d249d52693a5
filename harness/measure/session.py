"""One run's rows and its worker processes."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, replace
from functools import cache
from typing import Any

from harness.catalog import architectures
from harness.catalog.cases import Case
from harness.machine import environment
from harness.machine.progress import Interrupts, Progress
from harness.measure.worker import Deadlines, Worker
from harness.rows import making, results
from harness.rows.reading import median_ms, status_word

NOT_TRIED = "not tried:"
"""Begins the reason of a row about a problem on which a user's kernel was not launched, because of others."""


@dataclass
class Session:
    """Opens a run with its environment row. `before` are rows that `--resume` found in the same file, `reusable` those
    of other files that this run builds on, with their environments; `loader` is harness.build or a module with the
    same functions."""

    experiment: str
    on: str
    writer: results.Writer
    before: InitVar[Iterable[Mapping[str, Any]]]
    loader: Any
    deadlines: Deadlines
    progress: Progress
    interrupts: Interrupts
    reusable: InitVar[Iterable[Mapping[str, Any]]] = ()
    assembler: str | None = None

    def __post_init__(self, before: Iterable[Mapping[str, Any]], reusable: Iterable[Mapping[str, Any]]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.count = ""  # 3 of 14, of the case at work
        self.own = False  # kernels of the user's are gated now
        self._said: set[str] = set()  # of kernels that fail before any problem is tried
        self._log = self.writer.path.with_suffix(".log")
        self._workers: dict[tuple[tuple[str, str], ...], Worker] = {}
        earlier = results.without_interrupted(before)
        self._earlier = {results.key(row): row for row in earlier if not _replicate(row)}
        self._replicates = {(_cell(row), _replicate(row)) for row in earlier if _replicate(row)}
        elsewhere = sorted(reusable, key=lambda row: row["time"])
        self._reusable = {results.key(row): dict(row) for row in elsewhere if row["kind"] != "environment"}
        self._environments = {row["id"]: row for row in elsewhere if row["kind"] == "environment"}
        self._groups = len({row["group"] for row in earlier if "group" in row})
        self.source_sha256 = cache(self.loader.source_sha256)

        description = environment.describe()
        self.gpu, self.peaks = description["gpu"], description["peaks"]
        self.arch = None
        if self.gpu and self.on == "gpu":
            self.arch = architectures.of_capability(self.gpu["capability"][0])
        row = making.environment(description, self.on)
        self._environment = row["id"]
        self._environments.pop(self._environment, None)
        self.rows.append(self.writer.write(row))
        for warning in description["warnings"]:
            self.progress.warn(warning)

    # Workers

    def worker(self, variables: Mapping[str, str]) -> Worker:
        """The live process with these environment variables, started when there is none."""
        name = tuple(sorted(variables.items()))
        if name not in self._workers or not self._workers[name].alive:
            common = self.loader.__name__, self.on, self._log, self.deadlines, self.progress.now
            self._workers[name] = Worker(variables, *common, extra=["own"] if self.own else ())
        return self._workers[name]

    def release(self) -> None:
        """Ends all workers: their memory on the GPU is free again."""
        for worker in self._workers.values():
            if worker.alive:
                worker.kill()
        self._workers.clear()

    @contextmanager
    def process(self, number: int, variables: Mapping[str, str]) -> Iterator[None]:
        """All workers end; rows written meanwhile are of the environment that a fresh process with these variables
        sees, its number among it: another board, perhaps, and another process in any case."""
        self.release()
        description = {**self.worker(variables).call("describe", list(sys.argv)), "process": number}
        row = making.environment(description, self.on)
        self.rows.append(self.writer.write(row))
        before, self._environment = self._environment, row["id"]
        try:
            yield
        finally:
            self._environment = before
            self.release()

    # Rows

    def has_replicate(self, case: Case, mode: str, number: int) -> bool:
        """Whether an earlier run of this file timed the case in its process of this number."""
        return (_cell({**self.identity(case), "mode": mode}), number) in self._replicates

    def new_group(self) -> str:
        """A name for an interleaved group, unique among all runs."""
        self._groups += 1
        return f"{self.writer.path.stem}-{self._groups:02d}"

    def earlier(self, case: Case, kind: str, mode: str | None = None) -> dict[str, Any] | None:
        """The final row that an earlier run of this file has for the case, or a reusable one."""
        key = results.key({**self.identity(case), "kind": kind, "mode": mode})
        return self._earlier.get(key) or self._reusable.get(key)

    def is_reusable(self, case: Case, kind: str, mode: str | None = None) -> bool:
        """Whether a row of another file, which this run builds on, is about the case."""
        return results.key({**self.identity(case), "kind": kind, "mode": mode}) in self._reusable

    def identity(self, case: Case) -> dict[str, Any]:
        """The fields by which rows of this run about the case are told from others."""
        return making.about(
            replace(case, experiment=self.experiment),
            on=self.on,
            source_sha256=self.source_sha256(case),
            arch=self.arch,
            assembler=self.assembler,
            environment=self._environment,
        )

    def write(self, case: Case, fields: Mapping[str, Any]) -> dict[str, Any]:
        """One row about `case`, on disk and on the terminal."""
        row = self._row(case, fields)
        if origin := self._environments.pop(row["environment"], None):  # of a row that was repeated from elsewhere
            self.rows.append(self.writer.write(origin))
        if case.kernel and row["kind"] == "gate" and (misfit := _misfit(row)):
            reason = f"its process said what no row can hold: {misfit}"
            forged = {"kind": "gate", "status": "implausible", "check": "forged_answer", "reason": reason}
            row = self._row(case, forged)
        row = self.writer.write(row)
        self.rows.append(row)
        outcome = "passed" if row["status"] == "passed" else f"{status_word(row)}: {row['reason']}"
        if row.get("samples_ms"):
            outcome = f"{median_ms(row):.4f} ms  {outcome}"
        said = f"{case.name}  {outcome}"
        alike = row["status"] == "import_error" or str(row.get("reason")).startswith(NOT_TRIED)
        if alike and case.kernel and said in self._said:
            return row  # it is the same for each problem
        self._said |= {said} if alike else set()
        self.progress.say("  ".join(filter(None, (f"{results.what(row):6}", self.count, str(case), outcome))))
        return row

    def _row(self, case: Case, fields: Mapping[str, Any]) -> dict[str, Any]:
        named = {**self.identity(case), **fields}
        return {name: _finite(value) for name, value in named.items() if value is not None}


def _misfit(row: Mapping[str, Any]) -> str | None:
    """Why no command would read the row, None if all would."""
    from harness.rows import schema

    try:
        schema.check(results.completed(row))
    except ValueError as error:
        return str(error)
    return None


def _replicate(row: Mapping[str, Any]) -> int:
    """Which process of a run timed the row: 0 for the first, and for times by CUPTI, which a case has once."""
    return int((row.get("details") or {}).get("replicate", 0)) if results.what(row) == "timing" else 0


def _cell(row: Mapping[str, Any]) -> str:
    return json.dumps([row.get(name) for name in results.KEY if name not in ("kind", "purpose")], sort_keys=True)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null instead."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
