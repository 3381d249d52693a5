"""compute-sanitizer over every kernel: rows of kind `gate`, one process per kernel, problem and tool.

A row passes when the kernel ran under the tool and the tool found nothing. That the tools find something where there
is something is shown by planted bugs (tests/planted): those rows pass when the bug was found.

racecheck reports a buffer that all lanes of a warp read before one of them arrives for all at the mbarrier of its
writer. The report's page on correctness says why that is no race. Such rows stay wrong: without the barrier of the warp
the finding would name the same lines.
"""

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from harness import build, operators
from harness.build import compiling
from harness.catalog import planted as bugs
from harness.catalog import sources, techniques
from harness.catalog.cases import Case, at_reference_tiles
from harness.catalog.entries import Tile
from harness.catalog.sources import ROOT
from harness.inspection import tool_session
from harness.machine import cuda_tools, processes
from harness.machine.environment import scrub

OPTIONS: dict[str, tuple[str, ...]] = {
    # Room behind every allocation, so that an access a whole tile too far is in no other tensor.
    "memcheck": ("--padding", "131072", "--report-api-errors", "no"),
    "synccheck": (),
    "racecheck": (),
    "initcheck": (),
}
"""The tools, and what each is given beyond what all are given."""

BUGS: dict[str, tuple[str, ...]] = {
    "memcheck": ("one_key_tile_too_many", "rows_padded_by_four_bytes"),
    "synccheck": ("barrier_in_divergent_code", "barrier_skipped_by_a_warp"),
    "racecheck": ("barrier_missing_after_load", "barrier_missing_after_wait", "buffer_barrier_missing"),
    "initcheck": ("last_columns_unwritten",),
}
"""Planted bugs for each tool, of which it must find one; how many it finds says what its silence is worth."""

READ_BY_HOST = "Host API uninitialized memory access"
"""What initcheck says when the host reads an O of which it saw no store. It sees none by TMA: a kernel that does
nothing but store one tile by cp.async.bulk or cp.async.bulk.tensor gets this finding all over the tile, and none with
st.global (compute-sanitizer 2025.3.1 on an H200)."""
UNSEEN = (
    "initcheck does not see what TMA writes to global memory, and this kernel stores its output so; "
    "the gate fills outputs with NaN and finds what is not written"
)
FOUND = 86
"""Exit code by which compute-sanitizer says that it found something."""
KEPT, WORDS = 5, 400
"""Findings that a row quotes, and characters of each."""


class OutdatedPatch(RuntimeError):
    """A planted bug does not fit the kernel that it is for any more."""


@dataclass(frozen=True)
class Check:
    """One launch under one tool; `planted` names the patch that the kernel carries."""

    case: Case
    tool: str
    planted: str | None = None


def cases(names: Iterable[str], backends: Sequence[str], tile: Tile | None = None) -> list[Case]:
    """Every technique at its reference tiles, or at `tile`, on the problems that its operator names for all, for
    general and for persistent techniques."""
    found = []
    for technique in map(techniques.get, names):
        kinds = {"all": True, "general": technique.general, "persistent": sources.is_persistent(technique.path)}
        named = operators.get(technique.operator).sanitized
        several = [problem for kind, takes in kinds.items() if takes for problem in named.get(kind, ())]
        found += at_reference_tiles("sanitizer", [technique.name], backends, several)
    return [replace(case, tile=tile) for case in found] if tile else found


def planted(tools: Iterable[str]) -> list[Check]:
    checks = []
    for tool in tools:
        for number, name in enumerate(BUGS[tool]):
            bug = bugs.find(name)
            technique = techniques.get(bug.technique)
            small = operators.get(technique.operator).sanitized["all"]
            problem = small[number % len(small)]  # two bugs of one kernel are two rows
            tile = techniques.reference_tile(technique, problem.tile_key)
            checks.append(Check(Case("sanitizer_planted", bug.technique, "cuda", problem, tile), tool, name))
    return checks


def run(
    checks: Sequence[Check], experiment: str, path: Path, *, jobs: int | None = None, deadline: float = 120.0
) -> list[dict[str, Any]]:
    """Runs the checks in `jobs` processes at once, writes their rows to `path` and returns them, the environment's
    first. `deadline` in seconds is for one process, the build of its kernel included."""
    todo = {(check.case, check.tool): check for check in checks}
    with tool_session.session(experiment, path) as session, tempfile.TemporaryDirectory() as scratch:
        arch = session.arch or "no GPU"
        repeats = {
            tool: tool_session.same_programs(case for case, other in todo if other == tool)
            for tool in dict.fromkeys(tool for _, tool in todo)
        }
        distinct = [(case, tool) for tool, groups in repeats.items() for case in groups]
        with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
            futures = {
                pool.submit(fields, todo[key], arch, number, Path(scratch), deadline): key
                for number, key in enumerate(distinct)
            }
            for count, future in enumerate(as_completed(futures), 1):
                case, tool = futures[future]
                row = {"kind": "gate", "tool": tool, **future.result()}
                tool_session.write(session, case, repeats[tool][case], row)
                session.progress.step("check", count, len(futures))
                if session.interrupts.requested:
                    pool.shutdown(cancel_futures=True)
                    break
    return session.rows


def fields(check: Check, arch: str, number: int, scratch: Path, deadline: float) -> dict[str, Any]:
    """Runs one check: status, reason and details of its row. `number` is unique among the checks of a run."""
    if reason := build.available(check.case.backend):
        return {"status": "unsupported", "reason": reason}
    try:
        tool = cuda_tools.find("compute-sanitizer")
        with kernels(check.planted, scratch) as root:
            answer = launch(check, tool, arch, root, scratch / f"{number}", number, deadline)
    except FileNotFoundError as error:  # a tool is missing, and the message says how to get it
        return {"status": "unsupported", "reason": str(error)}
    except OutdatedPatch as error:
        return {"status": "crashed", "reason": str(error), "details": {"planted": check.planted}}
    details = {**answer.pop("details"), "tool_version": cuda_tools.version(tool)}
    if check.planted:
        details["planted"] = check.planted
        if answer["status"] == "wrong":  # the tool did what it is for
            answer = {"status": "passed"}
        elif answer["status"] == "passed":
            answer = {"status": "wrong", "reason": f"{check.tool} found nothing, but {check.planted} is planted"}
    return {**answer, "details": details}


def stores_by_tma(case: Case, arch: str) -> bool:
    """Whether its machine code has a store by TMA. In a process of the case's environment: Triton reads it once."""
    job = (compiling.inspect, (case, arch))
    ((_, answer),) = processes.answers([job], build.environment_of(case) or {})
    return not isinstance(answer, processes.NoAnswer) and bool(answer["code"]["census"]["UTMASTG"])


@contextlib.contextmanager
def kernels(patch: str | None, scratch: Path) -> Iterator[Path]:
    """The folder that holds cuda_kernels/ and harness/: the checkout, or a copy of it with a patch applied. Raises
    OutdatedPatch."""
    if patch is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for package in ("cuda_kernels", "harness"):
            shutil.copytree(ROOT / package, Path(folder) / package, ignore=shutil.ignore_patterns("__pycache__"))
        apply = ["git", "apply", "-p1", str(bugs.find(patch).path)]
        done = subprocess.run(apply, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise OutdatedPatch(f"{patch}.patch does not apply, renew it: {done.stderr.strip()}")
        yield Path(folder)


def launch(
    check: Check, tool: Path, arch: str, root: Path, folder: Path, number: int, deadline: float
) -> dict[str, Any]:
    """One process under the tool, with the packages of `root`; its files are in `folder`."""
    folder.mkdir()
    request, result, report, log = (folder / name for name in ("request", "result", "report.xml", "log"))
    request.write_bytes(pickle.dumps((check.case, arch)))
    program = [sys.executable, "-m", "harness.inspection.single_launch", str(request)]
    command = [
        *(str(tool), "--tool", check.tool, *OPTIONS[check.tool]),
        *("--xml", "--save", str(report), "--error-exitcode", str(FOUND), "--show-backtrace", "device"),
        *("--target-processes", "application-only", "--launch-timeout", "0"),
        *("--port", str(49152 + 10 * (number % 1600))),  # each finds its process on ports of its own
        *(*program, str(result)),
    ]
    variables = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # torch's cache would place tensors side by side
    if check.case.backend != "cuda":
        variables |= build.environment_of(check.case) or {}
    start = time.monotonic()
    if check.case.backend == "cuda":  # compilers are not for the tool to watch
        tool_session.run(program, root, variables, log, deadline)
    exit_code = tool_session.run(command, root, variables, log, deadline)
    said = scrub(log.read_text(errors="replace"))
    if exit_code is None:
        found = findings(report)
        details = {"found": len(found), "findings": found[:KEPT], "deadline_s": deadline, "log": said[-2000:]}
        return {"status": "timeout", "reason": f"{check.tool}: not done within {deadline:g} s", "details": details}
    outcome = json.loads(result.read_text()) if result.is_file() else None
    found = findings(report)
    answer = verdict(found, exit_code, outcome, said)
    ran = outcome is not None and outcome["status"] == "passed"
    if ran and set(found) == {READ_BY_HOST} and not check.planted and stores_by_tma(check.case, arch):
        answer |= {"status": "unsupported", "reason": UNSEEN}
    answer["details"]["seconds"] = round(time.monotonic() - start, 1)
    return answer


def findings(report: Path) -> list[str]:
    """What compute-sanitizer wrote to its XML file, one line for each finding; none where the file is missing or torn,
    of which the exit code tells."""
    try:
        records = ElementTree.parse(report).iter("record")
    except (FileNotFoundError, ElementTree.ParseError):
        return []
    return [_line(record) for record in records if record.findtext("level") != "Info"]


def _line(record: ElementTree.Element) -> str:
    """The tool's words, then the places in the source that it names, the innermost first."""
    words = record.findtext("what/text") or " ".join(text.strip() for text in record.itertext() if text.strip())
    places = [f"{element.findtext('path')}:{element.findtext('line')}" for element in record.iter()]
    named = dict.fromkeys(Path(place).name for place in places if not place.startswith("None"))
    thread = [record.findtext(f"who/threadIdx/{axis}") for axis in "xyz"]
    who = f" by thread ({', '.join(map(str, thread))})" if thread[0] else ""
    return scrub(f"{' '.join(words.split())[:WORDS]}{who}{' at ' if named else ''}{', '.join(named)}")


def verdict(found: list[str], exit_code: int, outcome: dict[str, str] | None, log: str) -> dict[str, Any]:
    """Status, reason and details. `outcome` is what the process said of its launch, None when it said nothing. Nothing
    found is not enough to pass: the launch must have worked, and the tool must say that it counted none."""
    details: dict[str, Any] = {"found": len(found), "findings": found[:KEPT]}
    if found or exit_code == FOUND:
        if not found:
            details["log"] = log[-2000:]
        return {"status": "wrong", "reason": found[0] if found else _last_line(log), "details": details}
    if outcome and outcome["status"] == "passed" and exit_code == 0 and "SUMMARY: 0 " in log:
        return {"status": "passed", "details": details}
    details["log"] = log[-2000:]
    if outcome and outcome["status"] != "passed":
        return {**outcome, "details": details}
    reason = f"compute-sanitizer ended with exit code {exit_code} and no summary: {_last_line(log)}"
    return {"status": "crashed", "reason": reason, "details": details}


def _last_line(log: str) -> str:
    lines = [line.strip("= \t") for line in log.splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")
