"""A command as it is dispatched, with fake kernels: `python -m tests.support.fleet_kernels --shard 1/4 --rows FILE`.

A loader for the runner too: the fakes of fake_kernels, with rows that pass the check of rows, and a kernel that ends
the process which started the command, as a lost node does. With --cluster the whole of it, on a cluster's GPUs.
"""

import argparse
import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from harness.catalog import techniques
from harness.catalog.cases import Case, of_experiment
from harness.catalog.entries import NamedExperiment, Technique, Tile
from harness.machine import environment
from harness.measure import fleet, runner
from harness.measure.worker import Deadlines
from harness.operators.attention.problem import Problem
from tests.support import fake_kernels, row_file
from tests.support.fake_kernels import available, environment_of, prebuild, same_program

__all__ = ["available", "environment_of", "load", "prebuild", "same_program", "source_sha256"]

MARK = "FLEET_MARK"
"""Variable that names a file: it is there once a command was ended from within."""
NODE = "FLEET_NODE"
"""Variable; where it is set, what is ended is the raylet, with its node."""
TILE = Tile(16, 16)
PROBLEMS = tuple(Problem.square(1, heads, 64, 64, dtype="fp16") for heads in (1, 2, 3))
ENDS = ({"right": "passed", "segfaults": "crashed"}, {"right": "passed", "sleeps": "timeout"})
"""Of kernels that end themselves at most, on the first two problems: the status of each."""


def experiment() -> NamedExperiment:
    names = ("right", "segfaults", "sleeps", "kills_once")
    fakes = [Technique(name, "a fake", mma="fma", tile={64: TILE}) for name in names]
    techniques.TECHNIQUES = (*(each for each in techniques.TECHNIQUES if each.idea != "a fake"), *fakes)
    cells = [(problem, name, TILE) for problem, ends in zip(PROBLEMS, ENDS, strict=False) for name in ends]
    cells += [(PROBLEMS[2], "right", TILE), (PROBLEMS[2], "kills_once", TILE)]
    return NamedExperiment(
        name="fakes",
        problems=PROBLEMS,
        backends=("cuda",),
        peers=(),
        modes=(),
        distributions=("normal",),
        cells=tuple(cells),
    )


def run(path: Path, problems: tuple[Problem, ...]) -> list[dict[str, Any]]:
    """The gates of these problems, in this process and its workers."""
    whole = experiment()
    cases = [case for case in of_experiment(whole) if case.problem in problems]
    return runner.run(
        whole,
        on="cpu",
        path=path,
        resume=True,
        selected=cases,
        gate={"repeats": 2},
        loader=__name__ if __name__ != "__main__" else "tests.support.fleet_kernels",
        deadlines=Deadlines(launch=3),
    )


def load(case: Case, on: str) -> Any:
    if case.technique == "kills_once":
        again = Path(os.environ[MARK]).exists()
        return fake_kernels.FakeVariant(fake_kernels.attend if again else kills)
    return fake_kernels.load(case, on)


def kills(*_: Any, **__: Any) -> None:
    """Ends the process that started the command of this worker: kernel -> worker -> command -> that one -> raylet."""
    Path(os.environ[MARK]).touch()
    time.sleep(1)  # rows that were written before are on their way
    ended = parent(os.getppid())
    os.kill(parent(ended) if os.environ.get(NODE) else ended, signal.SIGKILL)
    signal.pause()


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/status").read_text().partition("PPid:")[2].split()[0])


def source_sha256(case: Case) -> str | None:
    return case.technique and hashlib.sha256(case.technique.encode()).hexdigest()


def ends(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, str], tuple[str, str | None]]:
    """(heads, technique) -> status and check of the newest gate."""
    gates = [row for row in rows if row["kind"] == "gate"]
    return {(row["problem"]["heads"], row["technique"]): (row["status"], row.get("check")) for row in gates}


def work() -> fleet.Work:
    cases = tuple(of_experiment(experiment()))
    return fleet.Work(("-m", "tests.support.fleet_kernels"), PROBLEMS, cases, on="cpu")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--shard")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--cluster")
    options = parser.parse_args()
    if options.cluster:
        from harness.cli import spreading

        techniques.TECHNIQUES = ()
        fleet.source_sha256 = source_sha256
        try:
            spreading.spread(work(), options.rows, None, options.cluster)
        except typer.Exit as ended:
            sys.exit(ended.exit_code)
        sys.exit()
    environment.describe = lambda *_: {**row_file.DETAILS, "gpu": None}  # without torch
    number, count = map(int, options.shard.split("/"))
    run(options.rows, PROBLEMS[number - 1 :: count])
