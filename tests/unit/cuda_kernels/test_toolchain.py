"""One rule for which CUDA compiler builds, whoever asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_kernels import toolchain
from harness.machine import environment
from harness.setup import bootstrap, doctor
from tests.support.checkout import executable


def toolkit(home: Path, release: str) -> Path:
    """A folder that looks like a CUDA toolkit of this release."""
    (home / "bin").mkdir(parents=True)
    for tool in ("nvcc", "ptxas"):
        said = f"Cuda compilation tools, release {release}, V{release}.88"
        executable(home / "bin" / tool, f"#!/bin/sh\necho '{said}'\n")
    (home / "include").mkdir()
    (home / "include" / "cuda_runtime.h").touch()
    return home


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    toolchain.toolchain.cache_clear()
    yield
    toolchain.toolchain.cache_clear()


@pytest.mark.slow
def test_everybody_skips_a_toolkit_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = toolkit(tmp_path / "old", "12.4"), toolkit(tmp_path / "new", "13.1")
    monkeypatch.setenv("CUDA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/bin:/usr/bin")
    assert toolchain.toolchain() == toolchain.Toolchain(new, "13.1.88", "13.1.88")
    assert doctor.nvcc() == str(new / "bin" / "nvcc")
    recorded = environment.describe([])["toolchain"]
    assert (recorded["nvcc"], recorded["ptxas"]) == ("13.1.88", "13.1.88")


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = toolkit(tmp_path / "first", "12.8"), toolkit(tmp_path / "second", "13.1")
    monkeypatch.setenv("CUDA_HOME", str(first))
    monkeypatch.setenv("PATH", f"{second / 'bin'}:/bin:/usr/bin")
    assert toolchain.toolchain().home == first


def test_a_toolkit_without_headers_or_that_does_not_run_is_none(tmp_path: Path) -> None:
    headless, broken = toolkit(tmp_path / "headless", "13.0"), toolkit(tmp_path / "broken", "13.0")
    (headless / "include" / "cuda_runtime.h").unlink()
    (broken / "bin" / "ptxas").write_text("#!/no/such/shell\n")
    assert toolchain.find([headless, broken, tmp_path / "absent"]) is None
    assert toolchain.find([headless, toolkit(tmp_path / "good", "13.0")])


def test_set_up_installs_a_compiler_where_only_an_old_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = toolkit(tmp_path / "old", "12.4")
    monkeypatch.setattr(toolchain, "system_homes", lambda: [old])
    assert not bootstrap.system_nvcc()
    monkeypatch.setattr(toolchain, "system_homes", lambda: [old, toolkit(tmp_path / "new", "12.9")])
    assert bootstrap.system_nvcc()


def test_what_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = toolkit(tmp_path / "old", "12.4")
    monkeypatch.setattr(toolchain, "homes", lambda: [old])
    with pytest.raises(toolchain.ToolchainError, match=r"got 12\.4\.88 in .*old, expected 12\.8 or newer"):
        toolchain.toolchain()
