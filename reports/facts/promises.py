"""What the verdicts of `compare` are worth, from recorded replicates of one program."""

from __future__ import annotations

from harness.rows import noise
from harness.rows.noise import Trial
from reports.data.dataset import Dataset


def trials(data: Dataset | None) -> list[Trial]:
    """Of all pairs of timings of one program, judged by limits that they had no part in: how often nothing is called
    something, and how often a planted slowdown is found. None where replicates are too few."""
    if data is None or not data.recorded:
        return []
    try:
        return noise.trial(noise.replicates(noise.Timings(data.rows)))
    except ValueError:  # so few that no limit follows from them
        return []
