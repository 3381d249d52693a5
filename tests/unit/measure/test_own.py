"""A kernel of the user's goes through the same worker, gate and rows; whatever is wrong with it becomes a row."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import operators
from harness.build.own import OwnFunction
from harness.catalog import own, sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import NamedExperiment, Tile
from harness.measure import arenas, groups, runner, session, worker
from harness.measure import own as measured
from harness.measure.worker import Deadlines, Worker, places
from harness.operators.attention.problem import Problem
from harness.rows import fastest, results, schema, tables
from harness.rows.frame import table
from tests.support import fake_events, own_kernels, own_triton
from tests.support.here import Here
from tests.support.places import place
from tests.support.row_file import GATE

FILE = Path(own_kernels.__file__)
PROBLEM = Problem(1, 2, 1, 64, 128, 64, "fp16", True)
EXPERIMENT = NamedExperiment(name="bench", problems=(PROBLEM,), peers=(), distributions=("normal",), padded=True)
ENDS = {
    "attend": ("passed", None),
    "output_alone": ("passed", None),
    "into": ("passed", None),
    "wrong": ("wrong", "max_error"),
    "wrong_lse": ("wrong", "lse"),
    "kept": ("wrong", "stale_output"),
    "of_another_shape": ("launch_error", None),
    "crashing": ("crashed", None),
    "declining": ("unsupported", None),
    "of_nothing": ("launch_error", None),
    "raising": ("launch_error", None),
    "from_an_extension": ("launch_error", None),  # it takes is_causal
    "not_a_function": ("import_error", None),
}

REASONS = {
    "of_nothing": "got NoneType for o",
    "of_another_shape": r"got o of \(1, 2, 64, 64\) torch.float32, expected \(1, 2, 64, 64\) torch.float16",
    "crashing": "SIGSEGV",
    "raising": "^" + re.escape(f"AssertionError: raising at {place(FILE, 'assert v.shape')}") + "$",
}
LABELS = {"output_alone": "no LSE", "into": "no LSE"}


def run(
    path: Path, *kernels: own.Kernel, tile: Tile | None = None, processes: bool = False, **options: object
) -> list[dict]:
    """`processes`: with the verifier in a process of its own, as ever. The kernels always have theirs."""
    cases = measured.cases(EXPERIMENT, measured.Chosen(kernels, tile=tile), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        if not processes:
            patch.setattr(session, "Worker", Here)
        return runner.run(EXPERIMENT, on="cpu", path=path, selected=cases, gate={"repeats": 3}, **options)


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    kernels = [own.parse(f"{FILE}:{name}") for name in ENDS]
    path = tmp_path_factory.mktemp("own") / "run.jsonl"
    rows = run(path, *kernels)
    assert rows == results.read(path, schema.check)
    return {row["kernel"].partition(":")[2]: row for row in rows if row["kind"] == "gate"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_a_row(gated: dict[str, dict], name: str) -> None:
    row = gated[name]
    assert (row["status"], row.get("check")) == ENDS[name]
    assert (row["backend"], row["kernel"]) == ("own", f"own_kernels.py:{name}")
    assert "technique" not in row
    assert re.search(REASONS.get(name, ""), row.get("reason", ""))
    assert row["details"].get("label", "") == LABELS.get(name, "")
    if row["status"] == "passed":
        assert ("lse_max_abs" in row["numerics"]["normal"]) == (name not in LABELS)
        assert row["numerics"]["normal"]["max_abs"] > 0


@pytest.mark.slow
def test_progress_tells_how_far_it_is_and_a_failed_import_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        replace(case, problem=problem)
        for name in ("not_a_function", "declining")
        for case in measured.cases(EXPERIMENT, measured.Chosen((own.parse(f"{FILE}:{name}"),)), None)
        for problem in (PROBLEM, replace(PROBLEM, causal=False))
    ]
    rows = runner.run(EXPERIMENT, on="cpu", path=tmp_path / "r.jsonl", selected=cases, gate={"repeats": 2})
    assert [row["status"] for row in rows[1:]] == ["import_error", "unsupported"] * 2
    said = capsys.readouterr().err
    lines = [line.partition(" s  ")[2] for line in said.splitlines() if " s  gate" in line]
    starts = [f"gate    {place} of 4  own_kernels.py:{name} own " for place, name in LINES]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert said.count("import_error: ") == 1
    assert said.count("declined: ") == 2
    assert "unsupported" not in said


LINES = ((1, "not_a_function"), (2, "declining"), (4, "declining"))
"""Of each problem in turn: place and kernel."""
ENDLESS = {
    "endless": (own_triton, "wait_for_ever", ("while tl.load", "tl.debug_barrier"), "wait_for_ever["),
    "counting": (own_triton, "count_for_ever", ("while i < 1", "i = i * 1"), "count_for_ever["),
    "spinning": (own_kernels, "spinning", ("while True",), None),
}
"""File, function whose loop never ends, its lines, and the line that launches it."""


@pytest.mark.slow
def test_a_launch_that_does_not_end_is_told_with_its_kernel_and_line(tmp_path: Path) -> None:
    kernels = [own.parse(f"{file.__file__}:{name}") for name, (file, *_) in ENDLESS.items()]
    rows = run(tmp_path / "run.jsonl", *kernels, processes=True, deadlines=Deadlines(launch=3))
    gates = [row for row in rows if row["kind"] == "gate"]
    for row, (name, (file, function, lines, launch)) in zip(gates, ENDLESS.items(), strict=True):
        assert row["status"] == "timeout"
        caller = f", called by {name} at {place(file.__file__, launch)}" if launch else ""
        loop = [f"{function} at {place(file.__file__, line)}{caller}" for line in lines]
        assert row["reason"] in [f"no sign of life for 3 s (stage launch): {line}" for line in loop]


@pytest.mark.slow
def test_a_process_that_hears_no_signal_is_told_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process reports where it is, UNHEARD + 1 s after its own deadline. This deadline is UNHEARD shorter here
    than the runner's, so that the report comes 1 s after the runner's deadline."""
    shorter = {**asdict(Deadlines()), "launch": 3 - worker.UNHEARD}
    monkeypatch.setattr(worker, "asdict", lambda deadlines: shorter)
    rows = run(tmp_path / "run.jsonl", own.parse(f"{FILE}:deaf"), deadlines=Deadlines(launch=3))
    (row,) = (row for row in rows if row["kind"] == "gate")
    where = place(own_kernels.__file__, "time.sleep(7200)")
    assert row["reason"] == f"no sign of life for 3 s (stage launch): deaf at {where}"


@pytest.mark.slow
def test_after_two_timeouts_or_a_call_that_fails_the_other_problems_of_a_kernel_are_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = tuple(replace(PROBLEM, seq_kv=keys) for keys in (64, 128, 192))
    experiment = replace(EXPERIMENT, problems=problems)
    kernels = tuple(own.parse(f"{FILE}:{name}") for name in ("hanging", "from_an_extension", "attend"))
    cases = measured.cases(experiment, measured.Chosen(kernels), None)
    options = {"on": "cpu", "gate": {"repeats": 3}, "deadlines": Deadlines(launch=4)}
    rows = runner.run(experiment, path=tmp_path / "run.jsonl", selected=cases, **options)
    gates = [row for row in rows if row["kind"] == "gate"]
    hanging = [row for row in gates if row["kernel"].endswith("hanging")]
    assert [row["status"] for row in hanging] == ["timeout"] * 3
    where = f"no sign of life for 4 s (stage launch): hanging at {place(FILE, 'time.sleep')}"
    first, second, third = (problem.slug for problem in problems)
    told = f"not tried: own_kernels.py:hanging did not end on {first} and {second}; `--problem {third}` tries this one"
    assert [row["reason"] for row in hanging] == [where, where, told]
    uncalled = [row for row in gates if row["kernel"].endswith("from_an_extension")]
    told = f"not tried: own_kernels.py:from_an_extension could not be called on {first}"
    assert [row["status"] for row in uncalled] == ["launch_error"] * 3
    assert uncalled[0]["reason"].startswith("TypeError: ")
    assert [row["reason"] for row in uncalled[1:]] == [told] * 2
    assert capsys.readouterr().err.count(told) == 1
    assert [row["status"] for row in gates if row not in hanging and row not in uncalled] == ["passed"] * 3


@pytest.mark.parametrize(("name", "what"), [("elsewhere", "o"), ("lse_elsewhere", "lse")])
def test_an_answer_on_another_device_is_refused_by_name(name: str, what: str) -> None:
    variant = OwnFunction(Case("bench", None, own.BACKEND, PROBLEM, None, own.parse(f"{FILE}:{name}")), "cpu")
    given, out = arenas.make(PROBLEM, "normal", 0, "cpu"), arenas.make_outputs(PROBLEM, "cpu")
    with pytest.raises(ValueError, match=f"{name}: got {what} on meta, expected cpu, where the inputs are; return a"):
        variant.launch({**given.tensors, **out.tensors}, {"scale": PROBLEM.scale, "causal": True})


def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "m:n"
    folder.mkdir()
    for name, code in (("k.cu", ""), ("k.py", "def f(): ...")):
        (folder / name).write_text(code)
    for text, function in ((f"{folder}/k.cu", None), (f"{folder}/k.py:f", "f")):
        kernel = own.parse(text)
        assert (kernel.path.parent, kernel.function) == (folder, function)
        assert own.parse(str(kernel)) == kernel
    for text in (f"{folder}/k.py", f"{folder}/k.cu:f"):
        with pytest.raises(ValueError, match=re.escape(f"got {text!r}, expected {own.EXPECTED}")):
            own.parse(text)


def test_no_line_of_an_installed_package_is_told_as_the_kernels() -> None:
    """Those of a virtual environment may lie in the Python that it was made from."""
    frames = [(f"/opt/base/lib/python3/{name}-packages/triton/jit.py", 1, "run") for name in ("site", "dist")]
    assert places(frames) == ""
    assert places([*frames, ("/home/me/mine.py", 1, "attend")]) == ": attend at `` [mine.py:1]"


@pytest.mark.slow
def test_what_failed_is_said_in_the_terminal_and_ends_with_1(gated: dict[str, dict]) -> None:
    assert tables.failed(gated.values())
    assert not tables.failed([gated["attend"], gated["declining"]])
    assert "wrong: own_kernels.py:wrong own" in "\n".join(tables.failures(gated.values()))


@pytest.mark.slow
def test_two_functions_are_timed_interleaved_and_cupti_looks_at_what_a_call_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Worker.call
    found = {
        "attend": {"status": "implausible", "check": "other_stream", "reason": "work on another stream"},
        "output_alone": {"status": "implausible", "check": "cupti", "reason": "1 ms by CUPTI, 2 ms by events"},
    }

    def call(self: Worker, method: str, *arguments: Any) -> Any:
        if method != "cupti":
            return real(self, method, *arguments)
        return {name: {**found[case.kernel.function], "samples_ms": [1.0]} for name, case in arguments[0].items()}

    monkeypatch.setattr(Worker, "call", call)
    fake_events.take_the_place_of_a_gpu(monkeypatch, tmp_path)
    kernels = [own.of_function(function) for function in (own_kernels.attend, own_kernels.output_alone)]
    timing = {"min_samples": 5, "max_seconds": 20.0, "target": 10.0, "limit": 10.0}
    rows = run(tmp_path / "run.jsonl", *kernels, modes=("burst",), timing=timing, cupti=True)
    timed = [row for row in rows if results.what(row) == "timing"]
    assert {row["kernel"]: row["status"] for row in timed} == {kernel.name: "passed" for kernel in kernels}
    assert len({row["group"] for row in timed}) == 1
    labels = {row["kernel"]: row["details"].get("label") for row in timed}
    assert labels == {"own_kernels.py:attend": None, "own_kernels.py:output_alone": "no LSE"}
    seen = {row["kernel"]: (row["status"], row.get("check")) for row in rows if row.get("purpose") == "cupti"}
    assert seen == {
        "own_kernels.py:attend": ("implausible", "other_stream"),
        "own_kernels.py:output_alone": ("passed", None),
    }
    assert tables.failed(rows)


@pytest.mark.slow
def test_a_cu_file_anywhere_runs_on_the_cpu(tmp_path: Path) -> None:
    source = (sources.ROOT / "cuda_kernels" / "attention" / "ampere" / "xor_swizzle.cu").read_text()
    folder = tmp_path / "some where"
    folder.mkdir()
    (folder / "mine.cu").write_text('#include "beside.h"\n' + source)
    (folder / "beside.h").write_text("// nothing\n")
    kernel = own.parse(str(folder / "mine.cu"))
    (row,) = [row for row in run(tmp_path / "run.jsonl", kernel, tile=Tile(64, 64)) if row["kind"] == "gate"]
    assert (row["status"], row["kernel"], row["tile"]) == ("passed", "mine.cu", Tile(64, 64).to_dict())
    before = own.source_sha256(kernel)
    (folder / "beside.h").write_text("constexpr int MORE = 1;\n")
    assert own.source_sha256(kernel) != before


CU_FILES = {
    "declines.cu": ("launch", "801", "unsupported", "cudaErrorNotSupported for b1-"),
    "fails.cu": ("launch", "1", "launch_error", r"launch returns cudaError 1 \(cudaErrorInvalidValue\)"),
    "without_launch.cu": ("lunch", "0", "compile_error", "exports no launch.*<Arguments>.* without EXPORT is hidden"),
    "broken.cu": (
        "launch",
        "zero",
        "compile_error",
        "where a kernel must use the functions of cuda_kernels/ptx .*: .*error: .*zero",
    ),
}
"""Name and result of its function, status, what the reason says; none says how much shared memory it takes."""


@pytest.mark.slow
def test_each_end_of_a_cu_file_is_a_row_that_says_why(tmp_path: Path) -> None:
    for name, (function, result, *_) in CU_FILES.items():
        text = f"EXPORT int {function}(const AttentionArgs*, void*) {{ return {result}; }}"
        (tmp_path / name).write_text(f"#include <attention/attention.cuh>\n{text}\n")
    kernels = [own.parse(str(tmp_path / name)) for name in CU_FILES]
    rows = {row["kernel"]: row for row in run(tmp_path / "run.jsonl", *kernels) if row["kind"] == "gate"}
    for name, (*_, status, said) in CU_FILES.items():
        assert rows[name]["status"] == status, rows[name]
        assert re.search(said, rows[name]["reason"])


@pytest.mark.slow
def test_the_machine_code_of_a_function_is_that_of_the_triton_program_it_launched() -> None:
    """Triton's own hooks, called as it calls them; without a GPU it loads and launches nothing itself."""
    from triton import knobs
    from triton.compiler.compiler import LazyDict

    from harness.build import Case, compile_triton
    from harness.build import own as functions

    def compiled(technique: str) -> Any:
        case = Case("bench", technique, "triton", Problem.square(1, 1, 128, 64, dtype="fp16"), Tile(64, 64))
        return compile_triton(case, "sm_90a")

    programs = functions._Programs()
    for handle, program in enumerate((compiled("scalar"), compiled("exp2_softmax")), 1):
        knobs.runtime.kernel_load_end_hook(None, handle, program.name, program.metadata_group, program.hash)
    answer = programs.watch(lambda: knobs.runtime.launch_enter_hook(LazyDict({"function": 2})) or "an answer")
    assert answer == "an answer"
    assert programs.largest() == functions._Programs.loaded[2]
    knobs.runtime.launch_enter_hook(LazyDict({"function": 1}))
    assert programs.launched == {2}, "what is launched outside a watched call is not the function's"
    variant = functions.OwnFunction.__new__(functions.OwnFunction)
    variant.programs = programs
    code = variant.code()
    assert code["registers"] > 0
    assert code["census"]["instructions"] > 100
    knobs.runtime.kernel_load_end_hook.remove(functions._note_program)


def test_what_a_file_imports_from_its_folder_is_its_source(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import triton\nfrom beside import attend\n")
    (tmp_path / "beside.py").write_text("def attend(): ...\n")
    kernel = own.parse(f"{tmp_path}/mine.py:attend")
    before = own.source_sha256(kernel)
    (tmp_path / "beside.py").write_text("def attend(): return 1\n")
    assert own.source_sha256(kernel) != before
    assert own.uses_triton(kernel)
    assert not own.uses_triton(own.parse(f"{tmp_path}/beside.py:attend"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine.py", "expected FILE.py:FUNCTION or FILE.cu"),
        ("mine.cu:attend", "expected FILE.py:FUNCTION or FILE.cu"),
        ("nowhere.cu", "there is no file nowhere.cu"),
        (f"{FILE}:attnd", "but own_kernels.py has attend, output_alone"),
        (f"{FILE}:Attention", "but own_kernels.py has attend, output_alone"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"got '{text}'") as refusal:
        own.parse(text)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (b"def attend(): ...  # \xff\n", "not readable as code in UTF-8 .*utf-8"),
        (b"def attend(): ...\n\0", "not readable as code in UTF-8 .*null bytes"),
        (b"def attend():\n    return (\n", "attend', which has a syntax error at line 2: .*; mend it"),
        (b"from harness import bench, check\ndef other(): ...\n", r"but mine\.py has other; name one of them$"),
        (
            b"@triton.jit\ndef kernel(): ...\ndef _run(): ...\ndef a(): ...\ndef b(): ...\n",
            r"mine\.py has a, b; name one",
        ),
        (b"f = partial(g)\n@jit\ndef kernel(): ...\n", "mine.py has no public `def` for Python to call; write one"),
    ],
)
def test_a_file_that_is_no_code_or_has_another_function_is_refused(tmp_path: Path, code: bytes, said: str) -> None:
    (tmp_path / "mine.py").write_bytes(code)
    with pytest.raises(ValueError, match=f"kernel: got .*{said}"):
        own.parse(f"{tmp_path}/mine.py:attend")


BOUND = """import functools
if True:
    def chosen(): ...
try:
    first = second = functools.partial(print)
except ImportError:
    third, fourth = print, print
fifth: object = print
"""


def test_a_kernel_may_be_bound_anywhere_outside_functions_and_classes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BOUND)
    for name in ("chosen", "first", "second", "third", "fourth", "fifth"):
        assert own.parse(f"{tmp_path}/mine.py:{name}").function == name
    (tmp_path / "mine.py").write_text("from beside import *\n")
    assert own.parse(f"{tmp_path}/mine.py:attend").function == "attend"


def test_a_decorated_function_is_found_in_its_own_file() -> None:
    assert own.of_function(own_kernels.decorated) == own.parse(f"{FILE}:decorated")


def test_a_function_that_no_other_process_can_import_is_refused() -> None:
    def inner() -> None: ...

    of_a_file, named_like_it = own_kernels.attend, torch.no_grad()(own_kernels.attend)
    assert named_like_it.__qualname__ == of_a_file.__qualname__
    for function in (inner, lambda: None, len, named_like_it):
        with pytest.raises(ValueError, match="expected a function at the top level of a file"):
            own.of_function(function)


def test_names_become_what_they_name() -> None:
    chosen = measured.choose([own_kernels.attend, "lazy_rescale", "sdpa_cudnn"], ("sdpa_cudnn",))
    assert (chosen.kernels, chosen.rungs) == ((own.parse(f"{FILE}:attend"),), ("lazy_rescale",))
    assert chosen.peers == ("sdpa_cudnn",)
    with pytest.raises(ValueError, match=r"got 'lazy', expected a function, FILE.py:FUNCTION or FILE.cu or a techn"):
        measured.choose(["lazy"], ())
    with pytest.raises(ValueError, match="twice"):
        measured.choose([own_kernels.attend, f"{FILE}:attend"], ())


def test_all_that_can_share_a_process_is_timed_beside_an_own_kernel() -> None:
    """A CUDA kernel does not read Triton's variables, so that it need not stay with its twin."""
    kernel = own.of_function(own_kernels.attend)
    mine = Case("bench", None, "own", PROBLEM, None, kernel)
    cuda, twin = (Case("bench", "xor_swizzle", backend, PROBLEM, Tile(64, 64)) for backend in ("cuda", "triton"))
    peer = Case("bench", None, "sdpa_cudnn", PROBLEM, None)
    older = {"DISABLE_MMA_V3": "1"}
    variables = {mine: {}, cuda: older, twin: older, peer: None}
    assert groups.environments(variables, variables) == [(older, [twin]), ({}, [mine, cuda, peer])]
    del variables[mine]
    assert groups.environments(variables, variables) == [(older, [cuda, twin, peer])]


def test_rows_of_an_own_kernel_are_not_recorded() -> None:
    row = {name: value for name, value in GATE.items() if name not in ("technique", "tile")}
    row |= {"backend": "own", "kernel": "mine.cu"}
    schema.check(row)
    with pytest.raises(ValueError, match=r"row\.backend: got own \(mine\.cu\)"):
        schema.admit(row)
    del row["kernel"]
    with pytest.raises(ValueError, match=r"row\.kernel: got nothing"):
        schema.check(row)


def test_the_best_rungs_are_those_of_the_nearest_recorded_problem() -> None:
    def row(technique: str, backend: str, problem: Problem, ms: float, status: str = "passed") -> dict:
        about = {"technique": technique, "backend": backend, "problem": problem.to_dict(), "samples_ms": [ms]}
        return {"kind": "timing", "status": status, **about}

    near, far = (Problem.square(4, 16, length, 128) for length in (4096, 16384))
    rows = [
        *(row("flagship", "cuda", near, 1.0), row("pingpong", "cuda", near, 3.0), row("pingpong", "triton", near, 2.0)),
        *(row("scalar", "cuda", near, 0.1, "wrong"), row("scalar", "cuda", far, 0.1)),
        row("wgmma", "cuda", replace(near, causal=True), 0.1),
    ]
    found = fastest.of_table(table("timing", rows), Problem.square(4, 16, 6000, 128))
    assert found == [("flagship", "cuda"), ("pingpong", "triton")]
    assert fastest.of_table(table("timing", rows), Problem.square(4, 16, 4096, 256)) == []


@pytest.mark.xdist_group("recorded")
@pytest.mark.slow
def test_without_records_the_last_rung_of_each_ladder_stands_in(tmp_path: Path) -> None:
    last = [technique.name for technique in techniques.TECHNIQUES if technique.ladder == "ampere"][-1]
    assert fastest.recorded(tmp_path, "h100", "sm_80", PROBLEM) == [(last, "cuda")]
    for operator in operators.every():
        recorded = fastest.recorded(measured.RECORDED, "h100", "sm_90a", operator.benchmark)
        found = {techniques.get(f"{operator.name}/{technique}").path for technique, _ in recorded}
        assert len(found) == 3
        assert all("/hopper/" in path for path in found)
