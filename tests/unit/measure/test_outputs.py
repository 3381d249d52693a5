"""Recorded outputs follow their kernels: another name, sources of the same machine code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.catalog import techniques
from harness.measure import outputs
from harness.rows.renew import program
from harness.variants import Case

PROBLEM = outputs.PROBLEMS[0]


def case_of(name: str) -> Case:
    return Case("outputs", name, "cuda", PROBLEM, techniques.reference_tile(techniques.get(name), PROBLEM.head_dim))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pair = torch.ones(1, 2, 3, 4, dtype=torch.float16), torch.zeros(1, 2, 3)
    for name in ("scalar", "wmma"):
        outputs.save(tmp_path, case_of(name), "old", pair)
    return tmp_path


def test_outputs_of_an_earlier_source_follow_rows_of_their_program(folder: Path) -> None:
    case = case_of("scalar")
    assert case.tile is not None
    row = {"technique": "scalar", "backend": "cuda", "problem": PROBLEM.to_dict(), "tile": case.tile.to_dict()}
    outputs.renew(folder, {(*program(row), "old"): "new"})
    assert outputs.load(folder, case, "new")[0].shape == (1, 2, 3, 4)
    assert outputs.load(folder, case_of("wmma"), "old")[0].shape == (1, 2, 3, 4)
    with pytest.raises(outputs.Missing):
        outputs.load(folder, case, "old")


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\3\4 torn"])
def test_a_damaged_file_is_not_the_kernels_fault(folder: Path, content: bytes) -> None:
    (path,) = folder.glob("*.npz")
    path.write_bytes(content)
    with pytest.raises(outputs.Missing, match=r"\.npz: not outputs \(.+\); restore it"):
        outputs.load(folder, case_of("scalar"), "old")


def test_outputs_follow_a_new_name(folder: Path) -> None:
    outputs.rename(folder, "wmma", "xor_swizzle")
    with pytest.raises(outputs.Missing, match="wmma"):
        outputs.load(folder, case_of("wmma"), "old")
    (path,) = folder.glob("*.npz")
    index, _ = outputs._read(path)
    assert sorted(index) == ["scalar", "xor_swizzle"]
