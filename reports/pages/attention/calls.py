"""What a call of flash_attention costs on a stream with nothing queued, beside libraries."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.catalog import experiments
from harness.operators.protocol import Problem
from reports.data.dataset import Dataset, Point, Ratio
from reports.data.names import label
from reports.facts.gains import Gain, mean

EXPERIMENT, OURS = "calls", "flash_attention"


@dataclass(frozen=True)
class Calls:
    """`lines`: each problem with the point of each of `names`, ours first, and our speed over that of the fastest
    library. `host`: name -> the median over the problems of the microseconds that a call takes on the host."""

    names: Sequence[str]
    lines: Sequence[tuple[Problem, dict[str, Point], Ratio | None]]
    host: dict[str, float]

    @property
    def rivals(self) -> list[str]:
        return [label(name) for name in self.names if name != OURS]

    @property
    def over(self) -> Gain | None:
        """The mean of our speed over that of the fastest library."""
        return mean(ratio for *_, ratio in self.lines)


def calls(data: Dataset) -> Calls | None:
    experiment = experiments.load(f"{data.operator.name}/{EXPERIMENT}")
    names = experiment.peers
    lines = []
    for problem in data.problems(EXPERIMENT):
        points = {name: data.point(EXPERIMENT, problem, None, name, experiment.modes[0]) for name in names}
        if points[OURS].counts:
            ratios = [data.ratio(points[OURS], points[name]) for name in names if name != OURS]
            least = min((ratio for ratio in ratios if ratio), key=lambda ratio: ratio.value, default=None)
            lines.append((problem, points, least))
    counting = {name: [points[name].row for _, points, _ in lines if points[name].counts] for name in names}
    on_host = {
        name: [row.call_us["launcher"] for row in rows if row and row.call_us] for name, rows in counting.items()
    }
    return Calls(names, lines, {name: statistics.median(us) for name, us in on_host.items() if us}) if lines else None
