"""A CUDA kernel that asks for a workspace gets it zeroed, on a CPU watched like its other tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_kernels import cpu_build
from harness import build
from harness.catalog.entries import Tile
from harness.measure import arenas
from harness.operators.attention.problem import Problem

PROBLEM = Problem(1, 3, 3, 64, 64, 64, "fp16")
COUNTER = "atom_inc(static_cast<uint32_t*>(args.workspace) + ctaid_x() + {beyond}, THREADS - {last});\n  "
SIZE = "\nEXPORT int workspace_bytes(const AttentionArgs* args) { return args->heads * 4; }\n"


@pytest.mark.parametrize(
    ("beyond", "last", "diagnosis"),
    [
        (0, 1, None),
        (0, 0, "workspace_not_zero: byte 0 of the workspace is not 0 when the kernel ends"),
        (1, 1, "global_out_of_range: writes 4 bytes outside every tensor"),
    ],
)
def test_a_workspace_is_zeroed_watched_and_left_zero(
    beyond: int, last: int, diagnosis: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters per head, which each thread of its only block moves on; the last head's lies in the workspace, the one
    behind it does not."""
    source = (cpu_build.HERE / "attention" / "ampere" / "scalar.cu").read_text()
    start = "const BlockTile tile(args,"
    assert source.count(start) == 1
    counting = source.replace(start, COUNTER.format(beyond=beyond, last=last) + start) + SIZE
    (tmp_path / "attention" / "ampere").mkdir(parents=True)
    (tmp_path / "attention" / "ampere" / "scalar.cu").write_text("#include <ptx/atom.cuh>\n" + counting)
    case = build.Case("test", "scalar", "cuda", PROBLEM, Tile(64, 64, 1, 4))
    assert build.load(case, "cpu").workspace_bytes == 0
    monkeypatch.setattr(cpu_build, "HERE", tmp_path)
    variant = build.load(case, "cpu")
    assert variant.workspace_bytes == 3 * 4
    given, outputs = arenas.make(PROBLEM, "normal", 0, "cpu"), arenas.make_outputs(PROBLEM, "cpu")
    tensors = {**given.tensors, **outputs.tensors}
    if diagnosis is None:
        variant.launch(tensors, given.scalars)
        return
    with pytest.raises(build.Diagnosed, match=diagnosis):
        variant.launch(tensors, given.scalars)
