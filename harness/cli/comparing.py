"""scorecard, compare, history: what the rows say about speed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from harness.cli.options import AsJson
from harness.cli.output import RECORDED, RUNS, console
from harness.rows import results
from harness.rows.tables import folding

SIGNS = (
    "A value over all boards can be above each board's: what is left unexplained has either sign, and in their mean a "
    "part of it cancels."
)
"""Of shares of a gap."""


def scorecard(as_json: AsJson = False) -> None:
    """The ratios that the project follows, from recorded rows and from fresh ones."""
    from harness.rows import stats
    from harness.rows.frame import frame
    from harness.rows.scorecard import GAP_EXPLAINED
    from harness.rows.scorecard import scorecard as compute

    runs = results.fresh_runs(RUNS)
    card = compute(*(frame(kind, root=RECORDED, runs=runs) for kind in ("timing", "gate", "code")))
    if as_json:
        print(json.dumps(card, indent=1))
        return
    table = Table(*folding("ratio", "GPU", "value", "95% interval", "worst cell"), box=box.SIMPLE_HEAD)
    for entry in card["entries"]:
        is_gap = entry["name"] == GAP_EXPLAINED
        value = f"{entry['value']:.3f}" if entry["value"] else f"incomplete: {entry['reason']}"
        name = f"{entry['name']} (theirs quoted)" if entry["quoted"] else entry["name"]
        interval = stats.describe(entry["interval"], of_ratio=not is_gap)
        table.add_row(name, entry["gpu"], value, interval, entry["worst_cell"] or "")
    console.print(table)
    for entry in card["entries"]:
        if entry["name"] == GAP_EXPLAINED and not entry["reason"]:
            console.print(f"{GAP_EXPLAINED} on {entry['gpu']}, problem by problem; the goal is {entry['goal']}:")
            console.print(_shares(entry))
            console.print(SIGNS)
        for caveat in entry["caveats"]:
            console.print(f"{entry['name']} on {entry['gpu']}: {caveat}.", soft_wrap=True)


def _shares(entry: Mapping[str, Any]) -> Table:
    """How much of the gap has a cause on each problem, over all boards and on each, and where that misses the goal."""
    from harness.rows import stats
    from harness.rows.scorecard import ALL_BOARDS

    table = Table(*folding("problem", "value", "95% interval", "boards"), box=box.SIMPLE_HEAD)
    for cell in entry["cells"]:
        if "reason" in cell:
            table.add_row(cell["problem"], "incomplete", "", cell["reason"])
            continue
        value, *boards = (
            f"{share:.3f}{' missed' if where in cell['missed'] else ''}"
            for where, share in {ALL_BOARDS: cell["value"], **cell["boards"]}.items()
        )
        each = "\n".join(f"{board} {share}" for board, share in zip(cell["boards"], boards, strict=True))
        table.add_row(cell["problem"], value, stats.describe(cell["interval"], of_ratio=False), each)
    return table
