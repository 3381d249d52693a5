"""A ratio that the project follows over time, as plain data; operators list theirs in promises.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field

FASTEST = "fastest"
"""In place of a backend: the fastest of the promise's rivals, all timed in one group."""


@dataclass(frozen=True)
class Quoted:
    """Speeds of code that was measured separately, so that they have no samples: problem's slug -> speed on `gpu`."""

    what: str
    gpu: str
    speeds: Mapping[str, float]


@dataclass(frozen=True)
class Promise:
    """The speed of `ours` over that of `theirs` (backends), the geometric mean over the problems of an experiment.

    `technique`: the only one that counts for CUDA, instead of the fastest; with `repeats` only those whose bits repeat
    do. `problem`: slug of the only problem that counts. `rivals`: whom FASTEST is among. `ladder`: GPUs that run it
    have an entry even without a row.
    """

    name: str
    ours: str
    theirs: str
    experiment: str
    technique: str | None = None
    repeats: bool = False
    problem: str | None = None
    mode: str = "burst"
    ladder: str | None = None
    rivals: tuple[str, ...] = ()
    quoted: Quoted | None = field(default=None, hash=False)
