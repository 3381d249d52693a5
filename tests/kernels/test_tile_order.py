"""The order of tiles that the report reckons with is the kernels'."""

from __future__ import annotations

import ctypes
import math

import pytest
import torch

from cuda_kernels import cpu_build
from harness.catalog.problem import Problem, Tile
from reports.facts import filling
from tests.kernels.test_cpu_instructions import KERNELS, Arguments


@pytest.mark.parametrize(
    ("heads", "seq_q", "seq_kv"),
    [(256, 512, 512), (16, 8192, 8192), (8, 16_384, 16_384), (3, 1000, 1000), (1, 130, 4000), (40, 4096, 300)],
)
def test_tiles_are_dealt_out_as_the_kernels_do_it(heads: int, seq_q: int, seq_kv: int) -> None:
    tile, blocks = Tile(128, 80, 2, 8), 132
    out = torch.full((heads * math.ceil(seq_q / tile.block_m), 2), -1, dtype=torch.int32)
    constants = {
        "HEAD_DIM": 256,
        "CAUSAL": 1,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "STAGES": 2,
        "WARPS": 8,
    }
    defines = {f"ATTENTION_{name}": value for name, value in constants.items()}
    arguments = Arguments((ctypes.c_void_p * 4)(out.data_ptr()), (ctypes.c_int32 * 4)(heads, seq_q, seq_kv, blocks))
    library = ctypes.CDLL(str(cpu_build.build(KERNELS / "tile_order.cu", defines, include=(KERNELS,))))
    library.launch(ctypes.byref(arguments), None)
    problem = Problem(1, heads, heads, seq_q, seq_kv, 256, "bf16", True)
    assert filling.order(problem, tile, blocks) == [tuple(pair) for pair in out.tolist()]
