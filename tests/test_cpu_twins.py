"""Every wrapper in cuda_kernels/ptx has its CPU twin of the same name in the same header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cuda_kernels.cpu_build import HERE

# `DEVICE type name(`, a host function that returns Error, or a macro that makes a wrapper of its first argument.
_WRAPPER = re.compile(
    r"^(?:template <[^;{]*?>\s+)?(?:DEVICE [\w:]+[ &*]+|Error )(\w+)(?:<[\w:]*>)?\(|^[A-Z]+_[A-Z]+\((\w+), \"",
    re.MULTILINE,
)


def wrappers(header: Path) -> set[str]:
    """Names of the functions that a header of ptx/ offers."""
    return {function or made for function, made in _WRAPPER.findall(header.read_text())}


def missing(ptx: Path, twins: Path) -> list[str]:
    """header: wrapper, for everything in `ptx` that `twins` lacks."""
    lacking = []
    for header in sorted(ptx.glob("*.cuh")):
        twin = twins / header.name
        there = wrappers(twin) if twin.is_file() else set()
        lacking += [f"{header.name}: {name}" for name in sorted(wrappers(header) - there)]
    return lacking


def test_every_wrapper_has_its_twin() -> None:
    assert missing(HERE / "ptx", HERE / "cpu" / "ptx") == []


def test_no_twin_is_an_orphan() -> None:
    orphans = missing(HERE / "cpu" / "ptx", HERE / "ptx")
    assert [name for name in orphans if name != "wgmma.cuh: wgmma_format"] == []


def test_wrappers_are_found() -> None:
    found = {header.name: wrappers(header) for header in (HERE / "ptx").glob("*.cuh")}
    assert {"tid_x", "shared_base", "launch_kernel", "register_fence"} <= found["kernel.cuh"]
    assert {"cvt_pack", "cvt_rn", "cvt_f32", "ex2_approx_ftz"} <= found["math.cuh"]
    assert {"wgmma_mma_async_ss", "wgmma_wait_group", "wgmma_descriptor"} <= found["wgmma.cuh"]
    assert {"wmma_load_a_row", "wmma_mma_row_col"} <= found["wmma.cuh"]
    assert all(found.values())


@pytest.mark.parametrize("whole_header", [True, False])
def test_a_missing_twin_is_named(tmp_path: Path, whole_header: bool) -> None:
    ptx, twins = tmp_path / "ptx", tmp_path / "cpu"
    ptx.mkdir()
    twins.mkdir()
    (ptx / "redux.cuh").write_text("DEVICE int redux_add(int x) { return x; }\nDEVICE int redux_max(int x);\n")
    if not whole_header:
        (twins / "redux.cuh").write_text("DEVICE int redux_max(int x) { return x; }\n")
    expected = ["redux.cuh: redux_add"] + ["redux.cuh: redux_max"] * whole_header
    assert missing(ptx, twins) == expected
