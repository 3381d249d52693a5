"""Runs of NVIDIA's tools: their session, and which twins share a launch."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import build
from harness.catalog.cases import Case, same_program
from harness.machine import processes
from harness.machine.progress import Interrupts, Progress
from harness.measure.session import Session
from harness.measure.worker import Deadlines
from harness.rows import results


@contextmanager
def session(experiment: str, path: Path) -> Iterator[Session]:
    """A session that writes rows about the GPU here to `path`. Raises SystemExit after Ctrl-C or SIGTERM."""
    with results.Writer(path) as writer, Interrupts() as interrupts, Progress() as progress:
        yield Session(experiment, "gpu", writer, (), build, Deadlines(), progress, interrupts)
    interrupts.leave(path)


def run(command: Sequence[str], root: Path, variables: Mapping[str, str], log: Path, deadline: float) -> int | None:
    """`processes.run` with the packages of `root`."""
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    return processes.run(command, root, {**os.environ, **variables, "PYTHONPATH": path}, log, deadline)


def same_programs(cases: Iterable[Case]) -> dict[Case, list[Case]]:
    """Each case that must run -> the other cases that are the same program at the same tile."""
    todo = list(dict.fromkeys(cases))
    groups: dict[Case, list[Case]] = {}
    for case in todo:
        first = case
        while (name := same_program(first)) and replace(first, technique=name) in todo:
            first = replace(first, technique=name)
        group = groups.setdefault(first, [])
        if first != case:
            group.append(case)
    return groups


def write(session: Session, case: Case, repeats: Iterable[Case], fields: Mapping[str, Any]) -> None:
    """One row about `case`, and the same under the names of the twins that repeat its program."""
    session.write(case, fields)
    for twin in repeats:
        session.write(twin, {**fields, "details": {**fields.get("details", {}), "same_program": case.technique}})
