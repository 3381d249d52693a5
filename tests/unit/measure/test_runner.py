"""Every way in which a kernel can fail becomes a row of its own status, and the run goes on."""

import errno
import io
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.build import Case
from harness.catalog import techniques, tiles
from harness.catalog.cases import of_experiment
from harness.catalog.entries import NamedExperiment, Technique, Tile
from harness.machine import environment
from harness.measure import groups, process, runner, sharing, worker
from harness.measure.worker import Deadlines, GateOptions, Worker
from harness.operators.attention.problem import Problem
from harness.rows import results, tables
from harness.rows.frame import table
from harness.rows.reading import is_final
from tests.support import fake_kernels
from tests.support.here import work_here

pytestmark = pytest.mark.slow

PROBLEM = Problem(1, 2, 1, 64, 64, 64, "fp16", True)
TILE = Tile(16, 16)
DEADLINES = Deadlines(start=60, load=2, launch=2, check=60)
"""Of faults that hang: `run` lets them pass when a fake says that it does."""
PATIENT = Deadlines(3600, 3600, 3600, 3600)
QUICK = {"min_samples": 5, "max_seconds": 60.0, "target": 10.0, "limit": 10.0}
GATE = {
    "right": ("passed", None),
    "zeros": ("wrong", "max_error"),
    "stale": ("wrong", "stale_output"),
    "clobbers_input": ("wrong", "inputs_changed"),
    "writes_past_end": ("wrong", "guard_band"),
    "not_repeatable": ("wrong", "not_repeatable"),
    "import_fails": ("import_error", None),
    "load_hangs": ("timeout", None),
    "sleeps": ("timeout", None),
    "segfaults": ("crashed", None),
    "exhausts_memory": ("out_of_memory", None),
    "does_not_compile": ("compile_error", None),
    "declines": ("unsupported", None),
    "launch_refused": ("launch_error", None),
    "races": ("data_race", "race"),
    "illegal_access": ("cuda_error", None),
    "other_instruction": ("wrong_instruction", "instruction_class"),
    "needs_variable": ("passed", None),
    "right_again": ("passed", None),
    "right_last": ("passed", None),
}
IN_A_PROCESS = ("load_hangs", "sleeps", "segfaults", "needs_variable", "zeros")
TIMED = {
    "timed_segfaults": "crashed",
    "timed_zeros": "wrong",
    "timed_sleeps": "timeout",
    "timed_illegal_access": "cuda_error",
    "right": "passed",
    "right_too": "passed",
}


ON_DEVICE = {"asserts_on_device": "cuda_error", "hangs_on_device": "timeout", "right": "passed"}
TIMED_ON_DEVICE = {
    "timed_asserts_on_device": "cuda_error",
    "timed_hangs_on_device": "timeout",
    "right": "passed",
    "right_too": "passed",
}


@pytest.fixture(scope="module", autouse=True)
def fakes() -> Iterator[None]:
    """As techniques of the registry."""
    names = dict.fromkeys([*GATE, *TIMED, *ON_DEVICE, *TIMED_ON_DEVICE, "waits", "paced"])
    fake = tuple(Technique(name, "a fake", mma="fma", tile={64: TILE}) for name in names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # threads that wait for each other on a busy machine make times random
        patch.setattr(techniques, "TECHNIQUES", (*techniques.TECHNIQUES, *fake))
        yield


def experiment(*names: str, **fields: object) -> NamedExperiment:
    defaults = {"backends": ("cuda",), "peers": (), "distributions": ("normal",)}
    return NamedExperiment(name="fakes", problems=(PROBLEM,), techniques=names, **{**defaults, **fields})


def run(path: Path, what: NamedExperiment, *, processes: bool = False, **options: object) -> list[dict]:
    """`processes`: kernels run in processes of their own, as ever; those that may end them need that."""
    defaults = {
        "on": "cpu",
        "loader": "tests.support.fake_kernels",
        "deadlines": DEADLINES,
        "gate": {"repeats": 4},
        "timing": QUICK,
    }

    class Patient(Connection):
        """A deadline passes when a fake has said that it hangs, and not before: a busy machine takes any time."""

        def __init__(self, handle: int) -> None:
            super().__init__(handle)
            self.log, self.begin = path.with_suffix(".log"), path.with_suffix(".log").stat().st_size

        def poll(self, timeout: float | None = 0.0) -> bool:
            while not super().poll(0.05):
                if re.search(rb"still compiling|asleep", self.log.read_bytes()[self.begin :]):
                    return False
            return True

    with pytest.MonkeyPatch.context() as patch:
        if not processes:
            work_here(patch)
        if defaults["deadlines"] is options.get("deadlines", DEADLINES):
            patch.setattr(worker, "Connection", Patient)
        return runner.run(what, path=path, **{**defaults, **options})


@pytest.fixture(scope="module")
def gate_run(fakes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The faults that end a process, or need one of their own, then the others."""
    path = tmp_path_factory.mktemp("gate") / "gate.jsonl"
    rows = run(path, experiment(*IN_A_PROCESS), processes=True)
    rows += run(path, experiment(*(name for name in GATE if name not in IN_A_PROCESS)), resume=True)
    assert rows == results.read(path)
    return path


@pytest.fixture(scope="module")
def gated(gate_run: Path) -> dict[str, dict]:
    return {row["technique"]: row for row in results.read(gate_run) if row["kind"] == "gate"}


@pytest.mark.parametrize("name", GATE)
def test_each_fault_has_its_own_status(gated: dict[str, dict], name: str) -> None:
    row = gated[name]
    assert (row["status"], row.get("check")) == GATE[name]
    assert row["status"] == "passed" or row["reason"]
    assert (row["problem"], row["tile"], row["on"]) == (PROBLEM.to_dict(), TILE.to_dict(), "cpu")


def test_every_status_that_a_row_may_have_is_met_here() -> None:
    elsewhere = {"implausible", "not_converged", "interrupted"}  # of the timer and of the user: tests of their own
    assert {status for status, _ in GATE.values()} | elsewhere == set(results.STATUSES)


def test_rows_tell_what_happened(gated: dict[str, dict]) -> None:
    assert gated["segfaults"]["reason"].endswith("SIGSEGV")
    assert "test" not in gated["segfaults"]["details"]["log"].split("Fatal")[0]
    details = gated["load_hangs"]["details"]
    assert (details["stage"], details["deadline_s"]) == ("load", 2)
    stack = r'still compiling\nCurrent thread .*:\n  File "./tests/support/fake_kernels.py", line \d+ in load'
    assert re.match(stack, details["log"])
    assert gated["sleeps"]["details"]["stage"] == "launch"
    assert "a_module_that_does_not_exist" in gated["import_fails"]["reason"]
    assert "kernel.cu(12): error" in gated["does_not_compile"]["reason"]
    assert gated["declines"]["reason"] == "head_dim must be prime"  # the status says what its class would
    assert "/some/where" not in str(gated["does_not_compile"])
    assert gated["right"]["numerics"]["normal"]["max_abs"] < 0.01
    assert gated["right"]["details"]["launch_ms"] > 0


def test_a_re_exported_program_is_measured_once(gated: dict[str, dict]) -> None:
    copy, original = gated["right_again"], gated["right"]
    assert copy["details"] == {**original["details"], "same_program": "right"}
    assert copy["numerics"] == original["numerics"]
    assert copy["source_sha256"] != original["source_sha256"]


@pytest.fixture(scope="module")
def timed(fakes: None, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    path = tmp_path_factory.mktemp("time") / "time.jsonl"
    return run(path, experiment("zeros", *TIMED, peers=("sdpa_flash",)), modes=("burst",), processes=True)


def test_what_fails_at_the_gate_is_not_timed(timed: list[dict]) -> None:
    rows = [(row["kind"], row["status"]) for row in timed if row.get("technique") == "zeros"]
    assert rows == [("gate", "wrong")]


def test_a_failure_while_timing_costs_only_the_guilty(timed: list[dict]) -> None:
    rows = {row.get("technique"): row for row in timed if row["kind"] == "timing"}
    assert {name: row["status"] for name, row in rows.items() if name} == TIMED
    assert rows["timed_zeros"]["check"] == "max_error"
    assert rows["timed_zeros"]["reason"].startswith("last timed output")
    assert rows["timed_sleeps"]["details"]["stage"] == "launch"
    assert len(rows["right"]["samples_ms"]) >= 5


def first_rows(rows: list[dict]) -> dict[str | None, dict]:
    """Timing rows of the ordinary group, by technique."""
    timings = [row for row in rows if row["kind"] == "timing" and not row.get("details", {}).get("final")]
    return {row.get("technique"): row for row in timings}


def test_the_fastest_are_timed_once_more_together(timed: list[dict]) -> None:
    ordinary = first_rows(timed)
    final = [row for row in timed if row.get("details", {}).get("final")]
    fastest = min(("right", "right_too"), key=lambda name: statistics.median(ordinary[name]["samples_ms"]))
    assert [(row.get("technique"), row["status"]) for row in final] == [(None, "passed"), (fastest, "passed")]
    assert len({row["group"] for row in final}) == 1
    assert final[0]["group"] != ordinary["right"]["group"]
    assert final[1]["samples_ms"] != ordinary[fastest]["samples_ms"]
    assert timed[-1] == final[-1]
    assert tables.timings(timed).row_count == len(ordinary), "once in the table"


@pytest.mark.parametrize(("chosen", "order"), [(True, "quick slow quicker"), (False, "quicker quick slow")])
def test_of_those_that_were_final_before_the_fastest_is_taken_again(chosen: bool, order: str) -> None:
    times = {"slow": (True, 3.0), "quicker": (False, 1.0), "quick": (True, 2.0)}
    rows = {name: {"details": {"final": final}, "samples_ms": [ms]} for name, (final, ms) in times.items()}
    assert sorted(rows, key=lambda name: runner.rank(rows[name], chosen=chosen)) == order.split()


def test_a_resumed_run_times_a_missing_final_group_and_no_other(timed: list[dict], tmp_path: Path) -> None:
    path, what = tmp_path / "run.jsonl", experiment(*TIMED, peers=("sdpa_flash",))
    with results.Writer(path) as writer:
        for row in timed:
            if not row.get("details", {}).get("final"):
                writer.write(row)
    again = run(path, what, modes=("burst",), resume=True)
    assert [row["details"].get("final") for row in again if row["kind"] == "timing"] == [True, True]
    assert [row["kind"] for row in run(path, what, modes=("burst",), resume=True)] == ["environment"]


def test_replicates_are_timed_in_processes_of_their_own(tmp_path: Path) -> None:
    """The fastest of each series and the peers, in three processes, without a final group where one group has all of
    them; a resumed run times only what is missing."""
    path, what = tmp_path / "run.jsonl", experiment("right", peers=("sdpa_flash",))
    rows = run(path, what, modes=("burst",), replicates=3)
    origins = [row["id"] for row in rows if row["kind"] == "environment"]
    assert len(set(origins)) == 3
    assert [row["details"].get("process") for row in rows if row["kind"] == "environment"] == [None, 2, 3]
    timings = [row for row in rows if row["kind"] == "timing"]
    assert [(row.get("technique"), row["details"].get("replicate")) for row in timings] == [
        *[(None, None), ("right", None)],
        *[(None, 2), ("right", 2)],
        *[(None, 3), ("right", 3)],
    ]
    assert [row["environment"] for row in timings] == [origin for origin in origins for _ in range(2)]
    assert len({row["group"] for row in timings}) == 3
    assert len({str(row["samples_ms"]) for row in timings}) == 6
    timed = table("timing", rows)
    assert timed[timed.technique.notna()].program.nunique() == 1
    with results.Writer(tmp_path / "two.jsonl") as writer:
        for row in rows:
            if (row["id"] if row["kind"] == "environment" else row["environment"]) != origins[2]:
                writer.write(row)
    again = run(tmp_path / "two.jsonl", what, modes=("burst",), replicates=3, resume=True)
    assert [row["details"]["replicate"] for row in again if row["kind"] == "timing"] == [3, 3]
    assert not [row for row in run(path, what, modes=("burst",), replicates=3, resume=True) if row["kind"] == "timing"]


def test_an_experiment_of_sustained_mode_alone_has_replicates_too(tmp_path: Path) -> None:
    what = experiment("right", peers=("sdpa_flash",), modes=("sustained",))
    quick = {**QUICK, "preload_seconds": 0.1}
    rows = run(tmp_path / "run.jsonl", what, modes=what.modes, replicates=2, timing=quick)
    timings = [(row.get("technique"), row["mode"], row["details"].get("replicate")) for row in rows if "mode" in row]
    assert timings == [(name, "sustained", replicate) for replicate in (None, 2) for name in (None, "right")]
    both = run(tmp_path / "both.jsonl", what, modes=("sustained", "burst"), replicates=2, timing=quick)
    assert {row["mode"] for row in both if row.get("details", {}).get("replicate")} == {"burst"}
    timings = [row for row in both if "mode" in row and not row["details"].get("replicate")]
    names = [(row["mode"], row.get("technique"), row["status"]) for row in timings]
    assert names == [(mode, name, "passed") for mode in ("sustained", "burst") for name in (None, "right")]
    assert len({row["group"] for row in timings}) == 2, "each mode has groups of its own"


def test_what_another_process_loads_is_compiled_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further process would build its kernels one by one."""
    what, path = experiment("right", "right_too", peers=("sdpa_flash",), one_group=True), tmp_path / "run.jsonl"
    run(path, what, modes=("burst",))
    compiled: list[set[str | None]] = []
    monkeypatch.setattr(runner.Run, "compile", lambda _, cases: compiled.append({case.technique for case in cases}))
    run(path, what, modes=("burst",), resume=True, replicates=2)
    assert compiled == [set(), {None, "right", "right_too"}]


def test_what_passed_is_not_compiled_for_an_experiment_of_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = run(tmp_path / "one.jsonl", experiment("right"), modes=())
    compiled: list[set[str | None]] = []
    monkeypatch.setattr(runner.Run, "compile", lambda _, cases: compiled.append({case.technique for case in cases}))
    run(tmp_path / "two.jsonl", experiment("right", "right_too"), modes=(), reusable=standing)
    assert compiled[0] == {"right_too"}


def test_a_kernel_is_compiled_once_in_a_run() -> None:
    asked: list[list[str]] = []
    loader = SimpleNamespace(prebuild=lambda cases, *_, **__: asked.append([case.technique for case in cases]))
    progress = SimpleNamespace(step=lambda *_: None)
    session = SimpleNamespace(loader=loader, on="gpu", deadlines=DEADLINES, progress=progress)
    this = runner.Run(session, [], (), None, {})
    right, right_too = of_experiment(experiment("right", "right_too"))
    for cases in ([right], [right, right_too], [right_too], []):
        this.compile(cases)
    assert asked == [["right"], ["right_too"]]


def test_an_experiment_of_one_group_times_all_of_it_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "SPREAD", 1.0)  # though no two take equally long
    what = experiment("right", "right_too", peers=("sdpa_flash",), one_group=True)
    rows = run(tmp_path / "run.jsonl", what, modes=("burst",), replicates=2)
    timings = [row for row in rows if row["kind"] == "timing"]
    members = {None, "right", "right_too"}
    for group, replicate in zip(dict.fromkeys(row["group"] for row in timings), (None, 2), strict=True):
        here = [row for row in timings if row["group"] == group]
        assert {row.get("technique") for row in here} == members
        assert {row["details"].get("replicate") for row in here} == {replicate}


def by_cupti(patch: pytest.MonkeyPatch, crashes: int = 0) -> list[list[str]]:
    """What CUPTI is asked for; the first kernel of so many questions crashes."""
    ask, asked = Worker.call, list[list[str]]()

    def call(self: Worker, method: str, *arguments: Any) -> Any:
        if method != "cupti":
            return ask(self, method, *arguments)
        asked.append([*arguments[0]])
        if len(asked) <= crashes:
            raise worker.Failed({"status": "crashed", "reason": "signal 11"}, asked[-1][0], "launch")
        return {label: {"status": "passed", "details": {"difference": 0.001}} for label in asked[-1]}

    patch.setattr(Worker, "call", call)
    return asked


def test_the_second_process_is_timed_by_cupti_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding is a row; a kernel that dies under the profiler is one too, and costs the others nothing."""
    asked = by_cupti(monkeypatch, crashes=1)
    what = experiment("right", peers=("sdpa_flash",))
    rows = run(tmp_path / "run.jsonl", what, modes=("burst",), replicates=3, cupti=True)
    found = [row for row in rows if row.get("purpose") == "cupti"]
    assert [(row["backend"], row["status"]) for row in found] == [("sdpa_flash", "crashed"), ("cuda", "passed")]
    assert [len(labels) for labels in asked] == [2, 1]
    assert {row["details"]["replicate"] for row in found} == {2}
    assert len({row["group"] for row in rows if row["kind"] == "timing"}) == 4


def test_cupti_times_what_it_has_not_seen_though_other_processes_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two processes timed, and CUPTI in neither, is timed by CUPTI alone, once."""
    asked = by_cupti(monkeypatch)
    what, path = experiment("right", peers=("sdpa_flash",)), tmp_path / "run.jsonl"
    run(path, what, modes=("burst",), replicates=2)
    assert asked == []
    rows = run(path, what, modes=("burst",), resume=True, replicates=2, cupti=True)
    assert [len(labels) for labels in asked] == [2]
    assert [row["kind"] for row in rows if row.get("details", {}).get("replicate")] == ["timing"] * 2
    run(path, what, modes=("burst",), resume=True, replicates=2, cupti=True)
    assert len(asked) == 1


def test_a_kernel_that_fails_in_a_replicate_costs_only_its_row(tmp_path: Path) -> None:
    rows = run(tmp_path / "run.jsonl", experiment("right", "timed_zeros"), modes=("burst",), replicates=2)
    replicate = [row for row in rows if (row.get("details") or {}).get("replicate")]
    assert [(row["technique"], row["status"]) for row in replicate] == [("right", "passed")]


def test_a_group_has_an_anchor_and_an_a_a_pair(timed: list[dict]) -> None:
    rows = {name: row for name, row in first_rows(timed).items() if row.get("samples_ms")}
    anchor = rows[None]
    assert (anchor["backend"], anchor["mode"]) == ("sdpa_flash", "burst")
    assert "no sdpa_cudnn" in anchor["details"]["anchor"]
    assert {row["group"] for row in rows.values()} == {anchor["group"]}
    label = f"sdpa_flash {PROBLEM.slug}"
    assert rows["right"]["order"][0] == label
    assert rows["right"]["order"][-1] == f"{label} again"
    again = rows["right"]["details"]["again"]
    assert again["of"] == label
    assert (again["limit"], again["flagged"]) == (QUICK["limit"], False)


@pytest.mark.parametrize(("slower", "status"), [(1.5, "passed"), (0.96, "passed"), (0.94, "implausible")])
def test_a_time_that_no_gpu_can_reach_is_implausible(slower: float, status: str) -> None:
    peaks = {"tensor_tflops": 1000.0, "fp32_tflops": 50.0, "bytes_per_s": 5e12}
    session = SimpleNamespace(loader=None, on="gpu", peaks=peaks)
    timed = runner.Run(session, [], ("burst",), worker.GateOptions(), {})
    case = Case("fakes", "right", "cuda", Problem.square(4, 16, 4096, 128), TILE)
    timed.gated[case] = {"mma": "mma_sync"}
    sample = case.problem.flops / 1e12 * slower
    answer = {name: {"samples_ms": [sample], "status": "passed", "launch_hidden": True} for name in ("a", "a again")}
    ((_, fields),) = timed.timing_fields({"a": case}, answer, runner._again(answer, 0.005, None))
    assert (fields["status"], fields.get("check")) == (status, "roofline" if status == "implausible" else None)


@pytest.mark.parametrize(("attempts", "status"), [(1, "passed"), (2, "not_converged")])
def test_a_group_whose_pair_differs_is_timed_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attempts: int, status: str
) -> None:
    targets = []
    call = Worker.call

    def parted(self: Worker, method: str, *arguments: Any) -> Any:
        answer = call(self, method, *arguments)
        if method == "time":
            targets.append(arguments[2]["target"])
            if len(targets) <= attempts:
                for label in (label for label in answer if label.endswith(" again")):
                    answer[label]["samples_ms"] = [sample / 30 for sample in answer[label]["samples_ms"]]
        return answer

    monkeypatch.setattr(Worker, "call", parted)
    rows = run(tmp_path / "run.jsonl", experiment("right", peers=("sdpa_flash",)), modes=("burst",))
    timings = [row for row in rows if row["kind"] == "timing"]
    assert targets == [QUICK["target"], QUICK["limit"] / 4]
    assert [(row.get("technique"), row["status"]) for row in timings] == [(None, status), ("right", status)]
    again = timings[0]["details"]["again"]
    assert (again["flagged"], again["before"] > 10) == (attempts == 2, True)
    if status != "passed":
        assert "two series of sdpa_flash" in timings[1]["reason"]


def test_pairs_of_idle_mode_may_differ_by_more(tmp_path: Path) -> None:
    rows = run(tmp_path / "run.jsonl", experiment("right"), modes=("idle",), timing={"min_samples": 2})
    timed = next(row for row in rows if row["kind"] == "timing")
    assert timed["details"]["again"]["limit"] >= runner.IDLE["limit"] > runner.AGAIN_LIMIT
    assert timed["call_us"]["launcher"] > 0


def test_resume_skips_what_is_final_and_repeats_what_was_interrupted(gate_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(gate_run.read_bytes())
    what = experiment("right", "does_not_compile", "right_again")
    with results.Writer(path) as writer:
        right = next(row for row in results.read(path) if row.get("technique") == "right")
        writer.write({**right, "kind": "timing", "mode": "burst", "status": "interrupted", "reason": "Ctrl-C"})
    rows = run(path, what, modes=("burst",), resume=True)
    assert [(row["kind"], row.get("technique"), row.get("status")) for row in rows[1:]] == [
        ("timing", "right", "passed"),
        ("timing", "right_again", "passed"),
    ]
    assert [row["kind"] for row in run(path, what, modes=("burst",), resume=True)] == ["environment"]


def test_a_resumed_run_gates_again_what_saw_fewer_distributions(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run(path, experiment("right", "declines"), modes=())
    more = experiment("right", "declines", distributions=("normal", "outliers"))
    gate = run(path, more, modes=(), resume=True)[1]
    assert (gate["technique"], gate["status"], set(gate["numerics"])) == ("right", "passed", {"normal", "outliers"})
    assert [row["kind"] for row in run(path, more, modes=(), resume=True)] == ["environment"]


def test_declined_cases_are_rows_too(tmp_path: Path) -> None:
    ragged = replace(PROBLEM, seq_q=63)
    what = replace(experiment("cp_async_pipeline", peers=("fa3",)), problems=(ragged,))
    rows = run(tmp_path / "run.jsonl", replace(what, tiles=("best",)))
    reasons = [(row["backend"], row["status"], row["reason"]) for row in rows if row["kind"] == "gate"]
    assert reasons[0] == ("fa3", "unsupported", "not installed")
    assert "twinkernels tune" in reasons[1][2]
    rows = run(tmp_path / "both.jsonl", replace(what, tiles=("reference", "best")))
    reasons = [(row["backend"], row["status"], row["reason"]) for row in rows if row["kind"] == "gate"]
    assert len(reasons) == 2
    assert reasons[1][1] == "unsupported"
    assert "multiples of the tile" in reasons[1][2]


def test_a_tile_that_is_best_and_reference_is_one_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tiles, "folder", lambda operator: tmp_path)
    best = {"right": TILE, "right_too": Tile(16, 32)}
    table = [tiles.Selection(name, "cuda", PROBLEM.cells[-1], tile, 2, "a-tune") for name, tile in best.items()]
    tiles.update(tmp_path / "h200.toml", table)
    found = of_experiment(experiment(*best, tiles=("reference", "best")), "h200")
    assert [(case.technique, case.tile) for case in found] == [
        ("right", TILE),
        ("right_too", TILE),
        ("right_too", Tile(16, 32)),
    ]
    chosen = of_experiment(experiment(*best, "zeros", tiles=("chosen",)), "h200")
    assert [(case.technique, case.tile) for case in chosen] == [*best.items(), ("zeros", TILE)]


def test_a_technique_runs_where_the_experiment_says() -> None:
    other = replace(PROBLEM, seq_q=2 * PROBLEM.seq_q)
    what = replace(experiment("right", "zeros"), problems=(PROBLEM, other), where={"zeros": (other,)})
    found = [(case.technique, case.problem) for case in of_experiment(what)]
    assert found == [("right", PROBLEM), ("right", other), ("zeros", other)]
    assert [case.technique for case in of_experiment(replace(what, problems=(PROBLEM,)))] == ["right"], "a share of it"


@pytest.mark.parametrize("ms", [0.011, 0.11, 11.0])
def test_two_timings_of_a_short_kernel_may_be_two_steps_of_the_clock_apart(ms: float) -> None:
    def told(difference: float) -> bool:
        answer = {"a": {"samples_ms": [ms + difference]}, "a again": {"samples_ms": [ms]}}
        return bool(runner._again(answer, 0.005, None)["flagged"])

    assert not told(2 * runner.TICK_MS * 0.999)
    assert told(max(0.005 * ms, 2 * runner.TICK_MS) * 1.01)


def test_the_tuned_tile_stands_for_its_rung_in_the_final_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tiles, "folder", lambda operator: tmp_path)
    described = environment.describe([]) | {"gpu": {"name": "NVIDIA H200", "capability": [9, 0]}}
    monkeypatch.setattr(environment, "describe", lambda: described)
    slower = Tile(16, 40)
    tiles.update(tmp_path / "h200.toml", [tiles.Selection("paced", "cuda", PROBLEM.cells[-1], slower, 2, "a-tune")])
    what = experiment("paced", peers=("sdpa_cudnn",), tiles=("reference", "best"))
    rows = run(tmp_path / "run.jsonl", what, modes=("burst",))
    final = [row for row in rows if row["kind"] == "timing" and row["details"].get("final")]
    assert [row.get("tile") for row in final] == [None, slower.to_dict()]
    assert len([row for row in rows if row["kind"] == "timing"]) == 3 + 2


def interrupted_run(
    path: Path, patch: pytest.MonkeyPatch, kernel: str, *signals: signal.Signals, patient: bool = True
) -> list[dict]:
    """The gate rows of `kernel` and `right`, with signals to this process while `kernel` runs: the run ends as the
    first one says, 10 s after the last one at most."""
    log, go, said = path.with_suffix(".log"), path.with_suffix(".go"), io.StringIO()
    sent: list[float] = []

    def interrupt() -> None:
        while not (log.exists() and "asleep" in log.read_text()):
            time.sleep(0.05)
        for number in signals:
            sent.append(time.monotonic())
            os.kill(os.getpid(), number)
            while patient and "finishing the case in progress" not in said.getvalue():
                time.sleep(0.05)
        go.touch()

    threading.Thread(target=interrupt, daemon=True).start()
    patch.setenv("FAKE_GO", str(go))
    with redirect_stderr(said), pytest.raises(SystemExit) as ended:
        run(path, experiment(kernel, "right"), deadlines=PATIENT, patient=patient, processes=True)
    assert ended.value.code == 128 + signals[0], said.getvalue()
    assert time.monotonic() < sent[-1] + 10
    return [row for row in results.read(path) if row["kind"] == "gate"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_finishes_the_case_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    rows = interrupted_run(tmp_path / "run.jsonl", monkeypatch, "waits", number)
    assert [(row["technique"], row["status"]) for row in rows] == [("waits", "passed")]


@pytest.mark.parametrize(("signals", "patient"), [(1, False), (2, True)])
def test_a_second_ctrl_c_marks_the_case_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int, patient: bool
) -> None:
    """The first one does where a run is not worth the wait: `check` is such a run."""
    sent = [signal.SIGINT] * signals
    rows = interrupted_run(tmp_path / "run.jsonl", monkeypatch, "sleeps", *sent, patient=patient)
    assert [(row["technique"], row["status"]) for row in rows] == [("sleeps", "interrupted")]


class OutOfResources(Exception):
    """As triton.runtime.errors names it: a tile does not fit."""


FULL_DISK = OSError(errno.ENOSPC, "No space left on device", "x.npz")


@pytest.mark.parametrize(
    ("error", "stage", "status"),
    [
        (OutOfResources("out of resource: shared memory, Required: 262144"), "launch", worker.HARMLESS[0]),
        (RuntimeError("PassManager::run failed"), "launch", "compile_error"),
        (RuntimeError("something else"), "launch", "launch_error"),
        *((FULL_DISK, stage, "interrupted") for stage in ("load", "launch", "check")),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.npz"), "check", "crashed"),
    ],
)
def test_an_error_has_the_status_of_its_kind(error: Exception, stage: str, status: str) -> None:
    assert process.status_of(error, stage) == status


def test_a_problem_larger_than_memory_is_no_crash() -> None:
    import torch

    with pytest.raises(RuntimeError) as refusal:
        torch.empty(2**60)
    assert process.status_of(refusal.value, "check") == "out_of_memory"


def test_a_worker_that_cannot_start_is_nobodys_fault(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no_such_loader(.|\n)*doctor"):
        Worker({}, "no_such_loader", "cpu", tmp_path / "log", PATIENT).call("gate")


def test_what_is_at_work_is_told_stage_by_stage_and_a_worker_dies_with_all_that_it_started(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    worker = Worker({}, "tests.support.fake_kernels", "cpu", tmp_path / "log", PATIENT, lambda *now: told.append(now))
    worker.call("gate", Case("x", "right", "cuda", PROBLEM, TILE), "right cuda", GateOptions(repeats=2))
    worker.kill()
    assert list(dict.fromkeys(told)) == [(stage, "right cuda") for stage in ("load", "check", "launch")]
    assert not worker.alive
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


@pytest.mark.gpu
def test_faults_on_the_device_cost_only_the_guilty(tmp_path: Path) -> None:
    what = experiment(*ON_DEVICE, *(name for name in TIMED_ON_DEVICE if name != "right"), peers=("sdpa_flash",))
    deadlines = Deadlines(start=120, load=60, launch=10, check=60)
    rows = run(tmp_path / "run.jsonl", what, on="gpu", modes=("burst",), deadlines=deadlines, processes=True)
    gates = {row["technique"]: row["status"] for row in rows if row["kind"] == "gate" and "technique" in row}
    timings = {row["technique"]: row["status"] for row in rows if row["kind"] == "timing" and "technique" in row}
    assert gates == {**ON_DEVICE, **dict.fromkeys(TIMED_ON_DEVICE, "passed")}
    timed = {name: "passed" if status == "not_converged" else status for name, status in timings.items()}
    assert timed == TIMED_ON_DEVICE  # whether times of kernels this small converge is the machine's noise


@pytest.mark.gpu
def test_a_small_ladder_is_gated_timed_and_inspected(tmp_path: Path) -> None:
    what = replace(
        experiment("mma_ldmatrix", "cp_async_pipeline", peers=("sdpa_cudnn", "sdpa_flash")),
        backends=("cuda", "triton", "triton_native"),
        problems=(Problem.square(1, 16, 1024, 128),),
    )
    path = tmp_path / "run.jsonl"
    rows = runner.run(what, on="gpu", path=path)
    assert {row["status"] for row in rows if row["kind"] == "gate"} == {"passed"}, path.with_suffix(".log").read_text()
    timings = [row for row in rows if row["kind"] == "timing"]
    assert {row["status"] for row in timings} <= {"passed", "not_converged"}
    for row in timings:
        assert row["clocks"] is None or row["clocks"]["sm_mhz"] > 0
        assert all(0.3 < ghz < 3 for ghz in row["clock_ghz"])
    cuda, triton = (
        next(row for row in timings if (row.get("technique"), row["backend"]) == ("mma_ldmatrix", backend))
        for backend in ("cuda", "triton")
    )
    assert cuda["group"] == triton["group"]
    assert (cuda["mma"], triton["mma"]) == ("mma_sync", "mma_sync")


def test_a_run_builds_on_rows_of_other_files(tmp_path: Path) -> None:
    """What they hold is not measured again; a kernel that is new is timed with its group, and the best are chosen
    anew."""

    def after(name: str, *names: str) -> list[dict]:
        what = experiment(*names, peers=("sdpa_flash",))
        return run(tmp_path / f"{name}.jsonl", what, modes=("burst",), reusable=standing)

    standing: list[dict] = []
    standing = after("before", "right")
    assert [row["kind"] for row in after("nothing", "right")] == ["environment"]

    rows = after("twin", "right", "right_again")
    repeated = [row for row in rows if row["kind"] != "environment"]
    assert [(row["kind"], row["technique"]) for row in repeated] == [("gate", "right_again"), ("timing", "right_again")]
    known = {row["id"] for row in rows if row["kind"] == "environment"}
    assert {row["environment"] for row in repeated} <= known, "a repeated row brings its environment"

    rows = after("more", "right", "right_too")
    assert [row.get("technique") for row in rows if row["kind"] == "gate"] == ["right_too"]
    timings = [row for row in rows if row["kind"] == "timing"]
    assert {row.get("technique") for row in timings[:3]} == {None, "right", "right_too"}
    assert [row["details"].get("final", False) for row in timings] == [False, False, False, True, True]
    standing += rows
    assert [row["kind"] for row in after("last", "right", "right_too")] == ["environment"]


def test_a_program_of_an_earlier_gate_is_gated_again_under_all_its_names_and_not_timed(tmp_path: Path) -> None:
    what = experiment("right", "right_again", peers=("sdpa_flash",))
    before = run(tmp_path / "before.jsonl", what, modes=("burst",))
    outdated = [row | {"gate": "0" * 12} if row["kind"] == "gate" and row.get("technique") else row for row in before]
    _, *rows = run(tmp_path / "after.jsonl", what, modes=("burst",), reusable=outdated)
    assert [(row["kind"], row.get("technique")) for row in rows] == [("gate", "right"), ("gate", "right_again")]
    assert {row["gate"] for row in rows} == {row["gate"] for row in before if row["kind"] == "gate"}


def test_a_kernel_that_passed_in_dense_arenas_is_gated_again_in_padded_ones(tmp_path: Path) -> None:
    dense = run(tmp_path / "dense.jsonl", experiment("right"))
    padded = run(tmp_path / "padded.jsonl", replace(experiment("right"), padded=True), reusable=dense)
    assert [row["kind"] for row in padded] == ["environment", "gate"]
    assert "padded" not in dense[1]["details"]
    assert padded[1]["details"]["padded"] is True
    assert [row["kind"] for row in run(tmp_path / "again.jsonl", experiment("right"), reusable=padded)] == [
        "environment"
    ]


def test_what_was_measured_elsewhere_stands_where_it_cannot_run(gate_run: Path, tmp_path: Path) -> None:
    declined = next(row for row in results.read(gate_run) if row.get("technique") == "right")
    environment_row = results.read(gate_run)[0]
    elsewhere = {name: value for name, value in declined.items() if name not in ("technique", "tile", "source_sha256")}
    elsewhere["backend"] = "fa3"
    what = experiment("right", peers=("fa3",))
    rows = run(tmp_path / "without.jsonl", what)
    assert [row["status"] for row in rows if row.get("backend") == "fa3"] == ["unsupported"]
    rows = run(tmp_path / "with.jsonl", what, reusable=[environment_row, elsewhere])
    assert [row for row in rows if row.get("backend") == "fa3"] == []


def test_what_was_timed_elsewhere_stands_where_it_cannot_be_loaded(tmp_path: Path) -> None:
    """A cubin that was not carried to this machine, say. Its group is timed without it, and though it was the fastest,
    the final group takes another."""
    before = run(tmp_path / "before.jsonl", experiment("right", peers=("sdpa_flash",)), modes=("burst",))
    names = {"technique": "declines", "source_sha256": "hash of declines"}
    gate, timing = (row | names for row in before if row.get("technique") == "right")
    timing["samples_ms"] = [1e-3]

    def timed(name: str, *elsewhere: dict) -> list[tuple[str, bool]]:
        what = experiment("declines", "right", "right_too", peers=("sdpa_flash",))
        rows = run(tmp_path / name, what, modes=("burst",), reusable=[*before, *elsewhere])
        timings = [row for row in rows if row["kind"] == "timing" and row.get("technique")]
        assert {row["status"] for row in timings if row["technique"] != "declines"} == {"passed"}
        return sorted(("declines" if row["status"] == "unsupported" else "right", is_final(row)) for row in timings)

    others = [("right", False), ("right", False), ("right", True)]
    assert timed("with.jsonl", gate, timing) == others
    assert timed("gate_alone.jsonl", gate) == [("declines", False), *others], "its row says what lacks"


def test_a_gate_says_how_many_other_processes_used_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is right alone may be wrong on a shared GPU; a gate made alone says nothing about that."""
    asked: list[int] = []

    @contextmanager
    def watched(count: int) -> Iterator[int]:
        asked.append(count)
        yield count

    monkeypatch.setattr(sharing, "busy_processes", watched)

    def passed(found: list[dict]) -> list[dict]:
        return [row for row in found if row.get("status", "passed") == "passed"]

    alone = run(tmp_path / "alone.jsonl", experiment("right", "zeros"), modes=())
    what = experiment("right", "zeros", sharing=2)
    beside = run(tmp_path / "beside.jsonl", what, modes=(), reusable=passed(alone))
    again = run(tmp_path / "again.jsonl", what, modes=(), reusable=passed([*alone, *beside]))
    assert asked == [2, 2]
    for found, count in ((alone, None), (beside, 2)):
        right, wrong = (row for row in found if row["kind"] == "gate")
        assert [row["details"].get("sharing") for row in (right, wrong)] == [count, count]
        assert (right["status"], wrong["status"]) == ("passed", "wrong")
        assert wrong["reason"].endswith("(while 2 other processes used the GPU)") is (count == 2)
    assert [row["technique"] for row in again if row["kind"] == "gate"] == ["zeros"]


def test_a_process_works_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "multiply", fake_kernels.multiply)
    monkeypatch.chdir(tmp_path)
    with sharing.busy_processes(1) as count:
        assert count == 1
        (pid,) = (int(path.name) for path in tmp_path.iterdir())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    monkeypatch.setattr(sharing, "multiply", fake_kernels.multiply_without_a_gpu)
    said = "a process that shares the GPU: RuntimeError: no GPU;"
    with pytest.raises(RuntimeError, match=said), sharing.busy_processes(1):
        pass
