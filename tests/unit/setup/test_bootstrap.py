"""harness/setup/bootstrap.py: which Python runs, what is installed, and that a second start is fast."""

import ast
import importlib.metadata
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.setup import bootstrap
from tests.conftest import CHECKOUT
from tests.support.checkout import copied, executable

OPTIONAL = {"twinkernels", "flash-attn", "flash-attn-3", "flash-attn-4", "triton-utlx", "ray"}
"""Imported where it is there: this checkout, libraries that kernels are held against, another dialect, an extra."""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without .venv, on a machine without GPU and nvcc; installs are recorded by `pip_calls`."""
    for name in ("pyproject.toml", *bootstrap.LOCKS):
        shutil.copy(CHECKOUT / name, tmp_path)
    venv = tmp_path / ".venv"
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", venv)
    monkeypatch.setattr(bootstrap, "PYTHON", venv / "bin/python")
    monkeypatch.setattr(bootstrap, "STAMP", venv / "set-up")
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: False)
    monkeypatch.setattr(bootstrap, "system_nvcc", lambda: False)
    monkeypatch.setattr(bootstrap, "unmet", lambda required: ["torch>=2.11 (not installed)"])
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda name, **rest: None if name == "uv" else which(name, **rest))
    return tmp_path


@pytest.fixture
def made(checkout: Path) -> None:
    """Of .venv the Python, by name only: making one takes seconds."""
    bootstrap.PYTHON.parent.mkdir(parents=True)
    bootstrap.PYTHON.touch()


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Every call of pip; the dry run for torch answers that pip would take `2.13.0+cpu`."""
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str) -> None:
        calls.append(arguments)
        if "--report" in arguments:
            report = Path(arguments[arguments.index("--report") + 1])
            report.write_text('{"install": [{"metadata": {"version": "2.13.0+cpu"}}]}')

    monkeypatch.setattr(bootstrap, "pip", pip)
    return calls


@pytest.mark.parametrize(
    ("text", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("13.0", (13, 0)), ("2.12.0a0+git1a2b3c", (2, 12, 0))]
)
def test_a_version_is_its_leading_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert bootstrap.version(text) == numbers


def test_unmet_names_what_is_missing_too_old_or_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", {"a": "3.6.0", "b": "3.6.0", "c": "3.10.0", "d": "1.0"}.get)
    assert bootstrap.unmet(["a>=3.6,<3.10", "d"]) == []
    assert bootstrap.unmet(["b>=3.7"]) == ["b>=3.7 (installed: 3.6.0)"]
    assert bootstrap.unmet(["c>=3.6,<3.10"]) == ["c>=3.6,<3.10 (installed: 3.10.0)"]
    monkeypatch.undo()
    assert bootstrap.unmet(["no-such-package-here>=1"]) == ["no-such-package-here>=1 (not installed)"]


def test_a_python_that_has_everything_is_used_as_it_is(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "unmet", lambda required: [])
    assert bootstrap.find_python() == Path(sys.executable)
    assert not bootstrap.VENV.exists()


@pytest.mark.slow
def test_set_up_happens_once_and_again_when_the_pins_change(checkout: Path, pip_calls: list) -> None:
    assert bootstrap.find_python() == checkout / ".venv/bin/python"
    installs = [call for call in pip_calls if "--dry-run" not in call]
    assert installs == [
        ("install", "--no-deps", "torch==2.13.0"),
        ("install", "--editable", f"{checkout}[dev,nvcc]", "--constraint", str(checkout / "constraints-cpu.txt")),
    ]
    pip_calls.clear()
    bootstrap.find_python()
    assert pip_calls == []
    with (checkout / "constraints.txt").open("a") as constraints:
        constraints.write("rich<99\n")
    bootstrap.find_python()
    assert pip_calls


@pytest.mark.usefixtures("made")
def test_a_failed_set_up_is_not_taken_for_a_finished_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(*arguments: str) -> None:
        raise bootstrap.SetupError("no network")

    monkeypatch.setattr(bootstrap, "pip", pip)
    for _ in range(2):
        with pytest.raises(bootstrap.SetupError, match="no network"):
            bootstrap.find_python()


def test_torch_comes_from_the_cpu_index_unless_pip_finds_a_cpu_build(
    checkout: Path, pip_calls: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = bootstrap.torch_pin()
    assert bootstrap.torch_arguments() == [torch]

    def pip(*arguments: str) -> None:
        report = Path(arguments[arguments.index("--report") + 1])
        report.write_text('{"install": [{"metadata": {"version": "2.13.0"}}]}')

    monkeypatch.setattr(bootstrap, "pip", pip)
    assert bootstrap.torch_arguments() == [torch, "--index-url", bootstrap.CPU_INDEX]
    monkeypatch.setenv("TORCH_INDEX", "https://example.org/simple")
    assert bootstrap.torch_arguments() == [torch, "--index-url", "https://example.org/simple"]
    monkeypatch.delenv("TORCH_INDEX")
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: True)
    assert bootstrap.torch_arguments() == ["torch==2.11.0"]


def test_an_index_out_of_reach_is_told_with_the_variable_that_names_another(checkout: Path) -> None:
    bootstrap.PYTHON.parent.mkdir(parents=True)
    bootstrap.PYTHON.symlink_to("/bin/false")
    with pytest.raises(bootstrap.SetupError, match=r"one that has torch==2\.13\.0: TORCH_INDEX=<url> make report"):
        bootstrap.find_python()


@pytest.mark.usefixtures("made")
def test_uv_installs_from_the_same_lock_where_it_is_there(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "ran", commands.append)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    bootstrap.find_python()
    to = ["/bin/uv", "pip", "install", "--python", str(bootstrap.PYTHON)]
    assert commands == [
        [*to, "--no-deps", "torch==2.13.0", "--index-url", bootstrap.CPU_INDEX],
        [*to, "--editable", f"{checkout}[dev,nvcc]", "--constraint", str(checkout / "constraints-cpu.txt")],
    ]


def test_the_lock_pins_all_that_is_installed() -> None:
    """Every requirement has one exact version that the bounds in pyproject.toml allow, and torch one of each kind."""
    pins = dict(line.split("==") for line in (CHECKOUT / "constraints.txt").read_text().split("\n") if "==" in line)
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    for kind in ("cpu", "gpu"):
        text = (CHECKOUT / f"constraints-{kind}.txt").read_text()
        assert "-c constraints.txt\n" in text
        torch = dict(re.findall(r"^(torch)==(.*)$", text, re.MULTILINE))
        for requirement in bootstrap.requirements("test", "dev"):
            name, bounds = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?(.*)", requirement).groups()  # type: ignore[union-attr]
            if name == "twinkernels":
                continue
            version = bootstrap.version({**pins, **torch}[name.lower()])
            for sign, bound in re.findall(r"(>=|<)([\d.]+)", bounds):
                assert (version >= bootstrap.version(bound)) == (sign == ">="), requirement


def test_missing_venv_and_missing_compiler_name_the_package(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(bootstrap.SetupError, match=r"apt install g\+\+"):
        bootstrap.find_python()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(bootstrap.SetupError, match=r"apt install python3\.\d+-venv"):
        bootstrap.find_python()


@pytest.mark.usefixtures("made", "pip_calls")
def test_a_gpu_needs_python_h(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "python_header", lambda: checkout / "Python.h")
    bootstrap.find_python()
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: True)
    with pytest.raises(bootstrap.SetupError, match=r"apt install python3\.\d+-dev"):
        bootstrap.find_python()


def test_only_the_tests_need_the_test_tools(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "unmet", lambda required: [one for one in required if one.startswith("pytest")])
    started: list[str] = []
    monkeypatch.setattr("os.execv", lambda path, arguments: started.append(path))
    monkeypatch.setattr(bootstrap, "set_up", lambda: bootstrap.STAMP.parent.mkdir())
    bootstrap.main(["-m", "harness", "report"])
    bootstrap.main(["-m", "pytest"])
    assert started == [sys.executable, str(bootstrap.PYTHON)]


@pytest.mark.parametrize(
    ("numpy", "gpu", "good"), [("2.3.5", False, True), ("2.4.0", False, False), ("2.4.0", True, True)]
)
def test_a_python_that_breaks_the_interpreter_is_not_used_where_the_interpreter_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, numpy: str, gpu: bool, good: bool
) -> None:
    monkeypatch.setattr(bootstrap, "unmet", lambda required: [])
    monkeypatch.setattr("importlib.metadata.version", {"triton": "3.6.0", "numpy": numpy}.get)
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: gpu)
    monkeypatch.setattr(bootstrap, "set_up", lambda: bootstrap.STAMP.parent.mkdir())
    assert (bootstrap.find_python() == Path(sys.executable)) == good


def test_an_old_python_looks_for_a_newer_one_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in (("python3.13", 127), ("python3.12", 0)):  # the first is a shim of a version manager
        executable(tmp_path / name, f"#!/bin/sh\nexit {code}\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bootstrap.newer_python() == str(tmp_path / "python3.12")
    (tmp_path / "python3.12").unlink()
    with pytest.raises(bootstrap.SetupError, match=r"apt install python3\.11 python3\.11-venv, then make PYTHON="):
        bootstrap.newer_python()


def test_a_second_start_takes_under_five_seconds() -> None:
    """Of a processor: what else the machine does is not counted."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    done = subprocess.run(
        [sys.executable, "-m", "harness.setup.bootstrap", "-c", "print('started')"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "started\n"
    assert spent() - before < 5


def test_the_compiler_wheels_are_of_one_release() -> None:
    pins = dict(re.findall(r"([\w-]+)==([\d.]+)", " ".join(bootstrap.requirements("nvcc"))))
    assert pins["nvidia-cuda-nvcc"] == pins["nvidia-cuda-crt"] == pins["nvidia-nvvm"]
    assert {version.rpartition(".")[0] for version in pins.values()} == {"13.0"}


@pytest.mark.slow
def test_what_is_imported_is_declared() -> None:
    """No package stands on what another one happens to bring."""
    declared = {re.split(r"[<>=]", one)[0].lower() for one in bootstrap.requirements()}
    names = importlib.metadata.packages_distributions()
    imported: set[str] = set()
    for package in ("cuda_kernels", "experiments", "harness", "reports", "triton_kernels"):
        for path in (CHECKOUT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    imported.add(node.module.partition(".")[0])
    needed = {name.lower().replace("_", "-") for module in imported & set(names) for name in names[module]}
    assert needed - declared - OPTIONAL == set()


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_lock_of_a_gpu_resolves_to_one_version_of_each_package(tmp_path: Path) -> None:
    lock = [line for file in ("constraints.txt", "constraints-gpu.txt") for line in (CHECKOUT / file).open()]
    pinned = {plain(line.partition("==")[0]) for line in lock if "==" in line and not line.startswith("#")}
    (torch,) = (line.strip() for line in lock if line.startswith("torch=="))
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--report", str(report), "--constraint", "constraints-gpu.txt", torch, "--editable", ".[dev,nvcc]"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if "No matching distribution found for torch" in done.stderr:
        pytest.skip(f"no index in reach has {torch}")
    assert done.returncode == 0, done.stderr[-2000:]
    found = [package["metadata"] for package in json.loads(report.read_text())["install"]]
    required = [line for package in found for line in package.get("requires_dist", [])]
    exact = {plain(match[1]) for line in required if (match := re.match(r"([\w.-]+)(?:\[.*?\])?==[^,]*(;|$)", line))}
    left_open = {plain(package["name"]) for package in found} - pinned - exact - {"twinkernels"}
    assert left_open == set()


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_a_python_sets_itself_up_and_checks_both_twins(tmp_path: Path, name: str) -> None:
    python = shutil.which(name)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{name} is not on PATH")
    copied(tmp_path, "pyproject.toml", "LICENSE", *bootstrap.LOCKS)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("TWINKERNELS", "VIRTUAL_ENV"))}
    work = ["-m", "harness", "check", "attention/scalar", "--on", "cpu", "--problem", "b1-h1-n128-d64-fp16-full"]
    done = subprocess.run(
        [python, "-m", "harness.setup.bootstrap", *work],
        cwd=tmp_path,
        env=inherited,
        capture_output=True,
        text=True,
    )
    if "TORCH_INDEX=<url> make report" in done.stderr:
        pytest.skip(f"no index in reach has {bootstrap.torch_pin()} for {name}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / ".venv" / "bin" / name).exists(), "it ran in an environment of its own"


MEASURED = ("reports/runs/1-ladder.jsonl", ".benchmarks/Linux/0001_a.json")
MADE = ("build/cpu/scalar.so", "reports/site/index.html", ".venv/bin/python", "harness/__pycache__/a.pyc")


def test_clean_leaves_what_a_gpu_measured_and_clean_all_lists_what_it_removes(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    recorded = "reports/recorded/h200/attention/ladder/run.jsonl.xz"
    for name in (*MEASURED, *MADE, recorded):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def made(target: str) -> tuple[str, set[str]]:
        done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout, {name for name in (*MEASURED, *MADE, recorded) if (tmp_path / name).exists()}

    assert made("clean")[1] == {*MEASURED, recorded}
    said, left = made("clean-all")
    assert left == {recorded}
    assert all(said.index(name) < said.index("rm -rf") for name in MEASURED)


@pytest.mark.slow
def test_caches_of_the_report_stay_inside_the_folder(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    code = "import reports.draw.style, matplotlib; print(matplotlib.get_configdir(), matplotlib.get_cachedir())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env=variables | {"TWINKERNELS_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / "cache" / "matplotlib")] * 2
