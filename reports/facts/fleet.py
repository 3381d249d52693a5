"""How much faster several GPUs of a host did what one did, from rows of kind fleet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.rows import reading, results
from reports.data.dataset import Dataset, Row


@dataclass(frozen=True)
class Shared:
    """A command that one GPU did in `alone` seconds and `gpus` GPUs of the same host in `together`."""

    command: str
    problems: int
    alone: float
    gpus: int
    together: float
    disturbed: bool = False
    """Whether the host compiled kernels for other commands during the later of the two: it was not alone."""

    @property
    def brief(self) -> str:
        """The command, with its list of problems cut to a word: their number is told beside it."""
        return re.sub(r"(?: --problem \S+){2,}", " --problem ...", self.command)

    @property
    def times(self) -> float:
        return self.alone / self.together

    @property
    def sentence(self) -> str:
        return (
            f"{self.problems} problems: {self.alone:.0f} s on one GPU, {self.together:.0f} s on {self.gpus}: "
            f"{self.times:.1f} times as fast"
            + (" (the host did other work during the later run, which may have slowed it)" if self.disturbed else "")
        )


def shared(data: Dataset) -> list[Shared]:
    """Of each command and number of GPUs that the newest rows tell of: both runs were of one commit on one host, as its
    first board tells, nothing was lost, and the earlier one found all kernels built. The later one needs the same: what
    it saw being built was for other commands."""
    found: dict[tuple[object, ...], dict[int, Row]] = {}
    for row in results.newest(data.rows):
        if row["kind"] == "fleet" and not row["details"]["lost"]:
            machine = data.environments[row["environment"]]["details"]
            where = reading.board(machine), (machine.get("git") or {}).get("sha")
            found.setdefault((row["command"], row["details"]["problems"], *where), {})[row["gpus"]] = row
    told = []
    for by_count in found.values():
        for gpus, several in sorted(by_count.items()):
            if gpus > 1 and (alone := by_count.get(1)):
                early, late = (row["details"] for row in sorted((alone, several), key=lambda row: str(row["time"])))
                seconds = alone["details"]["seconds"], gpus, several["details"]["seconds"]
                if not early["built"]:
                    told.append(Shared(several["command"], early["problems"], *seconds, disturbed=late["built"] > 0))
    return told
