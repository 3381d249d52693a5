"""The command line, end to end: exit codes, output for programs and people, files. Not for `make test-fast`."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._completion_classes import BashComplete
from typer.testing import CliRunner

from harness import cli, operators
from harness.build import Case
from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import of_experiment
from harness.catalog.entries import NamedExperiment
from harness.cli import options, output
from harness.inspection import survey
from harness.machine import environment
from harness.machine.terminal import Plain
from harness.measure import effort, session
from harness.measure.fleet import Work
from harness.operators.attention.inputs import DISTRIBUTIONS
from harness.operators.attention.operator import OPERATOR
from harness.operators.attention.problem import Problem
from harness.rows import results, summary, tables
from harness.setup import bootstrap
from harness.setup.script import PAGES, recorded
from tests.conftest import CHECKOUT
from tests.support import ledger_rows
from tests.support import replicated_rows as replicated
from tests.support.checkout import copied, executable
from tests.support.commands import invoke
from tests.support.here import Here
from tests.support.row_file import write

pytestmark = pytest.mark.slow

NAMES = [technique.name for technique in techniques.TECHNIQUES]
PROBLEM = options.load_experiment("attention/ladder").problems[0]
GATE = {"kind": "gate", "technique": "scalar", "backend": "cuda", "problem": PROBLEM.to_dict()}
TILE = {"block_m": 64, "block_n": 64, "stages": 1, "warps": 4}
Ran = list[tuple[NamedExperiment, dict[str, Any]]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ran:
    """What commands asked the runner for where there is a GPU: an experiment, and how."""
    asked: Ran = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("harness.measure.runner.run", lambda experiment, **rest: asked.append((experiment, rest)) or [])
    monkeypatch.setattr(output, "RUNS", tmp_path / "runs")
    return asked


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """An argument stands in the usage once and in capitals; an option lists its values."""
    code, said = invoke(name, "--help")
    assert (code, said) == invoke(name, "-h") == (0, said)
    assert (cli.COMMANDS[name].__doc__ or "").split("\n")[0] in said
    usage = re.search(r"Usage: .*? \[OPTIONS\](.*)", said)
    assert re.fullmatch(r"( (\[[A-Z|]+\]|\{[A-Z]+\}|[A-Z]+)(\.\.\.)?)*", usage[1].rstrip()), usage[0]
    said = " ".join(said.split())
    if name in ("check", "inspect", "bench", "tune", "sanitize"):
        assert ("[TECHNIQUE|FILE]..." if name in ("check", "bench") else "[TECHNIQUE]...") in said
        assert "Of cuda, triton, triton_native, gluon; repeat for several" in said
    assert name != "bench" or all(peer in said for peer in operators.peers())
    assert name != "run" or all(series in said for series in techniques.SERIES)


def test_every_command_and_option_in_the_readme_exists() -> None:
    text = (CHECKOUT / "README.md").read_text()
    named = set(re.findall(r"twinkernels ([a-z]+)", text))
    assert named <= set(cli.COMMANDS)
    assert len(named) > 5
    options = set(re.findall(r"twinkernels ([a-z]+)[^`\n|#]*? (--[a-z]+)", text))
    assert {("inspect", "--on"), ("new", "--from"), ("run", "--gpus")} <= options
    for name, option in sorted(options):
        assert option in invoke(name, "--help")[1], (name, option)


def test_list_names_every_technique_and_experiment() -> None:
    code, output = invoke("list", "--json")
    answer = json.loads(output)
    assert code == 0
    assert [row["name"] for row in answer["techniques"]] == [technique.name for technique in techniques.rungs()]
    ablations = {row["name"]: row["cuda"] for row in answer["ablations"]}
    assert ablations["without_turns"] == "cuda_kernels/attention/ablations/without_turns.patch"
    assert all((CHECKOUT / path).is_file() for path in ablations.values())
    assert answer["experiments"]["attention/ladder"] == "What does each step buy, in each language?"
    said = invoke("list")[1]
    assert all(name in said for name in NAMES)


def test_a_build_says_what_it_left_out_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    declined = [
        {"status": "unsupported", "reason": f"full attention only; got tile 64x64, problem {n}"} for n in range(2)
    ]
    monkeypatch.setattr("harness.cli.inspecting.inspected", lambda cells: [{"status": "passed"}, *declined])
    code, output = invoke("build", "attention/scalar", "--backend", "cuda")
    assert (code, output.splitlines()) == (0, ["1 of 3 compiled", "2 declined: full attention only"])


def test_a_build_of_an_experiment_has_its_ablations(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the experiment runs, which half of the time are no rungs."""
    asked: list[str | None] = []

    def note(cells: Sequence[tuple[Case, str]]) -> list[dict]:
        asked.extend(case.technique for case, _ in cells)
        return [{"status": "passed"}]

    monkeypatch.setattr("harness.cli.inspecting.inspected", note)
    options = ("--experiment", "what_triton_misses", "--gpu", "h200", "--arch", "sm_90a")
    assert invoke("build", *options)[0] == 0
    assert {"flagship", "without_turns", "triton_vocabulary"} <= set(asked)
    assert None not in asked
    asked.clear()
    assert invoke("build", "without_turns", *options)[0] == 0
    assert set(asked) == {"without_turns"}
    asked.clear()
    gpu = {**environment.describe(), "gpu": {"name": "NVIDIA H200"}}
    monkeypatch.setattr("harness.machine.environment.describe", lambda: gpu)
    assert invoke("build", *options[:2])[0] == 0, "at the tiles of the GPU that is here"
    assert {"flagship", "without_turns", "triton_vocabulary"} <= set(asked)


def test_a_cluster_is_asked_for_gpus_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    asked = []
    monkeypatch.setattr("harness.cli.spreading.spread", lambda work, *rest: asked.append(work) or [])
    assert invoke("run", "attention/ladder", "--cluster", "auto")[0] == 0
    assert [list(work.arguments) for work in asked] == [["-m", "harness", "run", "attention/ladder"]]
    assert invoke("run", "attention/ladder", "--gpus", "all")[1].startswith("this command needs a GPU")


def test_ncu_counts_at_the_tile_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Case] = []
    monkeypatch.setattr("harness.cli.inspecting.require_gpu", lambda _: None)
    monkeypatch.setattr("harness.inspection.hardware_counters.run", lambda cases, path: asked.extend(cases) or [{}])
    names = ("attention/flagship", "without_turns")
    slug = "b4-h16-n4096-d128-bf16-full"
    backends = ("--backend", "cuda", "--backend", "gluon", "--backend", "tlx@3.8.0")
    invoke("inspect", *names, "--ncu", *backends, "--tile", "128x128-s2-w8", "--problem", slug)
    languages = [("flagship", "cuda"), ("flagship", "gluon"), ("flagship", "tlx@3.8.0"), ("without_turns", "cuda")]
    assert [(case.technique, case.backend) for case in asked] == languages
    assert {(case.tile.slug, case.problem.slug) for case in asked} == {("128x128-s2-w8", slug)}


@pytest.mark.parametrize(
    "arguments", [("check", "--on", "cpu"), ("inspect", "--arch", "sm_80"), ("inspect", "--on", "cpu")]
)
def test_a_head_dim_that_a_technique_has_not_is_declined_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(output, "RUNS", tmp_path)
    code, printed = invoke(*arguments, "attention/xor_swizzle", "--problem", "b1-h2-n128-d256-fp16-full")
    assert code == 3
    assert re.search("nothing was (checked|compiled|counted): every cell was declined", printed)
    assert "declined: head_dim must be 64 or 128 (a rung marked general takes 256); got" in printed
    assert "by xor_swizzle cuda" in printed


def test_inspect_takes_a_tile_and_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tiles = []
    fields = {"status": "unsupported", "reason": "not compiled"}
    monkeypatch.setattr(
        survey, "inspect", lambda cells, _: ((cell, tiles.append(cell[0].tile.slug) or fields) for cell in cells)
    )
    monkeypatch.setattr(output, "RUNS", tmp_path)
    slug = "128x128-s2-w8-fused_switch1"
    said = invoke("inspect", "attention/flagship", "--backend", "cuda", "--arch", "sm_90a", "--tile", slug)[1]
    assert ("compiling 1 kernel;" in said, tiles, list(tmp_path.iterdir())) == (True, [slug], [])


def test_check_runs_what_was_asked_for_and_fails_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def run(experiment, *, on, path, **_):  # type: ignore[no-untyped-def]
        asked.update(experiment=experiment, on=on, path=path)
        return [
            {**GATE, "backend": "triton", "status": "passed"},
            {**GATE, "status": status, "reason": "no CPU runtime"},
        ]

    monkeypatch.setattr("harness.measure.runner.run", run)
    status = "unsupported"
    code, output = invoke("check", "attention/scalar", "--on", "cpu", "--backend", "cuda", "--backend", "triton")
    assert code == 0
    assert output.endswith("declined: no CPU runtime\n  by scalar cuda\n")
    assert asked["on"] == "cpu"
    assert asked["experiment"].techniques == ("attention/scalar",)
    assert asked["experiment"].backends == ("cuda", "triton")
    assert [problem.dtype for problem in asked["experiment"].problems].count("bf16") == 1, "for the CUDA twins"
    status = "wrong"
    assert invoke("check", "attention/scalar", "--on", "cpu")[0] == 1


def test_shards_share_the_problems_and_write_files_of_their_own(ran: Ran) -> None:
    problems = options.load_experiment("attention/ladder").problems
    for shard in ("1/3", "2/3", "3/3"):
        assert invoke("run", "attention/ladder", "--shard", shard)[0] == 0
    (first, one), (_, two), (_, three) = ran
    assert first.problems == (problems[0], problems[3])
    assert sorted(p for experiment, _ in ran for p in experiment.problems) == sorted(problems)
    assert re.fullmatch(r"[\d-]+-ladder-1of3\.jsonl", one["path"].name)
    assert len({one["path"], two["path"], three["path"]}) == 3


def test_two_runs_of_a_second_have_files_of_their_own() -> None:
    one = output.run_file("bench")
    time.sleep(0.002)
    assert output.run_file("bench") > one


def test_the_report_takes_no_run_that_was_asked_in_passing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrote: dict[str, Path] = {}

    def run(experiment, *, path, **_):  # type: ignore[no-untyped-def]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        wrote[experiment.name] = path
        return []

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("harness.measure.runner.run", run)
    monkeypatch.setattr("harness.cli.output.RUNS", tmp_path)
    monkeypatch.setattr("harness.cli.output.ROOT", tmp_path)
    invoke("check", "attention/scalar", "--problem", "b1-h1-n8192-d128-fp16-full")
    invoke("bench", "attention/scalar")
    invoke("run", "attention/ladder")
    assert set(wrote) == {"correctness", "bench", "ladder"}
    assert results.fresh_runs(tmp_path) == [wrote["ladder"]]
    assert wrote["bench"].parent == wrote["correctness"].parent == tmp_path / results.ONE_OFF


def test_a_shard_of_tune_has_all_lengths_of_a_head_dim_and_mask() -> None:
    """What a tile is chosen for is the sum over them: each of two halves would choose for itself."""
    problems = Problem.comparison_grid((512, 1024))
    shards = [options.part(problems, shard, together=lambda problem: problem.cells[-1]) for shard in ("1/2", "2/2")]
    assert sorted(problem for shard in shards for problem in shard) == sorted(problems)
    cells = [{problem.cells[-1] for problem in shard} for shard in shards]
    assert [len(shard) for shard in shards] == [6, 6]
    assert not cells[0] & cells[1]


def test_one_assembler_for_both_languages_has_rows_of_its_own_name(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    inherited = []
    monkeypatch.setattr("harness.build.compiling.shared_assembler", lambda: {"TRITON_PTXAS_PATH": "/nvcc/ptxas"})
    monkeypatch.setattr(
        "harness.cli.measuring.announce", lambda *_, **__: inherited.append(os.environ["TRITON_PTXAS_PATH"])
    )
    assert invoke("run", "attention/ladder", "--ptxas", "shared")[0] == 0
    assert inherited == ["/nvcc/ptxas"], "by workers"
    assert os.environ.get("TRITON_PTXAS_PATH") != "/nvcc/ptxas"  # what runs later in this process does not
    ((experiment, rest),) = ran
    assert (experiment.name, experiment.assembler) == ("ladder", "shared")
    assert rest["path"].name.endswith("-ladder-shared.jsonl")


def test_correctness_on_a_cpu_is_what_it_names_for_a_cpu(ran: Ran) -> None:
    code, output = invoke("run", "gemm/correctness", "--on", "cpu")
    assert (code, "Is every product right" in output) == (0, True)
    ran.clear()
    assert invoke("run", "attention/correctness", "--on", "cpu")[0] == 0
    ((experiment, _),) = ran
    assert experiment.problems == options.load_experiment("attention/correctness", "cpu").problems
    assert max(problem.flops for problem in experiment.problems) < 1e8


def test_bench_takes_every_distribution(ran: Ran) -> None:
    assert invoke("bench", "attention/scalar", "--peer", "sdpa_math")[0] == 0
    ((experiment, _),) = ran
    assert (experiment.distributions, experiment.peers) == (tuple(DISTRIBUTIONS), ("sdpa_math",))


def test_compare_passes_the_verdict_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("base.jsonl", "new.jsonl"):
        (tmp_path / name).touch()
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("harness.rows.compare.main", lambda base, new, records, **options: asked.append(options) or 1)
    assert invoke("compare", str(tmp_path / "base.jsonl"), str(tmp_path / "new.jsonl"))[0] == 1
    options = ("--technique", "attention/scalar", "--json")
    assert invoke("compare", *options, str(tmp_path / "base.jsonl"), str(tmp_path))[0] == 1
    assert (asked[0]["techniques"], asked[0]["as_json"]) == ((), False)
    assert (asked[1]["techniques"], asked[1]["as_json"]) == (("attention/scalar",), True)
    assert invoke("compare", "--technique", "scalr", str(tmp_path), str(tmp_path))[0] == 2
    assert invoke("compare", str(tmp_path / "base.jsonl"), str(tmp_path / "no.jsonl"))[0] == 2


def test_history_of_one_cell_is_csv_and_of_several_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "h200" / "attention" / "ladder"
    rows = replicated.of_process(replicated.rows(problems=1), "board0", 0)
    write(folder / "run.jsonl.xz", rows)
    (folder / summary.NAME).write_text(summary.summary(rows))
    shutil.copytree(folder, tmp_path / "h100" / "gemm" / "ladder")
    monkeypatch.setattr("harness.cli.comparing.RECORDED", tmp_path)
    code, output = invoke("history", "cuda", "attention/xor_swizzle", "--csv", "--experiment", "attention/ladder")
    assert code == 0
    assert "of ladder on h200 has these words; `--gpu h100` has some" in invoke("history", "gemm/xor_swizzle")[1]
    assert output.splitlines()[0] == "time,commit,board,source,ms,tflops,anchor_ms,ratio"
    assert len(output.splitlines()) == 2
    monkeypatch.setattr("harness.cli.output.console.width", 160)
    table = invoke("history", "cuda", "xor_swizzle")[1]
    assert re.search(r"│ 0123456 +│", table), "some rows have seven digits of a commit, some twelve"
    assert "time / anchor's" in table
    assert "█" not in table
    code, output = invoke("history", "cuda", "--csv")
    assert code == 2
    assert re.search(r"expected one cell of these \d+: cuda ", " ".join(output.split()))
    monkeypatch.setattr("harness.cli.comparing.FEW", 1)
    assert "; ..." in invoke("history", "cuda", "--csv")[1]


@pytest.mark.parametrize(("status", "exit_code"), [("passed", 0), ("not_converged", 0), ("crashed", 1)])
def test_report_fails_when_a_kernel_did_and_builds_the_site_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, exit_code: int
) -> None:
    gate = {**GATE, "status": status, "reason": "because"}
    sites: list[Path] = []
    built: list[int] = []

    def inspected(cells):  # type: ignore[no-untyped-def]
        built.append(len(sites))
        return [survey.row(cell, {"status": "unsupported", "reason": "no compiler"}) for cell in cells]

    monkeypatch.setattr("harness.cli.reporting.inspected", inspected)
    monkeypatch.setattr("harness.cli.reporting.chosen", lambda names: ("attention/scalar",))
    monkeypatch.setattr("harness.cli.reporting.RUNS", tmp_path)
    monkeypatch.setattr("harness.cli.reporting.SITE", tmp_path / "site")
    monkeypatch.setattr("harness.cli.reporting.run_file", lambda name: tmp_path / f"{name}.jsonl")
    monkeypatch.setattr("harness.operators.attention.structured_heads.update", lambda: None)
    monkeypatch.setattr("harness.measure.runner.run", lambda experiment, **rest: [gate])

    def build(site: Path, **_: object) -> Path:
        site.mkdir(exist_ok=True)
        sites.append(site)
        return site / "index.html"

    monkeypatch.setattr("reports.build.build", build)
    code, output = invoke("report")
    assert code == exit_code
    assert (f"{status}: scalar cuda" in output) == (status != "passed")
    assert output.endswith("site/index.html\n")
    assert (built, len(sites)) == ([1], 2), "the site stands before anything is compiled, and is completed afterwards"


def test_a_second_report_does_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def inspected(cells):  # type: ignore[no-untyped-def]
        done.extend(f"{case.technique} {case.backend}" for case, _ in cells)
        return [survey.row(cell, {"status": "unsupported", "reason": "no compiler"}) for cell in cells]

    def gate(self, case):  # type: ignore[no-untyped-def]
        done.append(f"gate of {case.technique} {case.backend}")
        numerics = {name: {"max_abs": 0.0, "yardstick": 0.0, "floor": 0.1} for name in self.gate_options.distributions}
        passed = {"status": "passed", "gate": OPERATOR.comparison, "numerics": numerics}
        return {**passed, "mma": None, "details": {"launch_ms": 1.0, "padded": self.gate_options.padded}}

    def build(site: Path, only: Sequence[str] = (), **_: object) -> Path:
        for page in only or ("index.html",):
            (site / page).parent.mkdir(parents=True, exist_ok=True)
            (site / page).write_text("a page")
        done.append(f"{only}" if only else "pages")
        return site / "index.html"

    runs = tmp_path / "runs"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("harness.cli.output.RUNS", runs)
    monkeypatch.setattr("harness.cli.reporting.RUNS", runs)
    monkeypatch.setattr("harness.cli.reporting.SITE", tmp_path / "site")
    monkeypatch.setattr("harness.cli.reporting.inspected", inspected)
    monkeypatch.setattr("harness.operators.attention.structured_heads.update", lambda: done.append("heads"))
    monkeypatch.setattr("harness.measure.runner.Run.gate", gate)
    monkeypatch.setattr("reports.build.build", build)
    first = "['technique/scalar.html']"
    code, output = invoke("report", "attention/scalar")
    assert code == 0
    assert {"scalar cuda", "scalar triton", "gate of scalar cuda", "gate of scalar triton", "heads"} < set(done)
    assert done.index("scalar cuda") < done.index(first) < done.index("gate of scalar cuda") < done.index("pages")
    assert str(tmp_path / "site" / "technique" / "scalar.html") in output
    files = sorted(runs.iterdir())
    done.clear()
    code, output = invoke("report", "attention/scalar")
    assert (code, done) == (0, [first, "heads", "pages"])
    assert sorted(runs.iterdir()) == files, "a report with nothing to do leaves no run behind"
    assert re.search(r"scalar +triton +[1-9]", output), "what was done before is shown too"
    done.clear()

    sha256 = sources.source_sha256
    monkeypatch.setattr(sources, "source_sha256", lambda *name: "1" * 64 if name[0] == "cuda" else sha256(*name))
    assert invoke("report", "attention/scalar")[0] == 0
    assert {"scalar cuda", "gate of scalar cuda", "pages"} < set(done)
    assert not {"scalar triton", "gate of scalar triton"} & set(done)


def test_ctrl_c_exits_with_130_at_once(tmp_path: Path) -> None:
    problems = options.load_experiment("attention/ladder").problems[:4]
    chosen = [word for problem in problems for word in ("--problem", problem.slug)]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "inspect", "attention/scalar", "--backend", "cuda", *chosen],
        cwd=CHECKOUT,
        env={**os.environ, "TWINKERNELS_CACHE": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(tmp_path.glob("cuda/*/cuda.cu")):  # nvcc is at work on the first of a dozen
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    assert len(list(tmp_path.glob("cuda/*/built.json"))) <= 4


def test_one_ctrl_c_ends_a_check_within_seconds(tmp_path: Path) -> None:
    """2 s, and 8 more that a busy machine may take: the case at work would go on for minutes."""
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n\n"
        "def attend(q, k, v, *, causal, scale):\n"
        "    pathlib.Path(__file__).with_name('at-work').touch()\n"
        "    time.sleep(600)\n"
    )
    command = ["check", f"{tmp_path}/slow.py:attend", "--on", "cpu", "--problem", "b1-h1-n64-d64-fp16-full"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *command],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while not (tmp_path / "at-work").exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output = process.communicate(timeout=10)[0]
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "interrupted: stopped during the gate" in output
    assert "Traceback" not in output


def test_ctrl_c_before_the_command_begins_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    with harness("list", PYTHONPATH=str(tmp_path)) as process:
        assert process.communicate()[1] == ""
        assert process.returncode == -signal.SIGINT


def test_an_import_that_catches_everything_does_not_catch_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
    )
    program = "import signal; from harness import cli; signal.signal(signal.SIGINT, cli._interrupt); import greedy"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment)
    assert done.returncode == 130


def test_inspection_covers_both_twins_and_says_why_a_cell_has_no_code() -> None:
    cells = survey.cells(["attention/scalar"], techniques.TWINS, [PROBLEM])
    series = {(case.backend, arch) for case, arch in cells}
    assert ("triton_native", "sm_90a") in series
    assert ("triton_native", "sm_80") not in series, "the same program as triton"
    assert {arch for _, arch in cells} == set(OPERATOR.ladders[0].archs)


def test_a_declined_cell_says_why() -> None:
    cell = Case("inspect", "attention/scalar", "cuda", PROBLEM, techniques.Tile(48, 48)), "sm_90a"
    ((_, fields),) = survey.inspect([cell])
    row = survey.row(cell, fields)
    assert (row["status"], "multiples of the tile" in row["reason"]) == ("unsupported", True)


@pytest.mark.parametrize("file", experiments.files().values(), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_an_experiment_opens_with_its_question(file: Path) -> None:
    source = file.read_text()
    assert source.startswith('"""')
    assert source.partition("\n")[0].endswith("?")
    assert 'if __name__ == "__main__":' in source
    assert "import _script" not in source or (file.parent / "_script.py").is_file()


BARE = (sys.executable, "-S")
"""A Python without any package, as a system's is."""


def script(
    name: str, *options: str, python: tuple[str, ...] = BARE, cwd: Path | None = None, checkout: Path = CHECKOUT
) -> subprocess.CompletedProcess[str]:
    """Runs a file of experiments/ on a machine without a GPU, from another folder."""
    hidden = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin", "PYTHONPATH": ""}
    command = [*python, str(checkout / "experiments" / "attention" / f"{name}.py"), *options]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **hidden}, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(bootstrap.has_gpu(), reason="with a GPU it measures")
@pytest.mark.parametrize("name", ["ladder", "random_problems", "hopper_roofs"])
def test_an_experiment_without_a_gpu_tells_what_is_recorded(name: str, tmp_path: Path) -> None:
    """Whatever Python runs it, with nothing installed: its question, the table with GPU and day, the report's page."""
    done = script(name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    source = (CHECKOUT / "experiments" / "attention" / f"{name}.py").read_text()
    assert done.stdout.startswith(source[3:].partition("\n")[0])
    assert re.search(r"^Recorded on H200, \d{4}-\d\d-\d\d$", done.stdout, re.MULTILINE)
    page = re.search(r"^With what was measured beside it: reports/site/(\S+\.html)", done.stdout, re.MULTILINE)
    assert page, done.stdout
    assert page[1] == PAGES.get(name, "data.html")


def test_every_recorded_experiment_has_its_table() -> None:
    for file in experiments.files().values():
        name = f"{file.parent.name}/{file.stem}"
        files = list((CHECKOUT / "reports/recorded").glob(f"*/{name}/summary.csv"))
        lines = recorded(name)
        assert sum(line.startswith("Recorded on ") for line in lines) == len(files), name


@pytest.mark.skipif(bootstrap.has_gpu(), reason="with a GPU it measures")
def test_the_recorded_table_has_the_recorded_numbers() -> None:
    lines = script("ladder").stdout.partition("Recorded on H200")[2].splitlines()
    begin = next(i for i, line in enumerate(lines) if "b4-h16-n4096-d128-bf16-full" in line)
    assert lines[begin].split()[1:3] == ["cuda", "triton"]
    told = next(line for line in lines[begin:] if line.split()[:1] == ["xor_swizzle"]).split()
    with (CHECKOUT / "reports/recorded/h200/attention/ladder/summary.csv").open() as rows:
        speeds = [
            float(row["tflops"])
            for row in csv.DictReader(rows)
            if row["cell"].startswith("cuda xor_swizzle b4-h16-n4096-d128-bf16-full ")
        ]
    assert float(told[1]) == max(speeds)
    names = [line.split()[0] for line in lines[begin + 1 :] if line.startswith("  ")]
    assert [name for name in NAMES if name in names] == [name for name in dict.fromkeys(names) if name in NAMES]


def test_the_recorded_table_has_each_operators_order_and_names_what_has_no_time() -> None:
    rungs = [technique.name for technique in operators.get("gemm").techniques]
    *lines, later, _ = recorded("gemm/ladder", rungs)
    for table in "\n".join(lines).split("\n\n"):
        names = [name for line in table.splitlines() if (name := line.split()[0]) in rungs]
        assert names == sorted(names, key=rungs.index)
    untimed = {name for name in rungs if not any(line.startswith(f"  {name} ") for line in lines)}
    assert set(re.findall(r"\w+", later)) & set(rungs) == untimed


def test_help_of_a_script_is_its_own() -> None:
    mine, bare = script("ladder", "--help", python=(sys.executable,)), script("ladder", "-h")
    for done in (mine, bare):
        assert done.returncode == 0, done.stderr
        assert "Usage: python experiments/attention/ladder.py [OPTIONS]" in done.stdout
        assert (CHECKOUT / "experiments/attention/ladder.py").read_text()[3:].partition("?")[0][:40] in done.stdout
    assert "--backend" in mine.stdout


def test_help_of_a_script_does_not_trust_a_set_up_that_runs_or_was_interrupted(tmp_path: Path) -> None:
    """Its Python is there and has no packages yet."""
    checkout = copied(tmp_path, "pyproject.toml", *bootstrap.LOCKS)
    venv = tmp_path / ".venv" / "bin"
    venv.mkdir(parents=True)
    executable(venv / "python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    done = script("ladder", "--help", checkout=checkout)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: python experiments/attention/ladder.py [OPTIONS]" in done.stdout
    assert "once `make report` has set up, this lists them" in done.stdout


def test_an_experiment_is_a_script_too() -> None:
    done = script("ladder", "--replicates", "2", python=(sys.executable,))
    assert (done.returncode, "this command needs a GPU" in done.stderr) == (2, True)


def test_a_terminal_obeys_no_control_character_of_a_row() -> None:
    evil = "wrong\x1b[2J\x1b]0;title\x07 \x9b31m \u202egnp my.py:x: [red]\r"
    row = {**GATE, "backend": "cuda\x1b[1m", "status": "unsupported", "reason": evil}
    terminal = Plain(force_terminal=True, color_system="truecolor", width=200, file=io.StringIO())
    terminal.print(tables.gates([row, row | {"status": "wrong"}]))
    for text in tables.failures([row | {"status": "wrong"}]):
        terminal.print(text, style="red", highlight=False)
    said = terminal.file.getvalue()
    assert not re.sub(r"\x1b\[[0-9;]*m", "", said.replace("cuda\x1b[1m", "OBEYED")).count("\x1b")
    assert not set(said) & set("\x07\x9b\u202e\r")
    assert "OBEYED" not in said
    assert "wrong\\x1b[2J\\x1b]0;title" in said
    assert said.count("\\x9b31m \\u202egnp my.py:x: [red]") == 2, "neither an emoji nor a colour"


def harness(*words: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=CHECKOUT, env=os.environ | variables, text=True, **pipes)


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/none"])
def test_a_cache_that_takes_no_file_is_no_fault_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """It was told as each kernel's import error."""
    (tmp_path / "file").touch()
    path = tmp_path / name
    monkeypatch.setattr(cli, "CACHE", path)
    monkeypatch.setenv("TWINKERNELS_CACHE", str(path))
    with pytest.raises(SystemExit) as end:
        cli.main(["list"])
    said = capsys.readouterr().err
    assert (end.value.code, f"TWINKERNELS_CACHE: got '{path}', where nothing can be written" in said) == (2, True)


def test_a_terminal_of_no_width_gets_its_table() -> None:
    assert "xor_swizzle" in harness("list", COLUMNS="0").communicate()[0]


def test_who_has_read_enough_is_told_nothing() -> None:
    with harness("--version") as process:
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("reason", [None, "head_dim must be 64"])
def test_a_check_that_checked_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> None:
    row = {**GATE, "status": "unsupported", "reason": reason}
    monkeypatch.setattr("harness.measure.runner.run", lambda *_, **__: [row] if reason else [])
    for as_json in ((), ("--json",)):
        code, said = invoke("check", "attention/scalar", "--on", "cpu", *as_json)
        assert code == 3
        assert "nothing was checked: " + ("every cell was declined" if reason else "no cell was chosen") in said


def test_a_check_of_what_its_file_of_rows_holds_ends_as_those_rows_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was told that no cell was chosen."""
    monkeypatch.setattr("harness.measure.runner.run", lambda *_, **__: [])
    slug, file = "b1-h1-n64-d64-fp16-full", tmp_path / "r.jsonl"
    row = {"kind": "gate", "on": "cpu", "technique": "scalar", "problem": Problem.parse(slug).to_dict()}
    row |= {"tile": techniques.reference_tile(techniques.get("attention/scalar"), 64).to_dict(), "status": "passed"}
    path = techniques.get("attention/scalar").path
    hashes = {language: sources.source_sha256(language, path) for language in ("cuda", "triton")}
    rows = [row | {"backend": language, "source_sha256": sha256} for language, sha256 in hashes.items()]
    arguments = ("check", "attention/scalar", "--on", "cpu", "--problem", slug, "--rows", str(file))
    for last, expected in (({}, 0), ({"status": "wrong", "reason": "two"}, 1)):
        earlier = rows[0] | {"source_sha256": "0" * 64, "status": "wrong", "reason": "of another source"}
        file.write_text("".join(json.dumps(one) + "\n" for one in (earlier, rows[0], rows[1] | last)))
        code, said = invoke(*arguments)
        assert (code, f"all 2 cells are in {file} already" in said) == (expected, True), said
    file.write_text("")
    assert "no cell was chosen" in invoke(*arguments)[1]


def test_a_failure_names_the_file_of_what_kernels_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(*_: object, path: Path, **__: object) -> list[dict]:
        path.parent.mkdir(parents=True)
        path.with_suffix(".log").write_text("shape is 3")
        return [timed("wrong")[1] | {"reason": "because"}]

    monkeypatch.setattr("harness.measure.runner.run", run)
    monkeypatch.setattr(output, "RUNS", tmp_path / "runs")
    code, said = invoke("check", "attention/scalar", "--on", "cpu")
    (log,) = tmp_path.rglob("*.log")
    assert (code, f"{log} has what kernels printed" in said) == (1, True), said


def test_files_are_told_from_the_folder_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that what is told can be copied, in the checkout and beside a kernel of one's own."""
    path = output.RUNS / "one-off" / "x-bench.jsonl"

    def told() -> str:
        with pytest.raises(typer.Exit):
            output.conclude([timed("passed")[1]], lambda _: "", path=path, one_off=path)
        return capsys.readouterr().out

    monkeypatch.chdir(CHECKOUT)
    here = told()
    assert "`twinkernels record reports/runs/one-off/x-bench.jsonl` keeps it" in here
    assert "reports/runs/one-off/x-bench.jsonl has the rows: `twinkernels compare`" in here
    monkeypatch.chdir(tmp_path)
    elsewhere = told()
    assert f"`twinkernels record {path}` keeps it" in elsewhere
    assert f"{path} has the rows" in elsewhere


@pytest.mark.parametrize(
    ("fields", "gpu", "expected"),
    [
        ({}, {"name": "NVIDIA H200"}, True),
        ({"status": "interrupted"}, {"name": "NVIDIA H200"}, False),
        ({"status": "crashed"}, None, False),
        ({"on": "cpu"}, None, False),
        ({"on": "cpu", "kind": "code"}, None, True),
    ],
)
def test_record_is_named_where_it_takes_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict, gpu: dict | None, expected: bool
) -> None:
    """Not for the rows of a cluster where no GPU worked."""
    environment = {"kind": "environment", "id": "x", "details": {"gpu": gpu}}
    rows = [environment, {**timed()[1], "environment": "x", "reason": "because", **fields}]
    with pytest.raises(typer.Exit):
        output.conclude(rows, lambda _: "", path=tmp_path / "x.jsonl")
    assert ("`twinkernels record " in capsys.readouterr().out) == expected


def test_bench_names_the_file_of_its_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two of them are what `compare` takes."""
    monkeypatch.setattr("harness.measure.runner.run", lambda *_, **__: [timed("passed")[1]])
    monkeypatch.setattr("harness.cli.measuring.require_gpu", lambda _: None)
    monkeypatch.setattr(output, "RUNS", tmp_path / "runs")
    code, said = invoke("bench", "attention/scalar")
    assert code == 0, said
    assert re.search(rf"{tmp_path}/runs/one-off/[-0-9]+bench.jsonl has the rows", said), said
    json.loads(invoke("bench", "attention/scalar", "--json")[1])


def test_what_fails_alike_is_told_once_and_each_cell_by_its_whole_name() -> None:
    row = {"kind": "gate", "kernel": "x.cu", "backend": "own", "status": "crashed", "reason": "SIGSEGV"}
    slugs = ["b1-h1-n64-d64-fp16-full", "b1-h2-n128-d64-fp16-full"]
    even = [row | {"problem": Problem.parse(slug).to_dict(), "tile": TILE} for slug in slugs]
    (told,) = tables.failures(even)
    assert told == f"crashed: x.cu own\n  SIGSEGV\n  on {slugs[0]} 64x64-s1-w4, {slugs[1]} 64x64-s1-w4"
    diagnosed = [one | {"details": {"diagnosis": ["deadlock: nobody can go on"]}} for one in even]
    heads = [told.splitlines()[0] for told in tables.failures(diagnosed)]
    assert heads == [f"crashed: x.cu own  {slug} 64x64-s1-w4" for slug in slugs]
    ragged = even[0] | {"problem": Problem.parse("b1-h1-q65k64-d64-fp16-full").to_dict()}
    (told,) = tables.failures([ragged])
    assert told.splitlines()[0] == "crashed: x.cu own  b1-h1-q65k64-d64-fp16-full 64x64-s1-w4"
    assert "its launch returns 801 (cudaErrorNotSupported)" in told.splitlines()[-1]
    unbuilt = ragged | {"status": "compile_error", "reason": "x.cu own b1-h1-q65k64-d64-fp16-full 64x64-s1-w4: no"}
    assert tables.failures([unbuilt])[0].splitlines()[1:] == ["  no"], "the case stands above"
    assert "801" not in tables.failures([{**ragged, "kernel": None, "technique": "scalar"}])[0]


def test_machine_code_is_headed_by_names_of_list_and_ends_in_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    code = {"registers": 40, "spill_bytes": 0, "smem_bytes": 0, "census": {"FFMA": 3, "instructions": 9, "LDS.8": 2}}
    row = {"technique": "scalar", "status": "passed", "arch": "sm_90a", "code": code}
    row["problem"] = Problem.parse("b1-h1-n64-d64-fp16-full").to_dict()
    for backend, said in (("triton_native", tables.NATIVE), ("cuda", "instructions 9")):
        (table,) = tables.code([row | {"backend": backend}])
        output.console.print(table)
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]
        assert lines[0].startswith("attention/scalar ")
        assert " ".join(lines).endswith(said)


@pytest.mark.parametrize(
    ("kernel", "status", "reason", "said"),
    [
        ("x.py:f", "launch_error", "TypeError: f() takes 1 positional argument", "expected attend(q, k, v, *, causal"),
        ("x.py:f", "launch_error", "TypeError: f() takes 1 positional argument", "`--problem` names another operator"),
        ("x.py:f", "import_error", "ModuleNotFoundError: No module named 'm'", "install it for "),
        ("x.cu", "compile_error", "x.cu:9: 'GEMM_OUT_FP32' was not declared", "`--operator gemm` builds it for that"),
        ("x.cu", "compile_error", "x.cu:9: static assertion failed", "`--tile` names another"),
    ],
)
def test_a_kernel_that_cannot_be_called_is_told_how_it_is(kernel: str, status: str, reason: str, said: str) -> None:
    problem = Problem.parse("b1-h1-n64-d64-fp16-full").to_dict()
    row = {"kind": "gate", "backend": "own", "problem": problem, "status": status, "reason": reason}
    assert said in tables.failures([row | {"kernel": kernel}])[0]
    assert said not in tables.failures([row | {"technique": "scalar", "backend": "cuda"}])[0]


def test_a_function_that_lacks_a_parameter_is_told_which_it_may_have() -> None:
    row = {"kind": "gate", "operator": "gemm", "kernel": "x.py:f", "backend": "own", "status": "unsupported"}
    row |= {"problem": operators.get("gemm").benchmark.to_dict(), "reason": "x.py:f: it has no parameter `dtype`"}
    said = [str(text) for text in tables.declined([row, row])]
    assert said == [f"declined: {row['reason']}\n  by x.py:f own", f"expected {operators.get('gemm').calling}"]


def test_an_operator_whose_name_begins_with_another_ones_is_not_taken_for_it() -> None:
    problem = operators.get("attention_backward").benchmark.to_dict()
    of = {"kind": "gate", "operator": "attention_backward", "problem": problem}
    row = of | {"backend": "own", "status": "compile_error", "kernel": "x.cu"}
    (own,) = tables.failures([row | {"reason": "x.cu:9: 'ATTENTION_BACKWARD_ROWS' was not declared"}])
    assert "`--operator" not in own
    (other,) = tables.failures([row | {"reason": "x.cu:9: 'ATTENTION_ROWS' was not declared"}])
    assert "`--operator attention` builds it" in other


def test_the_scorecard_names_the_boards_on_which_the_goal_of_the_gap_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("harness.rows.reading.checkout_hashes", ledger_rows.hashes)
    monkeypatch.setattr("harness.cli.comparing.RUNS", tmp_path)
    monkeypatch.setattr("harness.cli.comparing.RECORDED", tmp_path)
    problems = (ledger_rows.PROBLEM, ledger_rows.CAUSAL)
    write(
        tmp_path / "h200" / "attention" / "rows" / "run.jsonl.xz",
        ledger_rows.rows(problems, beyond={"without_own_diagonal": 0.1}),
    )
    monkeypatch.setattr(output.console, "width", 160)  # else it is of whatever imported the command line first
    _, said = invoke("scorecard")
    assert re.search(r"^incomplete: .+\n  (.*, )?flagship_over_fastest\w* on ", said, re.MULTILINE), "below the table"
    shares = said.partition("problem by problem; the goal is 0.9:")[2]
    assert ledger_rows.CAUSAL.slug in shares, said
    full, causal = shares.split(ledger_rows.CAUSAL.slug)
    assert ledger_rows.PROBLEM.slug in full
    assert "missed" not in full
    assert re.match(r"\s+0\.\d\d\d missed", causal)
    assert all(re.search(rf"{board} 0\.\d\d\d missed", causal) for board in ("board0", "board1", "board2"))


def test_the_version_is_told() -> None:
    assert invoke("-h") == invoke("--help")
    version = re.search(r'^version = "(.+)"', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)
    assert invoke("--version") == (0, version[1] + "\n")


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        ((), "che", {"check"}),
        (("check",), "attention/xor", {"attention/xor_swizzle"}),
        (("bench", "--peer"), "sdpa", {"sdpa_cudnn", "sdpa_flash", "sdpa_math"}),
        (("check", "--backend"), "g", {"gluon"}),
        (("run",), "attention/c", {"attention/correctness"}),
    ],
)
def test_a_shell_completes_names(words: tuple[str, ...], begun: str, offered: set[str]) -> None:
    """What bash asks the command for, once `twinkernels --install-completion` told it to."""
    command = typer.main.get_command(cli.app)
    completion = BashComplete(command, {}, "twinkernels", "_TWINKERNELS_COMPLETE")
    assert {item.value for item in completion.get_completions(list(words), begun)} == offered


@pytest.mark.parametrize("columns", [60, 80])
def test_no_name_is_cut_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(output.console, "width", columns)
    said = invoke("list")[1]
    assert "…" not in said
    assert all(re.search(rf"\b{name}\b", said) for name in (*NAMES, *options.experiments()))
    row = {**GATE, "kind": "timing", "technique": NAMES[-1], "backend": "triton_native"}
    row |= {"tile": {**TILE, "block_m": 128, "block_n": 128}, "samples_ms": [1.0], "status": "passed"}
    for show in (tables.timings, tables.gates):
        with output.console.capture() as capture:
            output.console.print(show([row]))
        said = capture.get()
        assert "…" not in said
        letters = re.sub(r"\s", "", said)
        assert all(letter in letters for letter in NAMES[-1])


def timed(status: str = "passed") -> list[dict]:
    gate = {**GATE, "on": "gpu", "status": status, "tile": TILE}
    time = {**gate, "kind": "timing", "mode": "burst", "samples_ms": [2.0, 4.0, 3.0], "reason": 'a "b", c'}
    return [{"kind": "environment", "id": "x"}, gate, time]


@pytest.mark.parametrize("command", [("bench", "attention/scalar"), ("run", "attention/ladder")])
def test_times_for_a_program_to_read(monkeypatch: pytest.MonkeyPatch, ran: Ran, command: tuple[str, str]) -> None:
    monkeypatch.setattr("harness.measure.runner.run", lambda experiment, **rest: timed())
    done = CliRunner().invoke(cli.app, (*command, "--json"))
    assert (done.exit_code, json.loads(done.stdout)) == (0, timed())


def test_check_of_a_file_ends_with_what_its_kernel_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ladder = "h200/attention/ladder"  # of what is recorded
    (tmp_path / ladder).parent.mkdir(parents=True)
    (tmp_path / ladder).symlink_to(CHECKOUT / "reports" / "recorded" / ladder)
    monkeypatch.setattr("harness.cli.own_page.RECORDED", tmp_path)
    monkeypatch.setattr(session, "Worker", Here)
    monkeypatch.setattr("harness.cli.output.RUNS", tmp_path)
    file, problem = CHECKOUT / "tests/support/own_kernels.py", ("--problem", "b1-h2-n128-d64-fp16-full")
    rows = ("--rows", str(tmp_path / "held.jsonl"), "--report")
    asked = ("check", f"{file}:output_alone", "--on", "cpu", *problem, *rows)
    code, said = invoke(*asked)
    assert code == 0
    assert "no LSE (not returned, so not checked): own_kernels.py:output_alone own" in said
    page = tmp_path / "held.html"
    assert "own_kernels.py:output_alone beside the ladder" in page.read_text()
    page.unlink()
    again = CliRunner().invoke(cli.app, (*asked, "--json"))  # there is nothing to do, and the page is the same
    assert [row["kernel"] for row in json.loads(again.stdout)] == ["own_kernels.py:output_alone"]
    assert "own_kernels.py:output_alone beside the ladder" in page.read_text()
    code, said = invoke("check", f"{file}:wrong", "--on", "cpu", *problem)
    assert (code, "wrong: own_kernels.py:wrong own" in said) == (1, True)
    assert invoke("check", f"{file}:attnd", "--on", "cpu")[0] == 2


@pytest.mark.xdist_group("recorded")
def test_bench_of_a_file_is_beside_the_best_or_what_is_named(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    gpu = {"name": "NVIDIA H200", "capability": [9, 0], "sm_count": 132}
    monkeypatch.setattr("harness.machine.environment.describe", lambda: {"gpu": gpu})
    file = str(CHECKOUT / "tests/support/own_kernels.py") + ":attend"
    for arguments in ((), ("attention/xor_swizzle", "--backend", "cuda", "--peer", "fa3")):
        assert invoke("bench", file, *arguments)[0] == 0
    best, named = ([case.technique or case.backend for case in rest["selected"]] for _, rest in ran)
    assert (best[:2], best[-1], len(best)) == (["sdpa_cudnn", "sdpa_flash"], "own", 6)
    assert {techniques.of_qualified(name).ladder for name in best[2:5]} == {"hopper"}
    assert named == ["fa3", "xor_swizzle", "own"]


def test_on_all_gpus_the_ordinary_command_runs_for_each_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("harness.cli.output.RUNS", CHECKOUT / "reports" / tmp_path.name)
    monkeypatch.setattr("harness.machine.environment.describe", lambda: {"gpu": None})
    monkeypatch.setattr("harness.cli.spreading.spread", lambda work, *rest: asked.append((work, rest)) or [])
    monkeypatch.setattr("harness.measure.tune.select", lambda path, problems: "table.toml")
    lengths = [word for length in (4096, 8192) for word in ("--problem", f"b4-h16-n{length}-d128-bf16-full")]
    for arguments, words, kind in (
        (("run", "attention/ladder", "--replicates", "3"), ("run", "attention/ladder"), "gate"),
        (("run", "attention/ladder", "--ptxas", "shared"), ("run", "attention/ladder", "--ptxas", "shared"), "gate"),
        (("tune", "attention/scalar", *lengths), ("tune", "attention/scalar", *lengths), "tune"),
    ):
        code, said = invoke(*arguments, "--gpus", "2")
        assert code == 0, said
        work, (_, gpus, cluster) = asked.pop()
        assert (work.arguments, work.kind) == (("-m", "harness", *words), kind)
        assert ((work.fields or {}).get("assembler") == "shared") is ("--ptxas" in words)
        assert (gpus, cluster) == ("2", None)
        assert {case.problem for case in work.cases} <= set(work.problems)
        assert "leave one of them out" in " ".join(invoke(*arguments, "--gpus", "2", "--shard", "1/1")[1].split())
        file = tmp_path / "begun.jsonl"
        code, said = invoke(*arguments, "--gpus", "2", "--rows", str(file))
        assert code == 0, said
        assert "no table is written" not in said
        work, (path, *_) = asked.pop()
        assert (work.arguments, path) == (("-m", "harness", *words), file)
    code, said = invoke("run", "attention/correctness", "--on", "cpu", "--cluster", "auto")
    assert (code, "--on cpu: got it with --cluster, but" in " ".join(said.split())) == (2, True)


@pytest.mark.parametrize("command", ["run attention/ladder", "tune attention/scalar"])
def test_each_gpu_gets_one_problem_and_may_decline_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """What is handed out is the command that a shard of one problem is: no exit code 2, which is bad usage."""
    asked: list[Work] = []
    done: list[set[Problem]] = []

    def rows(cases: Iterable[Case]) -> list[dict]:
        done.append({case.problem for case in cases})
        return [{"kind": "environment", "id": "x"}]

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("harness.cli.output.RUNS", tmp_path)
    monkeypatch.setattr("harness.machine.environment.describe", lambda: {"gpu": None})
    monkeypatch.setattr("harness.cli.spreading.spread", lambda work, *rest: asked.append(work) or [])
    monkeypatch.setattr("harness.measure.tune.select", lambda path, problems: "table.toml")
    monkeypatch.setattr(
        "harness.measure.runner.run", lambda experiment, selected=None, **_: rows(selected or of_experiment(experiment))
    )
    monkeypatch.setattr("harness.measure.tune.tune", lambda names, twins, problems, *_, **__: done.append({*problems}))
    same_cell = [f"b4-h16-n{length}-d128-bf16-full" for length in (4096, 8192, 4096)]
    chosen = [word for slug in same_cell for word in ("--problem", slug)] if command[0] == "t" else []
    invoke(*command.split(), *chosen, "--gpus", "2")
    (work,) = asked
    assert not chosen or len(work.problems) == 2
    for number, problem in enumerate(work.problems, 1):
        arguments = (*work.arguments[2:], "--shard", f"{number}/{len(work.problems)}")
        code, said = invoke(*arguments, "--rows", str(tmp_path / "rows.jsonl"))
        assert code == 0, said
        assert done.pop() <= {problem}
        assert done == []


def test_a_run_continues_the_file_that_it_is_given(monkeypatch: pytest.MonkeyPatch, ran: Ran, tmp_path: Path) -> None:
    asked: list = []
    monkeypatch.setattr("harness.measure.tune.tune", lambda *_, **rest: asked.append(rest))
    file = tmp_path / "rows.jsonl"
    code, said = invoke("run", "attention/ladder", "--shard", "1/3", "--rows", str(file))
    assert code == 0, said
    assert (ran[0][1]["path"], ran[0][1]["resume"]) == (file, True)
    code, said = invoke("tune", "attention/scalar", "--rows", str(file))
    assert (code, asked) == (0, [{"resume": True}])
    assert "no table is written" in said


def test_bench_takes_a_tile_and_several_problems(ran: Ran) -> None:
    slugs = ("b1-h2-n512-d64-fp16-full", "b1-h2-n512-d128-bf16-causal")
    problems = [word for slug in slugs for word in ("--problem", slug)]
    assert invoke("bench", "attention/xor_swizzle", *problems, "--peer", "sdpa_flash", "--tile", "128x64-s1-w8")[0] == 0
    asked = ran[0][1]["selected"]
    assert {case.problem.slug for case in asked} == set(slugs)
    assert {case.tile.slug for case in asked if case.tile} == {"128x64-s1-w8"}
    assert {case.tile for case in asked if case.backend == "sdpa_flash"} == {None}


def test_inspect_on_a_gpu_compiles_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    archs = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("harness.build.gpu_arch", lambda: "sm_80")
    monkeypatch.setattr(
        "harness.cli.inspecting.inspected", lambda cells, ptxas: archs.extend(a for _, a in cells) or []
    )
    invoke("inspect", "attention/scalar", "--on", "gpu")
    assert set(archs) == {"sm_80"}
    assert "--arch: got it with --on gpu" in invoke("inspect", "attention/scalar", "--on", "gpu", "--arch", "sm_90a")[1]


def test_no_problem_of_a_check_on_a_cpu_is_long() -> None:
    small = options.load_experiment("attention/correctness", "cpu")
    assert max(map(effort.launch_seconds, of_experiment(small))) < 2
    for slug in ("b4-h16-n4096-d128-bf16-causal", "b1-h8k8-q16k65536-d64-fp16-full", "b2-h6k2-q300k200-d64-fp16-full"):
        problem = Problem.parse(slug)
        assert Case("x", "scalar", "cuda", problem.smaller, None).problem.flops < 1e9
        assert problem.smaller.smaller == problem.smaller
