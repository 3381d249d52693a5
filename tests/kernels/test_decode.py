"""The ladder `decode` where the keys are cut into parts: right in any order of blocks, and the counters zero again."""

import ctypes
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

from harness.build.cuda import unzeroed_bytes, workspace_bytes
from harness.build.cuda_on_cpu import left_in
from harness.catalog.techniques import reference_tile
from harness.measure import gate as gates
from harness.operators.attention import numerics
from harness.operators.attention.arguments import structure
from harness.operators.attention.ladders.decode import TECHNIQUES
from harness.operators.attention.problem import Problem
from tests.support import cpu_run, together
from triton_kernels.attention.packed_rows import parts, resident

NAMES = [technique.name for technique in TECHNIQUES]
SPLIT = NAMES[1:]
MULTIPROCESSORS = 2
"""Of the CPU runtime: cuda_kernels/cpu/ptx/device.cuh."""
IN_PARTS = (
    Problem(1, 4, 1, 1, 1100, 64, "fp16", True),  # five parts, the last one short
    Problem(1, 8, 1, 2, 700, 128, "bf16", True, "bshd"),
    Problem(1, 4, 1, 3, 700, 256, "fp16", False),
)


@cache
def libraries() -> together.Libraries:
    return together.of_cells(product(NAMES, IN_PARTS))


@pytest.mark.slow
@pytest.mark.parametrize("problem", IN_PARTS, ids=lambda problem: problem.slug)
@pytest.mark.parametrize("name", NAMES)
def test_parts_are_joined_in_any_order_of_blocks(name: str, problem: Problem) -> None:
    library = libraries()[name, problem]
    for seed in range(3):
        found = cpu_run.run(name, problem, library=library, seed=seed)
        assert found.diagnosis == ""
        assert (workspace_bytes(library.handle, problem) > 0) == (name in SPLIT)
        verdict = numerics.judge(found.o, found.lse, gates.expect(problem, "normal", 0, "cpu"))
        assert verdict.passed, f"{problem.slug}, {verdict.check}: {verdict.reason}"


@pytest.mark.slow
def test_both_languages_cut_the_keys_into_as_many_parts() -> None:
    """On as many multiprocessors as the CPU runtime has: one wave of blocks, and several."""
    problem = replace(IN_PARTS[1], batch=1, heads=4)
    tile = reference_tile(TECHNIQUES[-1], 128)
    library, found = libraries()["flagship_decode", IN_PARTS[1]], []
    for batch, seq_q, seq_kv in product((1, 2, 3, 4, 5, 7, 40, 2000), (1, 5), (1, 128, 129, 1100, 5000)):
        one = replace(problem, batch=batch, seq_q=seq_q, seq_kv=seq_kv)
        rows = batch * 4 * seq_q
        cuda = max(1, unzeroed_bytes(library.handle, one) // (4 * rows * (128 + 1)))
        tiles = batch * -(-4 * seq_q // tile.block_m)
        assert cuda == parts(tiles, -(-seq_kv // tile.block_n), MULTIPROCESSORS * resident(tile, 128)), one.slug
        found.append(cuda)
    assert set(found) >= {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scores_without_a_number_give_what_softmax_gives(name: str) -> None:
    """Keys hidden by -inf in whole parts; a row whose scores are all -inf; a NaN in one query head."""
    problem = replace(IN_PARTS[0], seq_kv=700)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, rows, 64).half() for heads, rows in ((4, 1), (1, 700), (1, 700)))
    k[..., -1] = 0
    k[:, :, :400, -1] = -torch.inf
    q[..., -1] = 1
    q[0, 1, 0, 3] = torch.nan
    o, lse = torch.empty_like(q), torch.empty(1, 4, 1)
    library = libraries()[name, IN_PARTS[0]]
    library.configure()
    for all_hidden in (False, True):
        if all_hidden:
            k[..., -1] = -torch.inf
        workspace = torch.zeros(workspace_bytes(library.handle, problem), dtype=torch.uint8)
        args = structure({"q": q, "k": k, "v": v, "o": o, "lse": lse}, {"scale": 0.125}, workspace)
        assert not library.launch(ctypes.byref(args), None)
        assert not left_in(workspace, unzeroed_bytes=unzeroed_bytes(library.handle, problem))
        scores = q.double() @ k.double().mT * 0.125
        expected = scores.softmax(-1).where(scores.amax(-1, keepdim=True) != -torch.inf, 0) @ v.double()
        torch.testing.assert_close(lse.double(), scores.logsumexp(-1), atol=2e-3, rtol=2e-3, equal_nan=True)
        torch.testing.assert_close(o.double(), expected, atol=4e-3, rtol=4e-3, equal_nan=True)
