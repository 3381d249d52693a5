"""Hardware counters by ncu: rows of kind `counters` on a GPU, one launch each, beside what the CPU runtime counts.

ncu runs one process that launches every kernel and is told, launch by launch, when to look. It replays the launch
once per group of counters, with cold caches. Shared memory is counted twice: the hardware's counters include passes
lost to others (copies by TMA, operands of the tensor cores), the ones by instruction (memory_l1_*) follow from the
addresses alone, as the CPU runtime's do; `totals` of a row are of these.
"""

import csv
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import build, operators
from harness.catalog import sources, techniques
from harness.catalog.cases import Case, at_reference_tiles, declined, origin
from harness.inspection import survey, tool_session
from harness.machine import cuda_tools
from harness.machine.environment import scrub
from harness.measure import groups
from harness.operators.protocol import Problem

SM_HERTZ = "sm__cycles_elapsed.avg.per_second"
"""The clock of the multiprocessors while the kernel ran, which NVML does not tell: it names the clock that was asked
for. ncu replays launches one by one, so it is the clock of a cool GPU."""
STALLS = (
    *("barrier", "branch_resolve", "dispatch_stall", "gmma", "lg_throttle", "long_scoreboard", "math_pipe_throttle"),
    *("membar", "mio_throttle", "no_instruction", "not_selected", "short_scoreboard", "sleeping", "wait"),
)
"""ncu's reasons why a warp did not issue, in the words of its metrics."""
METRICS = (
    "gpu__time_duration.sum",
    SM_HERTZ,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALLS),
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "lts__t_sectors.sum",
    "lts__t_sector_hit_rate.pct",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
"""Asked for by name where the GPU has them."""
SECTIONS = ("LaunchStats", "Occupancy", "SourceCounters")
"""ncu's own groups, for what --query-metrics does not list."""
FROM_SECTIONS = (
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
)


def cases(names: Sequence[str], backends: Sequence[str], problems: Sequence[Problem] = ()) -> list[Case]:
    """Every technique on `problems` at its reference tile; by default on those that its operator names."""
    found = []
    for name in names:
        technique = techniques.get(name)
        operator = operators.get(technique.operator)
        pairs = [(problem, None) for problem in problems]
        if not pairs:
            usual = [(survey.counted_problem(name), None), (operator.benchmark, None)]
            pairs = list(operator.profiled(technique.name)) if operator.profiled else usual
        found += at_reference_tiles("ncu", [name], backends, [problem for problem, tile in pairs if tile is None])
        languages = sources.series(backends, technique.path)
        at_tiles = ((problem, tile) for problem, tile in pairs if tile)
        found += [Case("ncu", name, backend, problem, tile) for problem, tile in at_tiles for backend in languages]
    return found


def run(cases: Sequence[Case], path: Path, *, deadline: float = 600.0) -> list[dict[str, Any]]:
    """Counts the cases and returns the rows that it appended to `path`. `deadline` in seconds is for one ncu."""
    with tool_session.session("ncu", path) as session, tempfile.TemporaryDirectory() as scratch:
        repeats = tool_session.same_programs(cases)

        def write(case: Case, fields: Mapping[str, Any]) -> None:
            tool_session.write(session, case, repeats[case], {"kind": "counters", **fields})

        todo = []
        for case in repeats:
            if reason := declines(case):
                write(case, {"status": "unsupported", "reason": reason})
            else:
                todo.append(case)
        if todo:
            build.prebuild(
                todo,
                lambda done, total, label: session.progress.step("compile", done, total, label),
                stop=lambda: session.interrupts.requested,
            )
        needed = {case: build.environment_of(case) if case.backend != "cuda" else None for case in todo}
        for number, (variables, members) in enumerate(groups.environments(todo, needed)):
            if session.interrupts.requested:
                break
            folder = Path(scratch) / str(number)
            folder.mkdir()
            in_order = [case for case in todo if case in members]
            for case, fields in profile(in_order, variables, folder, deadline).items():
                write(case, fields)
    return session.rows


def declines(case: Case) -> str | None:
    try:
        cuda_tools.find("ncu")
    except FileNotFoundError as error:
        return str(error)
    return build.available(case.backend) or declined(case)


def profile(
    cases: Sequence[Case], variables: Mapping[str, str], folder: Path, deadline: float
) -> dict[Case, dict[str, Any]]:
    """One ncu over one process that launches the cases in order: case -> fields of its row."""
    tool = cuda_tools.find("ncu")
    asked, missing = available_metrics(tool)
    request, result, report, log = (folder / name for name in ("request", "result", "report", "log"))
    request.write_bytes(pickle.dumps(list(cases)))
    command = [
        *(str(tool), "--profile-from-start", "off", "--target-processes", "application-only"),
        *("--clock-control", "none", "--cache-control", "all", "--metrics", ",".join(asked)),
        *(word for section in SECTIONS for word in ("--section", section)),
        *("--export", str(report), "--force-overwrite"),
        *(sys.executable, "-m", "harness.inspection.hardware_counters", str(request), str(result)),
    ]
    late = tool_session.run(command, sources.ROOT, variables, log, deadline) is None
    said = scrub(log.read_text(errors="replace"))
    outcomes = [json.loads(line) for line in result.read_text().splitlines()] if result.is_file() else []
    launches = raw_page(tool, report.with_suffix(".ncu-rep"))
    complaint = f"not done within {deadline:g} s" if late else errors(said)
    common: dict[str, Any] = {"tool_version": cuda_tools.version(tool), "clock_control": "none", "cache_control": "all"}
    if missing:
        common["missing"] = missing
    return {
        case: {**fields, "details": {**fields.get("details", {}), **common}}
        for case, fields in match(cases, outcomes, launches, complaint).items()
    }


def available_metrics(tool: Path) -> tuple[list[str], list[str]]:
    """METRICS that this GPU has, and those that it has not. All of them when ncu cannot tell."""
    said = subprocess.run([tool, "--query-metrics"], capture_output=True, text=True, timeout=120).stdout
    known = {line.split()[0] for line in said.splitlines() if line.strip()}
    asked = [name for name in METRICS if name.partition(".")[0] in known] or list(METRICS)
    return asked, [name for name in METRICS if name not in asked]


def raw_page(tool: Path, report: Path) -> list[dict[str, str]]:
    """The launches of a report, in order, each by its columns: ID, Kernel Name, Block Size, Grid Size, metrics."""
    if not report.is_file():
        return []
    command = [str(tool), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "LC_ALL": "C"})
    return parse(done.stdout)


def parse(text: str) -> list[dict[str, str]]:
    """Rows of ncu's raw page as CSV. The line below the header has the units and no ID."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return [row for row in csv.DictReader(lines[start:]) if row["ID"]]


def number(text: str | None) -> int | float | None:
    """1,234.5 as ncu prints it, in front of the instances of a counter if they are shown; None where it says n/a."""
    try:
        value = float((text or "").partition(" ")[0].replace(",", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def match(
    cases: Sequence[Case], outcomes: Sequence[Mapping[str, Any]], launches: Sequence[Mapping[str, str]], said: str
) -> dict[Case, dict[str, Any]]:
    """Fields of each case's row. `outcomes` are in the order of `cases`, of which the process may have done some only;
    `launches` belong to those that passed, in the same order."""
    rows: dict[Case, dict[str, Any]] = {}
    remaining = list(launches)
    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome["status"] != "passed":
            rows[case] = dict(outcome)
        elif remaining and origin(case) in remaining[0]["Kernel Name"]:  # the kernel's name is its file's
            details = counters(remaining.pop(0))
            hertz = details["metrics"].get(SM_HERTZ)
            rows[case] = {**outcome, "details": details, "clock_ghz": [hertz / 1e9] if hertz else None}
        else:
            rows[case] = {"status": "crashed" if launches else "unsupported", "reason": f"ncu saw no launch: {said}"}
    for case in cases[len(outcomes) :]:
        rows[case] = {"status": "crashed", "reason": f"the process ended before this case: {said}"}
    return rows


def counters(launch: Mapping[str, str]) -> dict[str, Any]:
    """The `details` of a row: metrics by their names, and the totals that the CPU runtime has too."""
    values = {name: number(launch.get(name)) for name in (*METRICS, *FROM_SECTIONS)}
    found = {name: value for name, value in values.items() if value is not None}
    details: dict[str, Any] = {
        "kernel": launch.get("Kernel Name"),
        "grid": launch.get("Grid Size"),
        "block": launch.get("Block Size"),
        "metrics": found,
    }
    if {"memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"} <= set(found):
        wavefronts, least = found["memory_l1_wavefronts_shared"], found["memory_l1_wavefronts_shared_ideal"]
        details["totals"] = {"wavefronts": wavefronts, "bank_conflicts": wavefronts - least}
    return details


def errors(log: str) -> str:
    """What ncu and the process complained of, at most 500 characters."""
    lines = [line for line in log.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
    return (" ".join(lines) or log.strip().rpartition("\n")[2] or "it said nothing")[-500:]


def launch_all(cases: Iterable[Case], result: Path) -> None:
    """Runs under ncu: launches each case twice and lets ncu see the second launch, of a compiled and loaded kernel.
    Appends one line of JSON per case to `result`."""
    import torch

    from harness.measure import arenas, process

    for case in cases:
        problem, stage = case.problem, "load"
        try:
            variant = build.load(case)
            given = arenas.make(problem, operators.of(problem).distributions[0], 0, "cuda")
            call = variant.bind({**given.tensors, **arenas.make_outputs(problem, "cuda").tensors}, given.scalars)
            stage = "launch"
            call()
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                call()
                torch.cuda.synchronize()
            fields = {"status": "passed", **variant.of_compilers()}
        except Exception as error:
            reason = scrub(f"{type(error).__name__}: {error}").split("\n")[0]
            fields = {"status": process.status_of(error, stage), "reason": reason}
        with result.open("a") as file:
            file.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    launch_all(pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]))
