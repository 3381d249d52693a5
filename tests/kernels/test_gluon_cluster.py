"""Multicast in Gluon, by the Tritons that have it: compiled by others than the installed, and launched from cubins."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from harness.build import cubins, tritons
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem

TECHNIQUE = techniques.get("cluster_multicast")
SQUARE = Tile(128, 128, 2, 8)
RAGGED = Problem(1, 4, 2, 1000, 900, 64, dtype="fp16", layout="bshd")
PAIR_BARRIER = """
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def kernel(y_ptr):
    both = mbarrier.allocate_mbarrier(two_ctas=True)
    mbarrier.init(both, count=1)
    mbarrier.arrive(both, count=1)
    mbarrier.wait(both, 0)
    gl.store(y_ptr, 1)


source = GluonASTSource(kernel, {"y_ptr": "*i32"})
print(triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_ctas": 2}).asm["ptx"])
"""


def requires(version: str) -> None:
    if not tritons.is_here(version):
        pytest.skip(f"{tritons.name(version)} is not in build/triton")


@pytest.mark.parametrize("backend", ["gluon", "gluon@3.6.0", "gluon@3.7.1"])
def test_a_triton_without_barriers_of_two_blocks_declines(backend: str) -> None:
    found = techniques.unsupported(TECHNIQUE, backend, Problem.square(4, 16, 4096, 128), SQUARE)
    assert (found or "").startswith("Gluon has multicast from 3.7 on, and a barrier that counts the arrivals")


def test_newer_ones_take_full_attention() -> None:
    for backend in ("gluon@3.8.0", "gluon@3.9.0"):
        for causal in (False, True):
            problem = Problem.square(4, 16, 4096, 128, causal=causal)
            declined = techniques.unsupported(TECHNIQUE, backend, problem, SQUARE)
            assert bool(declined) == causal
            assert not causal or "full attention only" in str(declined)


@pytest.mark.full
@pytest.mark.parametrize("version", ["3.8.0", "3.9.0"])
@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        (Problem.square(4, 16, 4096, 128), SQUARE),
        (Problem.square(4, 32, 4096, 64), SQUARE),
        (Problem.square(4, 8, 4096, 256), Tile(128, 64, 2, 8)),
        (RAGGED, Tile(192, 64, 2, 12)),
    ],
    ids=str,
)
def test_k_and_v_come_by_multicast_and_nothing_spills(version: str, problem: Problem, tile: Tile) -> None:
    requires(version)
    case = Case("test", TECHNIQUE.name, f"gluon@{version}", problem, tile)
    assert techniques.unsupported(TECHNIQUE, case.backend, problem, tile) is None
    about = cubins.compile(case, "sm_90a")
    slabs = problem.head_dim // 64
    groups = tile.warps // 4
    assert about["blocks"] == 2
    pairs = -(-problem.seq_q // (2 * tile.block_m))
    assert about["programs"] == [pairs * problem.heads * problem.batch]
    code: dict[str, Any] = about["code"]
    alone = code["census"]["UTMALDG"] - code["census"]["UTMALDG.MULTICAST"]
    assert alone == slabs * groups, "each block loads its own rows of Q"
    assert code["census"]["UTMALDG.MULTICAST"] >= 2 * slabs
    assert code["census"]["UCGABAR"] > 0
    loop = code["main_loop"]
    assert (loop["serialized"], loop["local_memory"]) == (False, 0)
    for kind in ("maxima", "shuffles"):
        assert loop["under_products"][kind] == loop["all"][kind], loop["sequence"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "space", "arrivals"), [("3.7.1", "cta", 1), ("3.8.0", "cluster", 2), ("3.9.0", "cluster", 2)]
)
def test_both_blocks_arrive_at_one_barrier_from_3_8_on(version: str, space: str, arrivals: int, tmp_path: Any) -> None:
    requires(version)
    (tmp_path / "pair.py").write_text(PAIR_BARRIER)
    command = [sys.executable, str(tmp_path / "pair.py")]
    done = subprocess.run(command, env=tritons.variables(version), capture_output=True, text=True, cwd=sources.ROOT)
    assert re.findall(r"mbarrier\.arrive\.shared::(\w+)", done.stdout) == [space], done.stderr
    assert re.findall(r"mbarrier\.init\S+ \[%r\d+\], (\d+)", done.stdout) == [str(arrivals)]
