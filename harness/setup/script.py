"""A file of experiments/ called as a script: the command line where there is a GPU, and what is recorded where not.

Standard library only: the Python that runs it may be any. What needs more is left to the one that bootstrap finds.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness import operators
from harness.catalog import experiments, techniques
from harness.setup import bootstrap

RECORDED = bootstrap.CHECKOUT / "reports" / "recorded"
SITE = bootstrap.CHECKOUT / "reports" / "site"
CORRECTNESS = "evidence/correctness.html"
DATA = "data.html"
PAGES = {
    **dict.fromkeys(("any_length", "correctness", "random_problems"), CORRECTNESS),
    "expressibility": "techniques.html",
}
"""Of experiments that another page tells than the one of all rows."""


def become(command: str) -> NoReturn:
    """`twinkernels` with this command and the options that the file was called with, in the place of this process:
    `run` of the experiment of this file.

    Without options it prints the question and the recorded answer where there is no GPU to `run` on, and the recorded
    table of `expressibility`.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    file, options = Path(sys.argv[0]).resolve(), sys.argv[1:]
    name = f"{file.parent.name}/{file.stem}"
    question = str(sys.modules["__main__"].__doc__)
    path = [str(bootstrap.CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    if {"-h", "--help"} & set(options):
        explain(str(file.relative_to(bootstrap.CHECKOUT)), question, command)
    if command == "run" and not options and not bootstrap.has_gpu():
        answer = recorded(name, experiments.load(name).techniques)
        step = "`--on cpu` checks small problems here." if experiments.without_gpu(name) else "It needs a GPU."
        page = where(file.stem) if answer else [f"Nothing is recorded yet. {step}"]
        print("\n".join([question.splitlines()[0], "", *answer, *page]))
        sys.exit()
    if command == "expressibility" and not options:
        print(question.splitlines()[0], flush=True)
        options = ["--recorded"]
    words = [command, *([name] if command == "run" else [])]
    os.execv(sys.executable, [sys.executable, "-m", "harness.setup.bootstrap", "-m", "harness", *words, *options])


def explain(script: str, question: str, command: str) -> NoReturn:
    """The question, the script's own usage, and the options of its command where a Python is set up that tells them."""
    remark = "Without a GPU and without options it prints what is recorded.\n\n" if command == "run" else ""
    print(f"{question.strip()}\n\nUsage: python {script} [OPTIONS]\n\n{remark}Its options are those of:", flush=True)
    here = not bootstrap.unmet(bootstrap.requirements())
    if here or bootstrap.is_set_up():  # a .venv without the stamp is half made
        ready = sys.executable if here else str(bootstrap.PYTHON)
        os.execv(ready, [ready, "-m", "harness", command, "--help"])
    print(f"twinkernels {command}; once `make report` has set up, this lists them.")
    sys.exit()


def recorded(experiment: str, asked: Sequence[str] = ()) -> list[str]:
    """Lines, of operator/name: of each GPU a table of TFLOPS, a line a technique and a column a series, problem by
    problem; of what was not timed the counts. Then which of the techniques asked for have no time."""
    lines, timed = list[str](), set[str]()
    of = operators.get(experiment.partition("/")[0])
    order = {technique.name: number for number, technique in enumerate((*of.techniques, *of.ablations))}
    for file in sorted(RECORDED.glob(f"*/{experiment}/summary.csv")):
        days = [re.sub(r"(\d{4})(\d\d)(\d\d)-.*", r"\1-\2-\3", run.name) for run in file.parent.glob("*.jsonl.xz")]
        lines += [f"Recorded on {file.parts[-4].upper()}, {max(days, default='')}", ""]
        tables: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        counted = []
        with file.open() as text:
            for row in csv.DictReader(text):
                backend, technique, problem = parts(row["cell"])
                if problem is None:
                    counted.append(f"  {row['cell']}: {row['status']}")
                elif row["tflops"] and row["status"] == "passed":
                    best, series = tables[problem][technique or backend], backend if technique else "library"
                    best[series] = max(best.get(series, 0.0), float(row["tflops"]))
        for problem, rows in tables.items():
            columns = [one for one in (*techniques.SERIES, "library") if any(one in row for row in rows.values())]
            wide = max(map(len, [*rows, problem]))
            lines.append(f"  {problem:{wide}}" + "".join(f"{series:>15}" for series in columns))
            for technique in sorted(rows, key=lambda name: order.get(name, len(order))):
                cells = (f"{speed:.1f}" if (speed := rows[technique].get(one)) else "" for one in columns)
                lines.append(f"  {technique:{wide}}" + "".join(f"{cell:>15}" for cell in cells))
            lines.append("")
        lines += ["TFLOPS, of the best tile timed.", ""] if tables else [*counted, ""]
        timed |= {name for rows in tables.values() for name in rows}
    if timed and (later := [name for name in asked if name not in timed]):
        lines += [f"No time is recorded yet of {', '.join(later)}.", ""]
    return lines


def parts(cell: str) -> tuple[str, str | None, str | None]:
    """Backend, technique and problem of a timed cell; a library has no technique. No problem: it was not timed."""
    words = cell.split()
    at = next((i for i, word in enumerate(words) if operators.is_problem(word)), None)
    return words[0], words[1] if at == 2 else None, None if at is None else words[at]


def where(name: str) -> list[str]:
    """Lines: the report's page, and how to have it where it is not built yet."""
    page = (SITE / PAGES.get(name, DATA)).relative_to(bootstrap.CHECKOUT)
    built = (bootstrap.CHECKOUT / page).is_file()
    return [f"With what was measured beside it: {page}{'' if built else ', which `make report` builds'}"]
