"""What ncu prints becomes rows: numbers by name, each with the launch that it belongs to."""

import json
import sys
from pathlib import Path

import pytest

from harness.build import Case
from harness.catalog import techniques
from harness.catalog.cases import origin
from harness.catalog.entries import Tile
from harness.inspection import hardware_counters
from harness.machine import cuda_tools
from harness.operators.attention import inspected
from harness.operators.attention.problem import Problem
from harness.rows import record, results
from tests.support.checkout import executable

NAMES = [technique.name for technique in techniques.TECHNIQUES]
# `ncu --import report --csv --page raw --print-units base`: a header, its units, one line per launch.
RAW_PAGE = """\
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum","launch__registers_per_thread","lts__t_sector_hit_rate.pct",\
"memory_l1_wavefronts_shared","memory_l1_wavefronts_shared_ideal","smsp__inst_executed_op_ldsm.sum"
"","","","","","","","","","","","byte","ns","register/thread","%","","","inst"
"0","4711","python3.12","localhost","<unnamed>::mma_ldmatrix(AttentionArgs)","1","7","(128, 1, 1)","(1, 8, 1)","0",\
"9.0","393,216","21,504","168","87.53","1,671,168","245,760","36,864"
"1","4711","python3.12","localhost","wmma","1","7","(128, 1, 1)","(1, 8, 1)","0","9.0","393,216","19,200","144","n/a",\
"98,304","98,304","0"
"""


def cells(*techniques_: tuple[str, str]) -> list[Case]:
    return [
        case
        for name, backend in techniques_
        for case in hardware_counters.cases([f"attention/{name}"], [backend], [PROBLEM])
    ]


PROBLEM = Problem.square(1, 1, 512, 128)


def test_the_raw_page_is_read_by_column() -> None:
    assert hardware_counters.parse("") == hardware_counters.parse("==ERROR== no kernels were profiled\n") == []
    first, second = hardware_counters.parse("==PROF== Disconnected\n" + RAW_PAGE)
    details = hardware_counters.counters(first)
    assert details["totals"] == {"wavefronts": 1_671_168, "bank_conflicts": 1_671_168 - 245_760}
    assert details["metrics"]["lts__t_sector_hit_rate.pct"] == 87.53
    assert details["metrics"]["dram__bytes_read.sum"] == 393_216
    assert (details["grid"], details["block"]) == ("(1, 8, 1)", "(128, 1, 1)")
    assert "lts__t_sector_hit_rate.pct" not in hardware_counters.counters(second)["metrics"]  # n/a


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,234", 1234), ("1,234.5", 1234.5), ("12 (4; 8)", 12), ("n/a", None), ("", None), (None, None)],
)
def test_numbers_as_ncu_prints_them(text: str | None, value: float | None) -> None:
    assert hardware_counters.number(text) == value


FAILED = {"status": "launch_error", "reason": "out of luck"}
DONE = {"status": "passed"}
OTHERS = [("scalar", "cuda"), ("wmma", "triton")]
TWINS = [("mma_ldmatrix", "cuda"), ("wmma", "triton")]


@pytest.mark.parametrize(
    ("kernels", "outcomes", "launches", "statuses"),
    [
        pytest.param(
            [TWINS[0], *OTHERS], [DONE, FAILED, DONE], slice(2), ["passed", "launch_error", "passed"], id="one failed"
        ),
        pytest.param(OTHERS, [DONE, DONE], slice(1, 2), ["crashed", "passed"], id="one launch is missing"),
        pytest.param(TWINS, [DONE], slice(1), ["passed", "crashed"], id="one was not reached"),
    ],
)
def test_each_launch_belongs_to_its_case(
    kernels: list[tuple[str, str]], outcomes: list[dict[str, str]], launches: slice, statuses: list[str]
) -> None:
    cases, said = cells(*kernels), "==ERROR== replay failed"
    rows = hardware_counters.match(cases, outcomes, hardware_counters.parse(RAW_PAGE)[launches], said)
    assert [rows[case]["status"] for case in cases] == statuses
    for case in cases:
        if rows[case]["status"] == "passed":
            assert origin(case) in rows[case]["details"]["kernel"]
        assert (said in rows[case].get("reason", "")) == (rows[case]["status"] == "crashed")


def test_a_row_has_the_clock_of_the_multiprocessors() -> None:
    first, second = hardware_counters.parse(RAW_PAGE)
    launches = [{**first, hardware_counters.SM_HERTZ: "1,795,000,000.5"}, {**second, hardware_counters.SM_HERTZ: "n/a"}]
    rows = hardware_counters.match(cells(*TWINS), [DONE] * 2, launches, "")
    assert [row["clock_ghz"] for row in rows.values()] == [pytest.approx([1.795]), None]


def test_a_kernel_has_the_name_of_the_file_that_holds_it() -> None:
    large, twin = cells(("large_tile", "cuda"), ("mma_ldmatrix", "triton"))
    assert origin(large) == "xor_swizzle"
    assert origin(twin) == "wmma"


def fake_ncu(folder: Path, outcomes: list[dict[str, str]] | None, page: str, said: str = "") -> Path:
    """An ncu that knows two metrics, and instead of running the program writes what it would have left."""
    return executable(
        folder / "ncu",
        f"#!{sys.executable}\n"
        "import sys\n"
        "if '--version' in sys.argv: sys.exit(print('Version 2025.3.1.0 (build 36398880) (public-release)'))\n"
        "if '--query-metrics' in sys.argv:\n"
        "    sys.exit(print('Device NVIDIA H200 (GH100)\\n-----\\n'\n"
        "        'dram__bytes_read  Counter  byte  bytes\\nlts__t_sector_hit_rate  Ratio  # of hits'))\n"
        f"if '--import' in sys.argv: sys.exit(print({page!r}))\n"
        "assert sys.argv[sys.argv.index('--metrics') + 1] == 'lts__t_sector_hit_rate.pct,dram__bytes_read.sum'\n"
        f"print({said!r})\n"
        f"if {outcomes!r} is not None:\n"
        "    open(sys.argv[sys.argv.index('--export') + 1] + '.ncu-rep', 'w')\n"
        f"    open(sys.argv[-1], 'w').write({chr(10).join(map(json.dumps, outcomes or []))!r})\n",
    )


@pytest.mark.usefixtures("gpu_here")
def test_rows_are_recorded_also_for_twins_of_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake_ncu(tmp_path, [{"status": "passed"}] * 2, RAW_PAGE)
    monkeypatch.setattr(cuda_tools, "find", lambda name: tool)
    cases = cells(("mma_ldmatrix", "cuda"), ("wmma", "triton"), ("mma_ldmatrix", "triton"))
    rows = hardware_counters.run(cases, tmp_path / "run.jsonl")[1:]
    assert [(row["technique"], row["status"]) for row in rows] == [
        ("mma_ldmatrix", "passed"),
        ("wmma", "passed"),
        ("mma_ldmatrix", "passed"),
    ]
    assert rows[2]["details"]["same_program"] == "wmma"
    assert rows[0]["details"]["tool_version"] == "2025.3.1.0"
    assert "smsp__inst_executed.sum" in rows[0]["details"]["missing"]  # the fake GPU has two counters
    (file,) = record.record([tmp_path / "run.jsonl"], tmp_path / "recorded")
    assert file.parent.name == "ncu"
    kept = [row for row in results.read(file) if row["kind"] == "counters"]
    assert {row["on"] for row in kept} == {"gpu"}
    assert len(kept) == 3


@pytest.mark.usefixtures("gpu_here")
def test_counters_that_may_not_be_read_are_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU"
    tool = fake_ncu(tmp_path, [{"status": "passed"}], "", refused)
    monkeypatch.setattr(cuda_tools, "find", lambda name: tool)
    (row,) = hardware_counters.run(cells(("scalar", "cuda")), tmp_path / "run.jsonl")[1:]
    assert row["status"] == "unsupported"
    assert "ERR_NVGPUCTRPERM" in row["reason"]


def test_the_questions_are_asked() -> None:
    cases = hardware_counters.cases([f"attention/{name}" for name in NAMES], ["cuda", "triton"])
    small = {case.technique for case in cases if case.problem == inspected.COUNTED}
    assert small == set(NAMES), "every rung beside the CPU runtime's counts"
    assert {case.technique for case in cases if case.problem.head_dim == 64} == set(inspected.BANK_CONFLICTS)
    assert {case.technique for case in cases if case.problem == inspected.LARGE} == set(NAMES)
    causal = {case.technique for case in cases if case.problem.heads > 1 and case.problem.causal}
    assert causal == set(inspected.L2_ORDERS)
    published = {(case.technique, case.tile) for case in cases if case.problem.layout == "bshd"}
    assert published == {(name, Tile(64, 64)) for name in inspected.L2_ORDERS}, "the article's own step"


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_ncu_sees_the_conflicts_that_the_swizzle_removes(tmp_path: Path) -> None:
    cases = cells(("mma_ldmatrix", "cuda"), ("xor_swizzle", "cuda"))
    rows = hardware_counters.run(cases, tmp_path / "run.jsonl")[1:]
    assert [row["status"] for row in rows] == ["passed", "passed"], rows
    conflicts = [row["details"]["totals"]["bank_conflicts"] for row in rows]
    assert conflicts[0] > 100 * max(conflicts[1], 1)
