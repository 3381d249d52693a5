"""harness/setup/doctor.py: says what is missing and how to get it; fails only when the main job cannot run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.setup import bootstrap, doctor
from tests.conftest import CHECKOUT
from tests.support.checkout import executable


def find(findings: list[doctor.Finding], name: str) -> doctor.Finding:
    return next(finding for finding in findings if finding.name == name)


@pytest.mark.slow
def test_this_machine_can_make_the_report_and_what_is_missing_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert doctor.main(as_json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["healthy"]
    assert all(row["purpose"] and (row["remedy"] or row["found"]) for row in answer["findings"])
    assert {"torch", "triton", "nvcc", "g++", "GPU", "FlexAttention"} <= {row["name"] for row in answer["findings"]}


@pytest.mark.slow
@pytest.mark.parametrize("words", [("harness.setup.doctor",), ("harness", "doctor")])
def test_a_bare_python_can_run_it(words: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-S", "-m", *words], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "torch>=2.11: `make report` sets it up" in done.stdout
    assert "`make report` can run here" in done.stdout
    assert ".venv" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("gpu", "said"), [(False, "0.6 GB to download, 2.3 GB on disk"), (True, "2.9 GB to download, 5.6 GB on disk")]
)
def test_what_a_set_up_takes_is_told_for_network_and_disk(
    gpu: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "has_gpu", lambda: gpu)
    monkeypatch.setattr(bootstrap, "is_set_up", lambda: False)
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("torch", None, "tensors", "pip", True, True)])
    monkeypatch.setattr(doctor, "healthy", lambda _: True)
    doctor.main(as_json=False)
    assert f"into .venv, in this folder: about {said}." in capsys.readouterr().out


def test_what_keeps_a_set_up_from_being_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "lacking", lambda *extras: ["torch>=2.11 (not installed)"])
    monkeypatch.setattr("shutil.which", lambda name, **_: None)
    findings = doctor.examine()
    assert "apt install g++" in find(findings, "g++").remedy
    assert not doctor.healthy(findings)


def test_an_old_python_is_named_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "OLDEST_PYTHON", (3, 99))
    (finding,) = doctor.examine()
    assert finding.found is None
    assert "apt install python3.11 python3.11-venv" in finding.remedy
    assert not doctor.healthy([finding])


@pytest.mark.parametrize(
    ("gpu", "found"),
    [
        ("NVIDIA H200, 140 GiB", "tuned on h200, another Hopper GPU's for what it has none for"),
        ("NVIDIA H100 80GB HBM3, 80 GiB", "tuned on h100, another Hopper GPU's for what it has none for"),
        ("NVIDIA H20, 96 GiB", "another Hopper GPU's for what it has none for"),
        ("NVIDIA A100-SXM4-80GB, 80 GiB", None),
    ],
)
def test_it_says_once_whose_tiles_serve_a_gpu(gpu: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_nvml", lambda: (gpu, "1"))
    (tiles,) = [finding for finding in doctor._gpu() if finding.name == "tiles"]
    assert tiles.found == found


def test_it_knows_the_tools_that_commands_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("ncu", "compute-sanitizer"):
        finding = find(list(doctor._gpu()), name)
        assert finding.found or "CUDA toolkit" in finding.remedy


@pytest.mark.parametrize(
    ("name", "remedy"), [("ray", "pip install -e '.[cluster]'"), ("pygal", "pip install 'pytest-benchmark[histogram]'")]
)
def test_what_few_options_need_is_named_and_not_required(
    monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda distribution: None if distribution == name else "1.0")
    finding = find(list(doctor._python()), name)
    assert (finding.found, finding.remedy, finding.required) == (None, remedy, False)
    monkeypatch.setattr(doctor, "_installed", lambda distribution: "2.0")
    assert find(list(doctor._python()), name).found == "2.0"


def test_without_a_compiler_the_main_job_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "nvcc", lambda: None)
    findings = doctor.examine()
    assert find(findings, "nvcc").found is None
    assert "pip install -e '.[nvcc]'" in find(findings, "nvcc").remedy
    assert not doctor.healthy(findings)


def test_a_compiler_of_mixed_releases_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ptxas fatal   : Unsupported .version 9.5; current version is 9.0"
    nvcc = executable(tmp_path / "nvcc", f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    monkeypatch.setattr(doctor, "nvcc", lambda: str(nvcc))
    finding = find(doctor.examine(), "nvcc")
    assert finding.found is None
    assert "Unsupported .version 9.5" in finding.remedy
    assert "of one release" in finding.remedy


def test_an_interpreter_that_numpy_breaks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"triton": "3.6.0", "numpy": "2.5.2"}
    monkeypatch.setattr("importlib.metadata.version", lambda name: installed.get(name, "1.0"))
    monkeypatch.setattr(bootstrap, "unmet", lambda required: [])
    finding = find(list(doctor._python()), "Triton's interpreter")
    assert finding.found is None
    assert "numpy<2.4 for Triton 3.6.0 (installed: 2.5.2)" in finding.remedy
    installed["triton"] = "3.7.1"
    assert find(list(doctor._python()), "Triton's interpreter").found
