"""What the verdicts of `compare` are worth, from recorded replicates of one program."""

from __future__ import annotations

from harness.rows import noise
from harness.rows.noise import Replicates, Trial
from reports.data.dataset import Dataset


def replicates(data: Dataset) -> Replicates | None:
    """Every pair of recorded timings of one program; None where nothing was recorded."""
    return noise.replicates(noise.Timings(data.rows)) if data.recorded else None


def trials(pairs: Replicates | None) -> list[Trial]:
    """All pairs, judged by limits that were taken without them: how often equal programs are called different, and how
    often a planted slowdown is found. Empty where replicates are too few."""
    if pairs is None:
        return []
    try:
        return noise.trial(pairs)
    except ValueError:  # so few that no limit follows from them
        return []


def between_boards(pairs: Replicates | None) -> float | None:
    """By how much a kernel's speed over its group's anchors may differ between two boards although nothing changed, in
    logarithms; None where replicates are too few."""
    return noise.limits(pairs)[False].ratio if pairs else None
