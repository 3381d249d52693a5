"""One command over many GPUs: whole problems are dispatched, rows come back as they are made.

On each GPU the ordinary command runs with `--shard I/N`, which is one problem. Workers keep their deadlines and named
faults there; here it is only seen whether the command still runs. What was lost with a process or a node is placed once
more, then it is a row. A `RayWorker` starts the processes, on one GPU.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.catalog import architectures
from harness.catalog.cases import Case, source_sha256
from harness.machine import environment
from harness.machine.progress import Interrupts, Progress
from harness.operators.protocol import Problem
from harness.rows import making, results, schema

if TYPE_CHECKING:
    from harness.measure.ray_workers import RayWorker

PAUSE = 0.2
"""Seconds between two looks at every worker."""
PLACEMENTS = 2
"""How often a problem is begun."""
NO_GPU = 300.0
"""Seconds that the rest of the work waits for a GPU when all are lost."""
ENDS = (0, 1, 3)
"""Exit codes of a command that has written all its rows."""

Row = dict[str, Any]


class Lost(Exception):
    """The worker is gone; the message says how."""


@dataclass(frozen=True)
class Answer:
    """What a worker has since it was asked last: lines of rows; at the end of the command its exit code and the
    last that it printed."""

    lines: tuple[str, ...] = ()
    exit_code: int | None = None
    said: str = ""


@dataclass(frozen=True)
class Job:
    """Shard `number` of a command, which is `problem`; the `replicate`-th process that times it. `seen`: boards that
    had it in an earlier one. `placed`: how often it was begun; `failed`: boards on which its command ended badly."""

    number: int
    problem: Problem
    replicate: int = 1
    seen: frozenset[str] = frozenset()
    placed: int = 0
    failed: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        return self.problem.slug + (f", process {self.replicate}" if self.replicate > 1 else "")


@dataclass(frozen=True)
class Work:
    """`arguments`: of Python, such as -m harness run ladder. `problems` in the order in which the command counts its
    shards; `cases` are all that it measures, of rows of `kind`. `replicates`: processes that time each problem, on
    different boards where there are several."""

    arguments: tuple[str, ...]
    problems: tuple[Problem, ...]
    cases: tuple[Case, ...]
    kind: str = "gate"
    on: str = "gpu"
    replicates: int = 1
    fields: Mapping[str, Any] | None = None
    """What a row about a lost problem has beside its case, such as the assembler of a run."""


def run(
    work: Work,
    path: Path,
    workers: Sequence[RayWorker],
    *,
    new_worker: Callable[[], RayWorker],
    earlier: Iterable[Row] = (),
) -> list[Row]:
    """Dispatches the problems, the slowest first, and returns the rows, which are appended to `path` as they come.

    `new_worker` takes the place of one that was lost. `earlier` are rows of `path`: what they say is not done again.
    Raises SystemExit after Ctrl-C (130) or SIGTERM (143), when the cases in progress are finished; after a second one
    at once. Every row that a command wrote until then is in `path`.
    """
    with results.Writer(path) as writer, Interrupts() as interrupts, Progress() as progress:
        known = list(earlier)
        this = _Run(work, writer, list(workers), new_worker, known, progress, interrupts)
        try:
            this.loop()
        finally:
            this.end()
    interrupts.leave(path, "; with --rows the same command continues them")
    return this.rows


@dataclass
class _Run:
    work: Work
    writer: results.Writer
    workers: list[RayWorker]
    new_worker: Callable[[], RayWorker]
    rows: list[Row]
    progress: Progress
    interrupts: Interrupts
    environment: str | None = None
    arch: str | None = None

    def __post_init__(self) -> None:
        self.running: dict[int, tuple[RayWorker, Job, float]] = {}
        self.queue = [Job(number, problem) for number, problem in enumerate(self.work.problems, 1)]
        self.queue.sort(key=self._weight, reverse=True)
        self.total, self.done = len(self.queue) * self.work.replicates, 0

    def _weight(self, job: Job) -> int:
        return job.problem.flops * sum(case.problem == job.problem for case in self.work.cases)

    def loop(self) -> None:
        stopped, lonely_since = False, time.monotonic()
        while self.running or (self.queue and not self.interrupts.requested):
            if self.interrupts.requested and not stopped:
                stopped = True
                for worker, *_ in self.running.values():
                    worker.stop(at_once=False)
            for worker in [worker for worker in self.workers if worker.board and id(worker) not in self.running]:
                self.dispatch(worker)
            for worker, job, begin in list(self.running.values()):
                self.look_at(worker, job, begin)
            if any(worker.board for worker in self.workers):
                lonely_since = time.monotonic()
            elif not self.workers or time.monotonic() - lonely_since > NO_GPU:
                for job in self.queue:
                    self.give_up(job, "no GPU is left", "interrupted")
                return
            time.sleep(PAUSE)

    def dispatch(self, worker: RayWorker) -> None:
        """Gives the worker the first problem that it may have: a further process of a problem goes to a board that has
        not timed it, and one that ended badly to another board, while there is one."""
        boards = {other.board for other in self.workers if other.board}
        for job in self.queue:
            avoided = job.seen | job.failed
            if self.interrupts.requested or (worker.board in avoided and boards - avoided):
                continue
            self.queue.remove(job)
            job = replace(job, placed=job.placed + 1)
            shard = f"{job.number}/{len(self.work.problems)}"
            arguments = [*self.work.arguments, "--shard", shard]
            if self.work.replicates > 1:
                arguments += ["--replicates", str(job.replicate)]
            self.running[id(worker)] = worker, job, time.monotonic()
            try:
                worker.start(arguments, [json.dumps(row) for row in self._of(job.problem)])
            except Lost as lost:
                self.lose(worker, job, str(lost))
            return

    def look_at(self, worker: RayWorker, job: Job, begin: float) -> None:
        try:
            answer = worker.poll()
            for line in answer.lines:
                self.take(line)
        except (Lost, ValueError) as fault:
            self.lose(worker, job, str(fault))
            return
        if answer.exit_code is None:
            return
        del self.running[id(worker)]
        if answer.exit_code not in ENDS:
            failed = job.failed | {str(worker.board)}
            said = environment.scrub(answer.said.strip().rpartition("\n")[2])[:400] or "it said nothing"
            self.again(replace(job, failed=failed), f"exit code {answer.exit_code}: {said}")
            return
        self.done += 1
        seconds = time.monotonic() - begin
        self.progress.step("problems", self.done, self.total, f"{job.label}  {seconds:.0f} s on {worker.board}")
        if job.replicate < self.work.replicates:
            seen = job.seen | {str(worker.board)}
            self.queue.append(replace(job, replicate=job.replicate + 1, seen=seen, failed=frozenset(), placed=0))

    def take(self, line: str) -> None:
        """Writes a row that came back. Raises ValueError for what is none."""
        row = results.parse(line.encode())
        schema.check(row)
        self.rows.append(self.writer.write(row))

    def lose(self, worker: RayWorker, job: Job, how: str) -> None:
        del self.running[id(worker)]
        self.workers.remove(worker)
        worker.stop(at_once=True)
        self.progress.say(f"lost {worker.board}: {how}")
        if not self.interrupts.requested:
            self.workers.append(self.new_worker())
        self.again(job, how)

    def again(self, job: Job, how: str) -> None:
        if self.interrupts.requested:
            return
        if job.placed < PLACEMENTS:
            self.progress.say(f"{job.label} is begun once more: {how}")
            self.queue.insert(0, job)
        else:
            self.give_up(job, how)

    def give_up(self, job: Job, how: str, status: str = "crashed") -> None:
        """A row for each case of the problem that has none yet, so that every hole has its reason. What is interrupted
        is done by a command that continues this one."""
        self.done += 1 + self.work.replicates - job.replicate
        self.progress.step("problems", self.done, self.total, f"{job.label}  given up: {how}")
        here = self.here()
        known = {_cell(row) for row in self.rows if results.what(row) == self.work.kind}
        for case in self.work.cases:
            identity = {"source_sha256": source_sha256(case), "environment": here, "arch": self.arch}
            about = making.about(case, on=self.work.on, **identity)
            if case.problem == job.problem and _cell(about) not in known:
                begun = ("never begun", "begun once")[job.placed] if job.placed < 2 else f"begun {job.placed} times"
                reason = environment.scrub(f"{begun}: {how}")
                fields = {"kind": self.work.kind, "status": status, "reason": reason}
                self.rows.append(self.writer.write({**about, **(self.work.fields or {}), **fields}))

    def here(self) -> str:
        """Id of this process's environment row, which is written when it is first asked for."""
        if self.environment is None:
            description = environment.describe()
            row = self.writer.write(making.environment(description, self.work.on))
            self.rows.append(row)
            self.environment = row["id"]
            if self.work.on == "gpu" and description["gpu"]:
                self.arch = architectures.of_capability(description["gpu"]["capability"][0])
        return self.environment

    def end(self) -> None:
        for worker in self.workers:
            worker.stop(at_once=True)

    def _of(self, problem: Problem) -> list[Row]:
        """What is known of a problem, with the environments that its rows name."""
        rows = [row for row in self.rows if row.get("problem") == problem.to_dict()]
        named = {row["environment"] for row in rows}
        environments = {row["id"]: row for row in self.rows if row["kind"] == "environment" and row["id"] in named}
        return [*environments.values(), *rows]


def _cell(row: Mapping[str, Any]) -> str:
    names = ("technique", "backend", "problem", "tile")
    return json.dumps([row.get(name) for name in names], sort_keys=True)
