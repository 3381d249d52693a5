"""compute-sanitizer's answers become rows: what it says in XML, by its exit code, and by silence."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import build, operators
from harness.catalog import sources, techniques, tiles
from harness.catalog.cases import declined
from harness.catalog.entries import Tile
from harness.inspection import hardware_counters, sanitizer, tool_session
from harness.inspection.sanitizer import Check
from harness.machine import cuda_tools, processes
from harness.operators.attention.inspected import SANITIZED
from harness.rows import record, results
from harness.setup import doctor
from tests.support.checkout import executable

NAMES = [technique.name for technique in techniques.TECHNIQUES]
SHOWN = list(map(techniques.shown, techniques.TECHNIQUES))
MULTIPROCESSORS = 132
"""Of an H200."""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
OUT_OF_BOUNDS = """<?xml version="1.0" encoding="utf-8"?>
<ComputeSanitizerOutput>
  <record>
    <kind>Precise</kind><level>Error</level>
    <who><threadIdx><x>3</x><y>0</y><z>0</z></threadIdx><blockIdx><x>2</x><y>0</y><z>0</z></blockIdx></who>
    <what><text>Invalid __global__ read of size 16 bytes</text><space>__global__</space><size>16</size></what>
    <where><func>register_softmax(AttentionArgs)</func><path>/a/b/ptx/ld_st.cuh</path><line>21</line></where>
    <deviceStack><frame><func>load_tile</func><path>/a/b/register_softmax.cu</path><line>55</line></frame></deviceStack>
  </record>
  <record><kind>Api</kind><level>Info</level><what><text>not a finding</text></what></record>
</ComputeSanitizerOutput>
"""


def check(tool: str = "memcheck", planted: str | None = None) -> Check:
    """Of a Triton twin, which a fake tool does not launch: there is nothing to build."""
    return Check(sanitizer.cases(["attention/scalar"], ["triton"])[0], tool, planted)


def fake_tool(folder: Path, body: str) -> Path:
    """A compute-sanitizer that gets its own arguments in `arguments`, and those for the program in `program`."""
    return executable(
        folder / "compute-sanitizer",
        f"#!{sys.executable}\n"
        "import subprocess, sys, time\n"
        "if sys.argv[1:] == ['--version']:\n"
        "    sys.exit(print('NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build 36400806) (public-release)'))\n"
        "arguments, program = sys.argv[1:-5], sys.argv[-5:]\n"
        "report, result = arguments[arguments.index('--save') + 1], program[-1]\n" + body,
    )


SEES = f"open(report, 'w').write('''{OUT_OF_BOUNDS}''')\nsys.exit(86)\n"
SILENT = f"open(result, 'w').write('{{\"status\": \"passed\"}}')\nprint('''{CLEAN}''')\n"
"""What a tool does that finds something, and one that finds nothing."""


def run_under(tool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *checks: Check, **options: Any) -> list[Any]:
    monkeypatch.setattr(cuda_tools, "find", lambda name: tool)
    return sanitizer.run(checks, "sanitizer", tmp_path / "run.jsonl", jobs=2, **options)[1:]


def test_kernels_are_launched_at_their_reference_tiles_or_at_one_that_is_named() -> None:
    asked = ["lean_mbarrier_ring", "general_shapes"], ["triton", "cuda"]
    reference, named = sanitizer.cases(*asked), sanitizer.cases(*asked, Tile(256, 64, 3, 8))
    assert {case.tile and case.tile.slug for case in named} == {"256x64-s3-w8"}
    assert [replace(case, tile=None) for case in named] == [replace(case, tile=None) for case in reference]
    assert len({case.tile for case in reference}) > 1


RACE = (
    "<ComputeSanitizerOutput><record><kind>Race</kind><level>Warning</level>"
    "<first><access>Write</access><path>x.cu</path><line>7</line></first>"
    "<second><access>Read</access><path>x.cu</path><line>9</line></second></record></ComputeSanitizerOutput>"
)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (
            OUT_OF_BOUNDS,
            ["Invalid __global__ read of size 16 bytes by thread (3, 0, 0) at ld_st.cuh:21, register_softmax.cu:55"],
        ),
        (RACE, ["Race Warning Write x.cu 7 Read x.cu 9 at x.cu:7, x.cu:9"]),  # of another shape: quoted as a whole
        *((content, []) for content in (None, "", "<ComputeSanitizerOutput><rec", "<ComputeSanitizerOutput/>")),
    ],
)
def test_a_finding_is_one_line_with_the_places_in_the_source(
    tmp_path: Path, content: str | None, lines: list[str]
) -> None:
    report = tmp_path / "report.xml"
    if content is not None:
        report.write_text(content)
    assert sanitizer.findings(report) == lines


PASSED = {"status": "passed"}


@pytest.mark.parametrize(
    ("found", "exit_code", "outcome", "log", "status"),
    [
        ([], 0, PASSED, CLEAN, "passed"),
        ([], 0, PASSED, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "passed"),
        (["a race"], 86, PASSED, "", "wrong"),
        (["a race"], 0, PASSED, CLEAN, "wrong"),  # a warning need not change the exit code
        ([], 86, PASSED, "========= Invalid read\n", "wrong"),  # the report is torn
        (["a fault"], 86, {"status": "cuda_error", "reason": "719"}, "", "wrong"),
        ([], 0, {"status": "launch_error", "reason": "719"}, CLEAN, "launch_error"),
        ([], 0, PASSED, "========= Device not supported\n", "crashed"),  # it did not look
        ([], 255, None, "========= Error: Target application terminated\n", "crashed"),
        ([], 0, None, CLEAN, "crashed"),
    ],
)
def test_a_kernel_passes_only_when_it_ran_and_the_tool_counted_nothing(
    found: list[str], exit_code: int, outcome: dict[str, str] | None, log: str, status: str
) -> None:
    answer = sanitizer.verdict(found, exit_code, outcome, log)
    assert answer["status"] == status
    assert status == "passed" or answer["reason"]
    assert answer["details"]["findings"] == found


HEAD = "<ComputeSanitizerOutput>\n"
RECORD = f"<record><kind>Api</kind><level>Error</level><what><text>{sanitizer.READ_BY_HOST}</text></what></record>"
READ_BY_HOST = f"{HEAD}{RECORD}</ComputeSanitizerOutput>"
AND_ANOTHER = OUT_OF_BOUNDS.replace(HEAD, HEAD + RECORD * sanitizer.KEPT)
"""A finding in the kernel, after as many reads by the host as a row quotes."""


@pytest.mark.slow
@pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here")
@pytest.mark.parametrize(("technique", "stores"), [("tma_store", True), ("scalar", False)])
def test_stores_by_tma_are_read_in_the_machine_code(technique: str, stores: bool) -> None:
    case, *_ = sanitizer.cases([f"attention/{technique}"], ["cuda"])
    assert sanitizer.stores_by_tma(case, "sm_90a") is stores


@pytest.mark.usefixtures("gpu_here")
@pytest.mark.parametrize(
    ("stores", "report", "launch", "status"),
    [
        (True, READ_BY_HOST, "passed", "unsupported"),
        (False, READ_BY_HOST, "passed", "wrong"),
        (True, OUT_OF_BOUNDS, "passed", "wrong"),
        (True, AND_ANOTHER, "passed", "wrong"),
        (True, READ_BY_HOST, "crashed", "wrong"),
    ],
    ids=["stored by TMA", "stored otherwise", "another finding", "another after those quoted", "it did not run"],
)
def test_what_initcheck_cannot_see_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores: bool, report: str, launch: str, status: str
) -> None:
    monkeypatch.setattr(sanitizer, "stores_by_tma", lambda case, arch: stores)
    result = json.dumps({"status": launch, "reason": None})
    body = f"open(report, 'w').write('''{report}''')\nopen(result, 'w').write('{result}')\nsys.exit(86)\n"
    (row,) = run_under(fake_tool(tmp_path, body), monkeypatch, tmp_path, check("initcheck"))
    assert row["status"] == status
    assert (row["reason"] == sanitizer.UNSEEN) == (status == "unsupported")
    assert row["details"]["findings"], "what the tool said stays in the row"


@pytest.mark.usefixtures("gpu_here")
def test_rows_are_recorded_by_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"if 'memcheck' in arguments:\n    {SEES.replace(chr(10) + 'sys', chr(10) + '    sys')}{SILENT}"
    rows = run_under(fake_tool(tmp_path, body), monkeypatch, tmp_path, check("memcheck"), check("racecheck"))
    status = {row["tool"]: row["status"] for row in rows}
    assert status == {"memcheck": "wrong", "racecheck": "passed"}
    (found,) = (row for row in rows if row["status"] == "wrong")
    assert found["reason"].startswith("Invalid __global__ read")
    assert found["details"]["findings"] == [found["reason"]]
    assert found["details"]["tool_version"] == "2025.3.1.0"
    (file,) = record.record([tmp_path / "run.jsonl"], tmp_path / "recorded")
    assert file.parent == tmp_path / "recorded" / "h200" / "attention" / "sanitizer"
    kept = [row for row in results.read(file) if row.get("tool")]
    assert {(row["tool"], row["arch"]) for row in kept} == {("memcheck", "sm_90a"), ("racecheck", "sm_90a")}
    assert all(row["source_sha256"] for row in kept)


@pytest.mark.slow
@pytest.mark.usefixtures("gpu_here")
def test_a_planted_bug_must_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = check("memcheck", "rows_padded_by_four_bytes")
    (row,) = run_under(fake_tool(tmp_path, SEES), monkeypatch, tmp_path, bug)
    assert (row["status"], row["details"]["planted"], row["details"]["found"]) == ("passed", bug.planted, 1)
    (row,) = run_under(fake_tool(tmp_path, SILENT), monkeypatch, tmp_path / "blind", bug)
    assert row["status"] == "wrong"
    assert "rows_padded_by_four_bytes is planted" in row["reason"]


@pytest.mark.usefixtures("gpu_here")
def test_the_program_is_killed_with_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = tmp_path / "alive"
    child = f"import time\nwhile True:\n    open({str(alive)!r}, 'a').write('.'); time.sleep(0.05)"
    body = f"subprocess.run([sys.executable, '-c', {child!r}])\n"

    class Process(subprocess.Popen):
        """The deadline passes once the program is at work."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout != 2.0:
                return super().wait(timeout)
            while not alive.exists() and self.poll() is None:
                time.sleep(0.05)
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(processes.subprocess, "Popen", Process)
    (row,) = run_under(fake_tool(tmp_path, body), monkeypatch, tmp_path, check(), deadline=2.0)
    assert row["status"] == "timeout"
    assert "not done within 2 s" in row["reason"]
    time.sleep(0.2)  # on a busy machine a killed process may end a line
    size = alive.stat().st_size
    time.sleep(0.3)
    assert alive.stat().st_size == size > 0


@pytest.mark.usefixtures("gpu_here")
def test_without_the_tool_rows_say_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    for rows in (
        sanitizer.run([check()], "sanitizer", tmp_path / "sanitizer.jsonl"),
        hardware_counters.run([check().case], tmp_path / "ncu.jsonl"),
    ):
        assert rows[1]["status"] == "unsupported"
        assert "CUDA toolkit" in rows[1]["reason"]


@pytest.mark.slow
def test_the_tool_launches_the_kernel_itself(tmp_path: Path) -> None:
    """The program behind the tool is the real one; without a driver it says so."""
    tool = fake_tool(tmp_path, "sys.exit(subprocess.run(program).returncode)\n")
    case, *_ = sanitizer.cases(["attention/wgmma"], ["cuda"])
    answer = sanitizer.launch(Check(case, "racecheck", None), tool, "sm_90a", sanitizer.ROOT, tmp_path / "x", 0, 60.0)
    assert answer["status"] != "passed"
    if not Path("/dev/nvidia0").exists():
        assert "libcuda.so.1" in answer["reason"]


@pytest.mark.parametrize("name", ["attention", "gemm", "attention_backward"])
def test_every_rung_is_checked_and_declines_a_tile_in_triton_or_a_mask_at_most(name: str) -> None:
    """Each on a problem that it takes, and the general ones on one that no tile divides."""
    operator = operators.get(name)
    rungs = {f"{name}/{rung.name}": rung for rung in operator.techniques}
    launched: dict[str, set[object]] = {}
    for case in sanitizer.cases(rungs, ["cuda", "triton"]):
        if reason := declined(case):
            assert ("full attention only" if case.backend == "cuda" else "powers of two") in reason, str(case)
        elif case.backend == "cuda":
            launched.setdefault(techniques.at(case.technique, case.problem).path, set()).add(case.problem)
    assert set(launched) == {rung.path for rung in rungs.values()}
    general = {rung.path for rung in rungs.values() if rung.general}
    assert {path for path, problems in launched.items() if problems & {*operator.sanitized["general"]}} == general
    persistent = {path for path in launched if sources.is_persistent(path)}
    several = {*operator.sanitized.get("persistent", ())}
    assert {path for path, problems in launched.items() if problems & several} == (persistent if several else set())


def descends(name: str, ancestor: str) -> bool:
    parent = techniques.parent(techniques.of_qualified(name))
    return name == ancestor or (parent is not None and descends(parent.name, ancestor))


def test_persistent_kernels_are_checked_where_blocks_go_on_to_another_tile() -> None:
    """At every tile that the ladder's CUDA kernels are measured at, and on no other kernel: such problems take long."""
    committed = [
        one for path in tiles.folder("attention").glob("*.toml") for one in tiles.read(path) if one.backend == "cuda"
    ]
    rungs = [technique for technique in techniques.TECHNIQUES if technique.ladder == "hopper"]
    names = {rung.name for rung in rungs}

    def several(head_dim: int) -> list[Tile]:
        chosen = [one.tile for one in committed if one.technique in names and one.cell.startswith(f"d{head_dim}-")]
        return [*chosen, *(techniques.reference_tile(rung, head_dim) for rung in rungs)]

    found: dict[str, set[int]] = {}
    for case in sanitizer.cases(SHOWN, ["cuda"]):
        head_dim = case.problem.head_dim
        if case.problem in SANITIZED["persistent"]:
            assert all(case.problem.query_tiles(tile) >= 2 * MULTIPROCESSORS for tile in several(head_dim))
            found.setdefault(case.technique or "", set()).add(head_dim)
    assert found == {name: {128, 256} for name in NAMES if descends(name, "persistent")}
    assert "flagship" in found


def test_a_program_is_launched_once_for_all_its_names() -> None:
    cases = sanitizer.cases(
        ["wmma", "attention/mma_ldmatrix", "attention/xor_swizzle", "large_tile"], ["triton", "cuda"]
    )
    groups = tool_session.same_programs(cases)
    assert sum(map(len, groups.values())) + len(groups) == len(cases)
    for first, repeats in groups.items():
        for twin in repeats:
            assert build.same_program(twin) is not None
            assert twin.tile == first.tile
    names = {(case.technique, twin.technique) for case, twins in groups.items() for twin in twins}
    assert ("wmma", "mma_ldmatrix") in names
    assert ("xor_swizzle", "large_tile") not in names  # another tile


@pytest.mark.slow
def test_every_planted_bug_applies(tmp_path: Path) -> None:
    checks = sanitizer.planted(sanitizer.OPTIONS)
    assert {check.tool for check in checks} == set(sanitizer.OPTIONS)
    for check in checks:
        with sanitizer.kernels(check.planted, tmp_path) as root:
            kernel = Path("cuda_kernels") / f"{techniques.of_qualified(check.case.technique or '').path}.cu"
            assert (root / kernel).read_text() != (sanitizer.ROOT / kernel).read_text()
            program = "from cuda_kernels import build; print(build.HERE)"
            done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
            assert Path(done.stdout.strip()) == root.resolve() / "cuda_kernels"
    keys = {(check.case.technique, check.case.problem, check.tool) for check in checks}
    assert len(keys) == len(checks), "two planted bugs would share a row's key"


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_each_tool_finds_its_planted_bug_and_nothing_without_it(tmp_path: Path) -> None:
    bugs = sanitizer.planted(sanitizer.OPTIONS)
    rows = sanitizer.run(bugs, "sanitizer_planted", tmp_path / "planted.jsonl")[1:]
    assert {row["tool"] for row in rows if row["status"] == "passed"} == set(sanitizer.OPTIONS), rows
    clean = [Check(bug.case, bug.tool) for bug in bugs]
    rows = sanitizer.run(clean, "sanitizer", tmp_path / "clean.jsonl")[1:]
    assert [row for row in rows if row["status"] != "passed"] == []
