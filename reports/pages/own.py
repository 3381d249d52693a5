"""The page about a kernel of the user's: its speed beside the ladder, its error, its machine code, what to try next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import own
from harness.operators.protocol import Problem
from harness.rows import fastest, reading, results
from harness.rows.frame import table
from reports.data.names import label, title
from reports.facts import resemblance

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One kernel on one problem. `where`: this run, or recorded; `share`: of the fastest's TFLOPS, in percent."""

    name: str
    tflops: float
    ms: float
    where: str
    share: float
    mine: bool
    remark: str


def page(rows: Sequence[Row], recorded: Iterable[Row]) -> dict[str, Any]:
    """The variables of own.html. `rows`: those of one run of check or bench; `recorded`: of the same GPU."""
    about = {_operator(row) for row in rows if "problem" in row}
    recorded = [row for row in recorded if _operator(row) in about]  # problems of others can have the same fields
    mine = [row for row in rows if row.get("backend") == own.BACKEND]
    by_cupti = ("cupti", "implausible")
    gates = [row for row in mine if row["kind"] == "gate" or (results.what(row), row["status"]) == by_cupti]
    problems = list(dict.fromkeys(reading.problem_of(row) for row in rows if "problem" in row))
    kernels = []
    for name in dict.fromkeys(row["kernel"] for row in mine):
        code, tried = code_of(name, mine), ("code", name)
        kernels.append(
            {
                "name": name,
                "gates": [row for row in gates if row["kernel"] == name],
                "code": code,
                "why_no_code": next((row.get("reason") for row in mine if (row["kind"], row["kernel"]) == tried), None),
                "features": resemblance.features(code) if code else [],
                "like": resemblance.nearest(code, recorded) if code else None,
                "source": "cuda" if name.endswith(".cu") else "python",
            }
        )
    return {
        "kernels": kernels,
        "tables": [(problem, lines(problem, rows, recorded)) for problem in problems],
        "error": reading.error_over_yardstick,
        "census": _census,
        "label_of": _label,
    }


def _operator(row: Row) -> str:
    return row.get("operator") or operators.FIRST


def _label(row: Row) -> str | None:
    return (row.get("details") or {}).get("label")


def code_of(name: str, rows: Iterable[Row]) -> Row | None:
    """The row that holds the machine code of the user's kernel of this name; None where none does."""
    its = [row for row in rows if row.get("kernel") == name and (row.get("code") or {}).get("census")]
    return max(its, key=lambda row: row["kind"] == "code", default=None)


def lines(problem: Problem, rows: Iterable[Row], recorded: Iterable[Row]) -> list[Line]:
    """Of one problem, the fastest first: all that this run timed, and the recorded rungs that it did not."""
    here = (row for row in rows if results.what(row) == "timing" and row.get("samples_ms"))
    its = (row for row in here if reading.problem_of(row) == problem)
    timed = {(row.get("kernel") or row.get("technique") or "", row["backend"]): row for row in its}
    fields = problem.to_dict()
    there = [row for row in recorded if row.get("problem") == fields and results.what(row) == "timing"]
    ladder: dict[tuple[str, str], Row] = {}
    for name, backend in fastest.of_table(table("timing", there), problem) if timed else ():
        rung = (name, backend, "passed")
        passed = [row for row in there if (row.get("technique"), row["backend"], row["status"]) == rung]
        if (name, backend) not in timed:
            ladder[name, backend] = min(passed, key=reading.median_ms)
    every = [*((row, "this run") for row in timed.values()), *((row, "recorded") for row in ladder.values())]
    best = max((reading.tflops(row) for row, _ in every), default=1.0)
    found = [
        Line(
            _name(row),
            reading.tflops(row),
            reading.median_ms(row),
            where,
            100 * reading.tflops(row) / best,
            row["backend"] == own.BACKEND,
            ", ".join(filter(None, (_label(row), "" if row["status"] == "passed" else row["status"]))),
        )
        for row, where in every
    ]
    return sorted(found, key=lambda line: -line.tflops)


def recorded_rows(folder: Path, gpu: str) -> list[Row]:
    """Of one GPU, a slug such as h200; those of an H200 where it has none, so that there is a ladder to look at."""
    return [*(results.read_recorded(folder, gpu or "no GPU") or results.read_recorded(folder, "h200"))]


def _census(kernel: Mapping[str, Any]) -> list[str]:
    """Names of what the kernel or the rung that it resembles executes."""
    both = [kernel["code"], *([kernel["like"].row] if kernel["like"] else [])]
    counted = {name for row in both for name, count in row["code"]["census"].items() if count}
    return sorted(counted, key=lambda name: (name != "instructions", name))


def _name(row: Row) -> str:
    if row.get("kernel"):
        return str(row["kernel"])
    return f"{title(row['technique'])}, {label(row['backend'])}" if row.get("technique") else label(row["backend"])
