"""The environment row says what the machine is, and not whose."""

import getpass
import json
import os
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.catalog.sources import ROOT
from harness.machine import environment
from harness.rows import results

H200 = {
    "name": "NVIDIA H200",
    "capability": [9, 0],
    "sm_count": 132,
    "max_sm_mhz": 1980,
    "max_memory_mhz": 3201,
    "memory_bus_bits": 6144,
    "other_processes": 0,
    "utilization": 0,
}


def test_describes_software_and_checkout_and_names_no_person_host_or_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{os.path.expanduser('~')}/secret/cache")
    monkeypatch.setenv("TORCH_HOME", str(ROOT / "build"))
    monkeypatch.setenv("UNRELATED_TOKEN", "hush")
    described = environment.describe(["/home/somebody/bin/tool", "/root/plan"])
    text = json.dumps(described, allow_nan=False)
    assert {"torch", "triton"} <= {name for name, version in described["software"].items() if version}
    assert set(described["git"]) == {"sha", "dirty"}
    assert len(results.environment_id(described)) == 12
    assert described["variables"]["TRITON_CACHE_DIR"] == "cache"
    assert described["variables"]["TORCH_HOME"] == "./build"
    assert described["argv"] == ["tool", "plan"]
    for private in ("secret", "hush", "somebody", str(ROOT)):
        assert private not in text
    if len(platform.node()) > 3:
        assert platform.node() not in text
    if getpass.getuser() != "root":
        assert getpass.getuser() not in text


def test_peaks_follow_from_the_clocks() -> None:
    peaks = environment.peaks(H200)
    assert peaks["tensor_tflops"] == pytest.approx(132 * 1980e6 * 4096 / 1e12, rel=1e-3)
    assert peaks["fp32_tflops"] == pytest.approx(132 * 1980e6 * 256 / 1e12, rel=1e-3)
    assert peaks["bytes_per_s"] == pytest.approx(4.917e12, rel=1e-3)
    unknown = environment.peaks({**H200, "capability": [7, 0], "memory_bus_bits": None})
    assert unknown == {"tensor_tflops": None, "fp32_tflops": None, "bytes_per_s": None}
    assert environment.peaks(None) is None


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        (f"{ROOT}/cuda_kernels/a.cu(12): error", "./cuda_kernels/a.cu(12): error"),
        (f"{ROOT}ly/other", "other"),
        ("/usr/local/cuda/bin/nvcc failed", "nvcc failed"),
        ("A=/usr/lib:/opt/x/lib", "A=lib:lib"),
        ("a/b, 1/2, 3 / 4, https://x.org/y", "a/b, 1/2, 3 / 4, https://x.org/y"),
        ('File "/home/me/x.py", line 3', 'File "x.py", line 3'),
    ],
)
def test_paths_of_this_machine_are_scrubbed(text: str, scrubbed: str) -> None:
    assert environment.scrub(text) == scrubbed


def test_warns_of_a_busy_gpu_and_a_dirty_checkout() -> None:
    clean = {"sha": "1", "dirty": False}
    assert environment._warnings(H200, clean) == []
    busy = environment._warnings({**H200, "other_processes": 2, "utilization": 80}, {**clean, "dirty": True})
    assert busy[-1].endswith(": rows will say so")
    assert [warning.split(":")[0] for warning in busy] == [
        "2 other processes use the GPU",
        "the GPU was 80% busy before the run",
        "the checkout has uncommitted changes",
    ]


def test_a_file_that_git_does_not_know_counts_where_sources_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel of the user's, or a picture, in the checkout was told as a change of it."""
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.delenv("TWINKERNELS_COMMIT", raising=False)
    for command in (["init", "-q"], ["config", "user.name", "a test"], ["config", "user.email", "a@test.invalid"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "README.md").touch()
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "-qm", "first"], cwd=tmp_path, check=True)
    (tmp_path / "my_kernel.py").touch()
    (tmp_path / "my_kernels").mkdir()
    (tmp_path / "my_kernels" / "one.cu").touch()
    assert environment._git()["dirty"] is False
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "new.py").touch()
    assert environment._git()["dirty"] is True
    (tmp_path / "harness" / "new.py").unlink()
    (tmp_path / "README.md").write_text("changed")
    assert environment._git()["dirty"] is True


def test_a_gpu_without_nvml_is_still_described(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H200", uuid="abc", major=9, minor=0, multi_processor_count=132, L2_cache_size=1, total_memory=2
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(environment.clocks, "device", lambda _: None)
    described = environment.describe([])
    assert described["gpu"]["name"] == "NVIDIA H200"
    assert described["gpu"]["driver"] is None
    assert described["peaks"]["tensor_tflops"] is None
    assert "abc" not in json.dumps(described["gpu"])


@pytest.mark.gpu
def test_a_real_gpu_answers_every_question() -> None:
    described = environment.describe([])
    for name in ("driver", "sm_count", "l2_bytes", "max_sm_mhz", "power_limit_w"):
        assert described["gpu"][name], name
    assert described["peaks"]["tensor_tflops"] > 10
