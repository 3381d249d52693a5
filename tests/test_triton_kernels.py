"""Triton twins: right in the interpreter, the promised instruction class, no two programs that are secretly one."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.problem import Problem, Tile
from harness.techniques import TECHNIQUES, reference_tile

ROOT = Path(__file__).parent.parent
KERNELS = sorted(path.stem for path in (ROOT / "triton_kernels/ampere").glob("[!_]*.py"))

PROBLEMS = [
    Problem(2, 4, 2, 128, 128, 64, "fp16", False, "bshd"),
    Problem(1, 2, 2, 128, 128, 64, "fp16", True, "bhsd"),
    Problem(1, 4, 1, 64, 192, 64, "fp16", True, "bshd"),
    Problem(1, 2, 1, 192, 64, 64, "fp16", True, "bhsd"),  # two of three query blocks see nothing
    Problem(2, 1, 1, 64, 128, 128, "fp16", False, "bhsd"),
    Problem(1, 2, 2, 128, 128, 128, "fp16", True, "bshd"),
]
TILES = [Tile(64, 64), Tile(64, 32), Tile(32, 64)]


def kernel(name: str):
    return importlib.import_module(f"triton_kernels.ampere.{name}")


def program(name: str) -> str:
    """Name of the module that holds the program: another one's where the twin is a re-export."""
    return kernel(name).launch.__module__.rpartition(".")[2]


DISTINCT = [name for name in KERNELS if program(name) == name]


def worker(job: str, **environment: str) -> dict:
    """Runs one of the jobs below in a process of its own: Triton reads its environment once."""
    env = {name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", "DISABLE_MMA_V3")}
    env["PYTHONPATH"] = str(ROOT)
    result = subprocess.run(
        [sys.executable, __file__, job], env=env | environment, capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def interpret() -> dict:
    """Errors of every distinct program on every problem and tile, against attention in fp64."""
    import torch

    def truth(q, k, v, problem):
        group = problem.heads // problem.heads_kv
        k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
        s = q.double() @ k.mT * problem.scale
        if problem.causal:
            hidden = torch.ones(problem.seq_q, problem.seq_kv).triu(1 + problem.seq_kv - problem.seq_q).bool()
            s = s.masked_fill(hidden, float("-inf"))
        return torch.nan_to_num(torch.softmax(s, -1)) @ v, torch.logsumexp(s, -1)

    def strided(shape, layout, fill=None):
        order = (0, 1, 2, 3) if layout == "bhsd" else (0, 2, 1, 3)
        storage = torch.randn([shape[i] for i in order]) + 0.5
        return storage.half().permute([order.index(i) for i in range(4)])

    errors = {}
    for problem in PROBLEMS:
        torch.manual_seed(0)
        p = problem
        q = strided((p.batch, p.heads, p.seq_q, p.head_dim), p.layout)
        k, v = (strided((p.batch, p.heads_kv, p.seq_kv, p.head_dim), p.layout) for _ in range(2))
        expected, expected_lse = truth(q, k, v, p)
        for name, tile in itertools.product(DISTINCT, TILES):
            o = torch.full_like(q, float("nan"))
            lse = torch.full((p.batch, p.heads, p.seq_q), float("nan"))
            kernel(name).launch(q, k, v, o, lse, scale=p.scale, causal=p.causal, tile=tile, workspace=None)
            gap = torch.where(expected_lse == lse, 0, expected_lse - lse)  # -inf equals -inf
            difference = (o.double() - expected).norm() / expected.norm()
            errors[f"{name} {p.slug} {tile.slug}"] = [difference.item(), gap.abs().max().item()]
    try:
        q = k = v = o = torch.zeros(1, 1, 64, 64, dtype=torch.bfloat16)
        kernel("scalar").launch(
            q, k, v, o, torch.zeros(1, 1, 64), scale=1.0, causal=False, tile=TILES[0], workspace=None
        )
        errors["bf16"] = "accepted"
    except NotImplementedError as error:
        errors["bf16"] = str(error)
    return errors


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))


@pytest.fixture(scope="module")
def errors():
    return worker("interpret", TRITON_INTERPRET="1")


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.slug)
def test_right_in_the_interpreter(errors, name, problem):
    for tile in TILES:
        relative, lse = errors[f"{name} {problem.slug} {tile.slug}"]
        assert relative < 6e-4, f"O is off by {relative:.1e} (relative L2) at tile {tile.slug}"
        assert lse < 1e-5, f"LSE is off by {lse:.1e} at tile {tile.slug}"


def test_bf16_is_refused_in_the_interpreter(errors):
    assert errors["bf16"].startswith("q.dtype: got torch.bfloat16")
