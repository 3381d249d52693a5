"""Every Python that README names, where it is on PATH: set up from the lock in a copy of the checkout, and at work."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.setup import bootstrap
from tests.support.checkout import copied


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
