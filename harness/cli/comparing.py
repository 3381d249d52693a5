"""scorecard, compare, history: what the rows say about speed."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from harness import operators
from harness.catalog.entries import MODES
from harness.cli.options import (
    AsJson,
    chosen,
    completing,
    experiments,
    operator_of,
    refuse,
    require_known,
    require_words_of_cells,
    split,
    technique_called,
)
from harness.cli.output import RECORDED, RUNS, console
from harness.rows import results
from harness.rows.tables import folding

FEW = 8
SIGNS = (
    "A value over all boards can be above each board's: what is left unexplained has either sign, and in their mean a "
    "part of it cancels."
)
"""Of shares of a gap."""


def scorecard(as_json: AsJson = False) -> None:
    """Show the ratios that the project follows, with intervals, from recorded and fresh rows."""
    from harness.rows import stats
    from harness.rows.frame import frame
    from harness.rows.scorecard import GAP_EXPLAINED
    from harness.rows.scorecard import scorecard as compute

    runs = results.fresh_runs(RUNS)
    card = compute(*(frame(kind, root=RECORDED, runs=runs) for kind in ("timing", "gate")))
    if as_json:
        print(json.dumps(card, indent=1))
        return
    table = Table(*folding("ratio", "GPU", "value", "95% interval", "worst cell"), box=box.SIMPLE_HEAD)
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in card["entries"]:
        is_gap = entry["name"].endswith(GAP_EXPLAINED)
        value = f"{entry['value']:.3f}" if entry["value"] else "incomplete"
        name = f"{entry['name']} (theirs quoted)" if entry["quoted"] else entry["name"]
        interval = stats.describe(entry["interval"], of_ratio=not is_gap)
        if not entry["value"]:
            reasons[entry["reason"]].append(f"{name} on {entry['gpu']}")
        table.add_row(name, entry["gpu"], value, interval, entry["worst_cell"] or "")
    console.print(table)
    for reason, names in reasons.items():
        console.print(f"incomplete: {reason}\n  {', '.join(names)}", soft_wrap=True, highlight=False, markup=False)
    for entry in card["entries"]:
        if entry["name"].endswith(GAP_EXPLAINED) and not entry["reason"]:
            console.print(f"{entry['name']} on {entry['gpu']}, problem by problem; the goal is {entry['goal']}:")
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


def compare(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", exists=True, help="Rows of the baseline: a file or a folder.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", exists=True, help="Rows to judge.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--technique", help="Only its cases, or those of a kernel of your own; repeat for several."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """SAME, FASTER, SLOWER, AMBIGUOUS, MISSING per case; exit 1 on SLOWER or MISSING, 2 when not comparable.

    Judged are the time and the ratio to the library peers of the same interleaved group. How far both move although
    nothing changed comes from recorded rows, on one board or on two. Cases that are SAME are only counted.
    """
    from harness.rows import compare as comparison

    rungs, own_kernels = split(names)
    raise typer.Exit(
        comparison.main(
            base,
            new,
            RECORDED,
            as_json=as_json,
            techniques=(*own_kernels, *(chosen(rungs) if rungs else ())),
            console=console,
        )
    )


def history(
    words: Annotated[
        list[str], typer.Argument(metavar="CELL", help="Backend, technique, problem, tile: as many as tell it.")
    ],
    experiment: Annotated[
        str, typer.Option(help="Whose recorded rows.", autocompletion=completing(experiments()))
    ] = "ladder",
    gpu: Annotated[str, typer.Option(help="A folder of reports/recorded.")] = "h200",
    mode: Annotated[str, typer.Option(help="burst, sustained or idle: how it was timed.")] = "burst",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for change-point tools; of one cell.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one cell each time it was recorded: commit, board, time, ratio to its group's anchor."""
    from harness.rows import history as past

    require_known("--mode", [mode], MODES)
    given = [word for each in words for word in each.split()]
    if not given:
        raise typer.BadParameter("CELL: got no word, expected some of backend, technique, problem and tile")
    refuse("--json", "one output is one format", {"--csv": as_json and as_csv})
    gpus = sorted({name for name, _ in results.iter_recorded(RECORDED)})
    require_known("--gpu", [gpu], gpus)
    of, _, experiment = experiment.rpartition("/")
    experiments_here = sorted({path.parent.name for path in results.recorded(RECORDED, gpu)})
    require_known("--experiment", [experiment], experiments_here)
    named = [word for word in given if word.partition("/")[0] in operators.names()]
    operator = operator_of(named).name if named else of or None
    given = [technique_called(word).name if word in named else word for word in given]
    require_words_of_cells(given, {word for cell in past.cells(RECORDED, gpu, experiment) for word in cell})

    from harness.rows.frame import frame

    timing = frame("timing", root=RECORDED, operator=operator)
    found = past.points(timing[(timing.gpu_slug == gpu) & (timing.experiment == experiment)], given, mode)
    if not found:
        places = [(f"--gpu {one}", one, experiment) for one in gpus if one != gpu]
        places += [(f"--experiment {one}", gpu, one) for one in experiments_here if one != experiment]
        others = (
            f"`{option}` has some"
            for option, slug, name in places
            for cell in past.cells(RECORDED, slug, name, operator or "*")
            if "gate" not in cell and set(given) <= cell
        )
        step = next(others, "`twinkernels run` on such a GPU and `record` add one")
        told = f"but no recorded {mode} timing of {experiment} on {gpu} has these words; {step}"
        raise typer.BadParameter(f"CELL: got {' '.join(words)!r}, {told}")
    if len(found) > 1 and as_csv:
        shown = "; ".join(list(found)[:FEW]) + ("; ..." if len(found) > FEW else "")
        raise typer.BadParameter(f"CELL: got {' '.join(words)!r}, expected one cell of these {len(found)}: {shown}")
    if as_csv:
        print(next(iter(found.values())).to_csv(index=False), end="")
    elif as_json:
        print(
            json.dumps({name: json.loads(points.to_json(orient="records")) for name, points in found.items()}, indent=1)
        )
    else:
        for name, points in found.items():
            console.print(_history_table(name, points))


def _history_table(name: str, points: Any) -> Table:
    table = Table("time", "commit", "board", "source", "ms", "TFLOPS", "time / anchor's", title=name)
    formats = {"ms": "{:.4f}", "tflops": "{:.1f}", "ratio": "{:.3f}"}
    for point in points.to_dict("records"):
        known = {column: value for column, value in point.items() if value == value}  # not NaN
        columns = ("time", "commit", "board", "source", "ms", "tflops", "ratio")
        table.add_row(
            *(formats.get(column, "{}").format(known[column]) if column in known else "" for column in columns)
        )
    return table
