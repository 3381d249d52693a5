"""What the command line refuses: wrong names, options that do nothing, a machine that lacks something. And how fast."""

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli
from harness.build import Unsupported
from harness.cli import options
from harness.rows import results
from tests.conftest import CHECKOUT
from tests.support.commands import invoke

REFUSED = (
    ("check", "scalr"),
    ("check", "./mine.txt"),
    ("check", "attention/scalar", "--on", "gpu"),
    ("bench", "scalr"),
    ("bench", "attention/scalar"),
    ("inspect", "attention/scalar", "--backend", "tritn"),
    ("run", "lader"),
    ("run", "attention/ladder"),
    ("tune",),
    ("sanitize", "attention/scalar"),
    ("report", "scalr"),
    ("show", "scalr"),
    ("diff", "scalr"),
    ("history", "cuda", "--mode", "brst"),
    ("scorecard", "--bogus"),
)


RECORDED = pytest.mark.xdist_group("recorded")
"""These read the table of timings."""
HEAVY = ("torch", "triton", "pandas", "scipy", "matplotlib", "jinja2")


@pytest.mark.slow
def test_a_list_and_a_refusal_import_nothing_heavy() -> None:
    """On a machine without a GPU none of these takes half a second; torch alone takes two."""
    script = f"""
import sys
import harness.cli
from harness.setup import bootstrap
bootstrap.has_gpu = lambda: False
for words in {[("list",), *REFUSED]}:
    try:
        harness.cli.main(words)
    except SystemExit as end:
        print(end.code, *words, sorted(set({HEAVY}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT)
    said = [line for line in done.stdout.splitlines() if line.endswith("]")]
    assert said == ["0 list []", *(f"2 {' '.join(words)} []" for words in REFUSED)], done.stderr


def test_a_refusal_takes_half_a_second() -> None:
    """Of a processor, and twice that on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "harness", "check", "scalr"], cwd=CHECKOUT, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize(
    ("command", "got", "hint"),
    [
        (
            "check cp_async",
            "technique: got 'cp_async'",
            "did you mean attention/cp_async_pipeline or gemm/cp_async_pipeline?",
        ),
        (
            "inspect zzz",
            "technique: got 'zzz'",
            "known: attention/scalar, attention/vectorized_loads, wmma ...; see `twinkernels list`",
        ),
        ("inspect attention/scalar --backend tritn", "--backend: got 'tritn'", "did you mean triton"),
        ("inspect attention/scalar --arch sm_90", "--arch: got 'sm_90'", "sm_90a"),
        ("inspect attention/scalar --problem big", "got 'big'", "expected a slug such as"),
        ("check --problem b1-h1-n64-d64-bf16", "got 'b1-h1-n64-d64-bf16'", "no mask, write causal or full"),
        ("check --problem b1-h1-n64-d64-fp8-full", "its dtype is 'fp8'", "write fp16 or bf16"),
        ("check --problem=b1-h1-n2147483648-d64-bf16-full", "problem.seq_q: got 2147483648", "less than 2^31"),
        ("check gemm/xor_swizzle --problem foo", "got 'foo'", "such as gemm-m4096-n4096-k4096-bf16"),
        *(
            (
                f"inspect bulk_reduce --problem b4-h16-n4096-d128-bf16-causal {options}",
                "--problem: got b4-h16-n4096-d128-bf16-causal, of attention, but bulk_reduce is of attention_backward",
                "expected one such as attention_backward-b4-h16-n4096-d128-bf16-causal",
            )
            for options in ("", "--on cpu", "--ncu")
        ),
        ("check --operator gemm --problem b1-h1-n64-d64-bf16-full", "--problem: got b1-", "gemm-m4096"),
        (
            "inspect attention/xor_swizzle gemm/xor_swizzle",
            "technique: got gemm/xor_swizzle, of gemm, but attention/xor_swizzle is of attention",
            "run the command for each",
        ),
        (
            "inspect gemm/xor_swizle",
            "technique: got 'gemm/xor_swizle'",
            "did you mean gemm/xor_swizzle or gemm/tma_swizzle?",
        ),
        ("inspect gemm/hilbert", "technique: got 'gemm/hilbert'", "did you mean hilbert_order?"),
        (
            "check gemm/nosuch",
            "technique: got 'gemm/nosuch'",
            "known: gemm/scalar, block_tiled, register_tiled ...; see",
        ),
        ("new foo --from gemm/nosuch", "got 'gemm/nosuch'", "known: gemm/scalar, block_tiled, "),
        ("run gemm/zzz", "experiment: got 'gemm/zzz'", "known: gemm/"),
        ("check gemm", "technique: got 'gemm', an operator", "`twinkernels list`"),
        ("bench gemm/ladder", "got 'gemm/ladder', an experiment", "`twinkernels run gemm/ladder`"),
        ("check ./mine.txt", "kernel: got './mine.txt'", "expected FILE.py:FUNCTION"),
        ("check README.md", "kernel: got 'README.md'", "expected FILE.py:FUNCTION or FILE.cu"),
        ("bench mine:attend", "kernel: got 'mine:attend'", "expected FILE.py:FUNCTION or FILE.cu"),
        ("inspect mine.cu", "technique: got 'mine.cu'", "`twinkernels check FILE --report`"),
        ("check fa3", "technique: got 'fa3', a library", "`twinkernels bench --peer fa3`"),
        ("inspect fa3", "technique: got 'fa3', a library", "`twinkernels bench --peer fa3`"),
        ("run xor_swizzle", "experiment: got 'xor_swizzle', a technique", "`twinkernels check attention/xor_swizzle`"),
        ("check xor_swizle", "technique: got 'xor_swizle'", "attention/xor_swizzle"),
        ("show gemm", "got 'gemm', an operator", "`twinkernels list`"),
        ("show attention/ladder", "got 'attention/ladder', an experiment", "`twinkernels run attention/ladder`"),
        ("run gemm/correctness --on cpu --backend gluon", "got 'gluon', which is", "cuda, triton"),
        ("versions gemm/scalar --triton 3.6.0", "--triton: got 3.6.0 alone", "as 3.6.0,3.9.0"),
        ("versions harness/version.py", "but there is no file harness/version.py", "FILE.py with run()"),
        ("show xor_swizzle", "got 'xor_swizzle', expected", "attention/xor_swizzle or gemm/xor_swizzle"),
        ("bench xor_swizzle large_tile", "expected", "attention/xor_swizzle or gemm/xor_swizzle"),
        ("expressibility xor_swizzle", "expected", "attention/xor_swizzle or gemm/xor_swizzle"),
        ("run ladder", "experiment: got 'ladder', expected", "expected attention/ladder or "),
        ("check --on tpu", "'--on': 'tpu' is not one of", "'gpu', 'cpu'"),
        ("inspect attention/scalar --tile 64x64", "tile: got '64x64'", "it has no stages, write s2"),
        ("inspect attention/scalar --tile 64x64-s1-4", "tile: got '64x64-s1-4'", "its warps is '4', write w4"),
        ("history cuda --gpu b9", "--gpu: got 'b9'", "known: h100, h200"),
        ("expressibility --triton 9.9.9", "--triton: got '9.9.9'", "known: 3.6.0"),
        ("build --experiment attention/ladder --gpu h20", "--gpu: got 'h20'", "did you mean h200"),
        ("history xor_swizle", "CELL: got 'xor_swizle'", "did you mean xor_swizzle"),
        ("history 'cuda xor_swizzle' trton", "CELL: got 'trton'", "did you mean triton"),
        ("history gemm/xor_swizle", "got 'gemm/xor_swizle'", "did you mean gemm/xor_swizzle"),
        ("history fa5", "CELL: got 'fa5'", "did you mean fa4"),
        ("history gluon@3.99.0", "CELL: got 'gluon@3.99.0'", "did you mean gluon@3.9.0"),
        ("history cuda b4-h16-n4096-d128-bf16-casual", "CELL: got 'casual'", "did you mean causal"),
        ("history zzz", "CELL: got 'zzz'", "a technique (`twinkernels list`)"),
        ("history rocm xor_swizzle", "CELL: got 'rocm'", "expected a backend (cuda, triton, "),
        ("history cuda xor_swizzle zzz", "CELL: got 'zzz'", "(`twinkernels list`), a problem, a tile"),
        pytest.param(
            "history cuda d999",
            "CELL: got 'cuda d999'",
            "has these words; `twinkernels run` on such a GPU",
            marks=RECORDED,
        ),
        pytest.param(
            "history either_major gemm-m4096-n4096-k4096-bf16-mn",
            "recorded burst timing of ladder on h200",
            "`--experiment majors` has some",
            marks=RECORDED,
        ),
        ("history cuda --experiment lader", "--experiment: got 'lader'", "ladder"),
        ("history cuda --gpu h20", "--gpu: got 'h20'", "did you mean h200"),
        ("run lader", "experiment: got 'lader'", "ladder"),
        ("run attention/ladder --gpus many", "--gpus: got 'many'", "expected all or a number"),
        ("run attention/laddr", "experiment: got 'attention/laddr'", "did you mean attention/ladder?"),
        ("history cuda --mode brst", "--mode: got 'brst'", "did you mean burst"),
        ("run attention/correctness --on cpu --backend cud", "--backend: got 'cud'", "did you mean cuda"),
        ("run attention/correctness --on cpu --shard 0/4", "--shard: got '0/4'", "I from 1 to N"),
        ("run attention/correctness --on cpu --shard 1/9", "--shard: got '1/9'", "N at most 5, the number of problems"),
        ("run attention/ladder --on cpu", "--on: got cpu", "`twinkernels check --on cpu`"),
        ("record", "Missing argument 'FILE'", "record"),
        ("run", "Missing argument 'EXPERIMENT'", "A name from `list`"),
        ("history", "Missing argument 'CELL'", "Backend, technique, problem, tile"),
        ("compare README.md", "Missing argument 'NEW'", "Rows to judge"),
        ("bench scalr", "technique: got 'scalr'", ""),
        ("bench --problem big", "got 'big'", ""),
        ("bench --peer fa5", "--peer: got 'fa5'", ""),
        ("tune scalr", "technique: got 'scalr'", ""),
        ("sanitize scalr", "technique: got 'scalr'", ""),
        ("run attention/ladder --backend cud", "--backend: got 'cud'", ""),
        ("run attention/ladder --shard 9/9", "--shard: got '9/9'", ""),
        ("run attention/ladder --gpus two", "--gpus: got 'two'", ""),
        ("run attention/ladder --cluster ''", "--cluster: got '', expected auto", ""),
        ("tune --cluster local", "--cluster: got 'local', expected auto", ""),
        (
            "run attention/ladder --cluster 10.0.0.1",
            "expected auto, for a cluster of which this host is a node, or HOST:PORT",
            "",
        ),
        ("tune --cluster :6379", "--cluster: got ':6379'", ""),
        ("tune --cluster ray://10.0.0.1:10001", "--cluster: got 'ray://10.0.0.1:10001'", ""),
        ("run attention/ladder --rows /proc/none/x.jsonl", "--rows: got '/proc/none'", ""),
        ("run attention/ladder --rows reports/recorded/h200/x.jsonl", "which `record` alone writes", ""),
        ("sanitize --tile 256", "got '256'", ""),
        ("sanitize --planted --tile 64x64-s1-w4", "--tile: got it with --planted", ""),
        ("check SCALAR", "did you mean attention/scalar or gemm/scalar", ""),
        ("history ''", "CELL: got no word", ""),
    ],
)
def test_a_wrong_argument_is_named_before_a_gpu_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, command: str, got: str, hint: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, output = invoke(*shlex.split(command))
    assert code == 2
    assert got in output
    assert hint in output
    assert "at every commit" not in output, "told before git is read"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("check attention/scalar --tile 64x64-s1-w4", "--tile: got it without a file"),
        ("check attention/xor_swizzle --tile 32x64-s1-w4", "checked at its own: attention/xor_swizzle at 64x64-s1-w4"),
        ("check mine.py:attend --tile 64x64-s1-w4", "tile: got 64x64-s1-w4, but mine.py:attend is a func"),
        ("bench mine.py:attend --tile 64x64-s1-w4", "tile: got 64x64-s1-w4, but mine.py:attend is a func"),
        ("check mine.py:attend --backend cuda", "--backend: got it with mine.py:attend"),
        ("build --gpu h200", "--gpu: got it without --experiment"),
        ("expressibility --rivals --triton 3.6.0", "--triton: got it with --rivals"),
        ("history cuda --csv --json", "--csv: got it with --json"),
        ("inspect attention/scalar --on cpu --ptxas shared", "--ptxas: got it with --on cpu"),
        ("inspect attention/scalar --on cpu --arch sm_80 --ptxas bundled", "--arch, --ptxas: got it with"),
        ("inspect attention/scalar --on cpu --backend triton", "--backend: got it with --on cpu"),
        ("inspect attention/scalar --on cpu --tile 64x64-s1-w4", "--tile: got it with --on cpu"),
        ("inspect attention/scalar --ncu --arch sm_80", "--arch: got it with --ncu"),
        ("inspect attention/scalar --ncu --ptxas bundled", "--ptxas: got it with --ncu"),
        ("inspect attention/scalar --ncu --on gpu", "--on: got it with --ncu"),
        ("run attention/correctness --on cpu --replicates 3", "--replicates: got it with --on cpu"),
        ("run attention/correctness --on cpu --ptxas shared", "--ptxas: got it with --on cpu"),
        (
            "check attention/scalar --on cpu --backend triton_native",
            "got 'triton_native', which is not run here; expected cuda, triton",
        ),
        ("inspect attention/scalar wmma --backend gluon", "no kernel of attention/scalar, wmma, but of direct_rescale"),
        ("check attention/xor_swizzle --on cpu --backend gluon", "but Triton's interpreter does not"),
        ("run attention/ladder --rows x.log", "expected a name such as run.jsonl"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def attend(): ...\n")
    (tmp_path / "mine.jsonl").touch()
    code, printed = invoke(*shlex.split(command))
    assert code == 2
    assert said in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl", "mine.py"]


def test_more_gpus_than_the_host_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray takes any number for what the host has."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    code, said = invoke("tune", "attention/scalar", "--gpus", "2")
    assert code == 2
    assert "--gpus: got 2, expected all or a number up to 1" in " ".join(said.replace("│", " ").split())


def test_a_gpu_asked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for words in ("check", "run attention/ladder", "inspect attention/scalar"):
        missing = "--on: got gpu, but torch sees none; `twinkernels doctor` says what is missing\n"
        assert invoke(*words.split(), "--on", "gpu") == (2, missing)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("attention", ("bench", "attention/scalar")),
        ("attention", ("tune",)),
        ("gemm", ("sanitize", "gemm/scalar")),
        ("gemm", ("run", "gemm/ladder")),
        ("gemm", ("bench", "--operator", "gemm")),
        ("attention_backward", ("inspect", "bulk_reduce", "--ncu")),
    ],
)
def test_a_command_that_needs_a_gpu_blames_no_option(
    monkeypatch: pytest.MonkeyPatch, operator: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    missing = "this command needs a GPU, but torch sees none; `twinkernels doctor` says what is missing. "
    without = (
        f"Without one: `twinkernels check --on cpu`, `twinkernels run {operator}/correctness --on cpu`, or "
        f"`python experiments/{operator}/ladder.py`, which prints what is recorded\n"
    )
    assert invoke(*arguments) == (2, missing + without)


def test_tools_asked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_sanitizers() -> dict[str, str]:
        raise Unsupported("sanitizers: got no libasan.so; install g++")

    monkeypatch.setattr("harness.build.sanitizer_environment", without_sanitizers)
    missing = "--sanitize: sanitizers: got no libasan.so; install g++\n"
    assert invoke("check", "attention/scalar", "--on", "cpu", "--sanitize") == (2, missing)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("cuda_kernels.toolchain.find", lambda homes: None)
    missing = "ptxas: got shared without an nvcc; `twinkernels doctor` says how to get one\n"
    assert invoke("run", "attention/ladder", "--ptxas", "shared") == (2, missing)


@pytest.mark.parametrize(
    "word", ["d128", "b4-h16", "h6k2", "q1k4096", "64x128", "w8-num_ctas2", "bf16-full", "bshd", "mine.py:attend"]
)
def test_a_part_of_a_cell_is_no_wrong_name(word: str) -> None:
    options.require_words_of_cells(
        [word, "setmaxnreg_consumers", "sdpa_cudnn", "tlx@3.8.0", "was_there"], ["was_there"]
    )


def test_record_refuses_a_run_made_without_a_gpu(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_text('{"kind":"gate","status":"passed","time":"2030-01-01T00:00:00Z","on":"cpu"}\n')
    code, output = invoke("record", str(run))
    assert code == 2
    assert "run.jsonl:1: row.operator: got nothing" in " ".join(output.split())


@pytest.mark.parametrize("command", ["record", "compare"])
def test_a_file_of_anything_but_rows_is_bad_usage(tmp_path: Path, command: str) -> None:
    log = tmp_path / "run.log"
    log.write_text("08:15 gate scalar cuda\n")
    code, output = invoke(command, *[str(log)] * (1 + (command == "compare")))
    assert code == 2
    assert f"{log}:1: not JSON" in output
    assert "expected a row of reports/runs/*.jsonl" in output


@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_terminal_obeys_no_argument_that_an_error_repeats(command: str, tmp_path: Path) -> None:
    missing, known = tmp_path / "\x1b[2J.cu", tmp_path / "\x1b[3J.py"
    known.write_text("def attend(): ...")
    for argument in (str(missing), f"{known}:other", "\x1b[2J", "--\x1b[2J"):
        code, output = invoke(command, argument)
        assert code == 2
        assert "\x1b[2J" not in output
        assert "\x1b[3J" not in output


def test_packages_of_another_checkout_are_refused(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    for package in cli.PACKAGES:
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").touch()
    shutil.rmtree(tmp_path / "triton_kernels")
    elsewhere = tmp_path / "site"
    (elsewhere / "triton_kernels").mkdir(parents=True)
    (elsewhere / "triton_kernels" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from harness.cli import main; main(['list'])"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{elsewhere}"},
    )
    assert done.returncode == 2
    assert f"triton_kernels: got {elsewhere / 'triton_kernels'}" in done.stderr


def test_a_bare_python_is_told_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-S", "-m", "harness", "list"], capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 1
    assert "typer is missing here. `make report` sets up" in done.stderr


def test_a_hostile_run_stops_the_scorecard_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1-ladder.jsonl").write_text(
        json.dumps({"schema": results.SCHEMA, "kind": "timing", "status": "passed"}) + "\n"
    )
    monkeypatch.setattr("harness.cli.comparing.RUNS", tmp_path)
    monkeypatch.setattr("harness.cli.comparing.RECORDED", tmp_path / "none")
    with pytest.raises(SystemExit) as end:
        cli.main(["scorecard"])
    assert end.value.code == 2
    assert "1-ladder.jsonl:1: row.on: got nothing" in capsys.readouterr().err


@pytest.mark.parametrize("letter", [*sorted(cli.AWKWARD), "\udcff"])
def test_a_path_at_which_compilers_fail_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], letter: str
) -> None:
    monkeypatch.setattr(cli, "CACHE", Path(f"/tmp/a{letter}b"))
    with pytest.raises(SystemExit) as end:
        cli.main(["list"])
    assert end.value.code == 2
    assert f"TWINKERNELS_CACHE: got {str(cli.CACHE)!r} with " in capsys.readouterr().err


def test_a_path_with_a_space_is_taken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "CACHE", Path("/tmp/a b"))
    monkeypatch.setenv("TRITON_CACHE_DIR", os.environ.get("TRITON_CACHE_DIR", ""))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert not end.value.code
    assert capsys.readouterr().out


def test_a_problem_of_a_gpus_size_is_refused_on_a_cpu_with_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any work; thread by thread a launch took minutes, and a right kernel was called a timeout."""
    ran = []
    monkeypatch.setattr("harness.measure.runner.run", lambda experiment, **rest: ran.append(rest) or [])
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    code, said = invoke("check", "attention/scalar", "--on", "cpu", "--problem", "b4-h16k4-n4096-d128-bf16-causal")
    assert (code, ran) == (2, [])
    large = ("inspect", "attention/scalar", "--on", "cpu", "--problem", "b64-h64-n65536-d64-fp16-full")
    assert "takes this CPU about" in invoke(*large)[1]
    like = re.search(r"expected one such as (\S+),", said)
    assert like, said
    assert like[1] == "b1-h4k1-n512-d128-fp16-causal"
    assert "takes this CPU about" in said
    code, said = invoke("check", "attention/scalar", "--on", "cpu", "--problem", "b1-h4-q512k2048-d64-fp16-full")
    assert len(ran) == 1
    assert re.search(r"about \d+ min on this CPU; b1-h1-q128k512-d64-fp16-full is one such", said)
    code, said = invoke("check", "attention/scalar", "--on", "cpu", "--problem", like[1], "--backend", "cuda")
    assert len(ran) == 2
    assert "min on this CPU" not in said
    assert ran[0]["patient"] is False, "one Ctrl-C ends it"
    mine = f"{CHECKOUT}/tests/support/own_kernels.py:attend"
    code, said = invoke("check", mine, "--on", "cpu", "--problem", "b4-h16-n4096-d128-bf16-causal")
    assert len(ran) == 3
    assert re.search(r"about \d+ min on this CPU; b1-h1-n512-d128-bf16-causal is one such", said)
