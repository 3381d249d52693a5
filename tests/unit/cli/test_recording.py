"""`record --renew` in a copy of this checkout, whose sources are edited: real commits, real compilers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels import toolchain
from harness.catalog import experiments, sources, techniques
from harness.rows import results
from tests.support.checkout import copied

NAME, EXPERIMENT = "scalar", "seed_raw_ptx"
TOOLS = toolchain.find(toolchain.homes())


def run(tree: Path, *command: str) -> str:
    identity = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def twinkernels(tree: Path, *arguments: str) -> str:
    return run(tree, sys.executable, "-m", "harness", *arguments)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy with one commit, and timings of one CUDA kernel beside its peers, which say nothing of machine code."""
    copied(tmp_path)
    (tmp_path / ".gitignore").write_text("build/\n__pycache__/\n")
    run(tmp_path, "git", "init", "-q")
    run(tmp_path, "git", "add", ".")
    run(tmp_path, "git", "commit", "-qm", "measured")
    assert TOOLS is not None
    details = {
        "gpu": {"name": "NVIDIA H200"},
        "git": {"sha": run(tmp_path, "git", "rev-parse", "HEAD").strip()},
        "toolchain": {"nvcc": TOOLS.nvcc, "ptxas": TOOLS.ptxas},
    }
    technique, problem = techniques.get(NAME), experiments.load(EXPERIMENT).problems[0]
    common = {"kind": "timing", "on": "gpu", "experiment": EXPERIMENT, "problem": problem.to_dict(), "mode": "burst"}
    common |= {"status": "passed", "samples_ms": [1.0], "group": "one", "environment": "e"}
    ours = {
        "technique": NAME,
        "backend": "cuda",
        "tile": techniques.reference_tile(technique, problem.head_dim).to_dict(),
        "arch": "sm_90a",
        "mma": technique.mma,
        "source_sha256": sources.source_sha256("cuda", technique.path),
    }
    with results.Writer(tmp_path / f"reports/recorded/h200/{EXPERIMENT}.jsonl") as writer:
        writer.write({"kind": "environment", "id": "e", "on": "gpu", "details": details})
        writer.write({**common, **ours})
        writer.write({**common, "backend": "sdpa_flash"})
    return tmp_path


def scorecard(tree: Path) -> Any:
    return json.loads(twinkernels(tree, "scorecard", "--json"))["entries"]


@pytest.mark.slow
@pytest.mark.skipif(TOOLS is None, reason="no nvcc; `twinkernels doctor` says how to get one")
def test_rows_outlive_an_edit_that_leaves_the_machine_code_as_it_is(tree: Path) -> None:
    before = scorecard(tree)
    assert [entry["status"] for entry in before] == ["complete", "complete"]
    header, kernel = tree / "cuda_kernels/attention/attention.cuh", tree / f"cuda_kernels/attention/ampere/{NAME}.cu"

    header.write_text("// A comment.\n" + header.read_text())
    assert scorecard(tree) == before, "a comment is no code"

    header.write_text(header.read_text() + "inline int nobody_calls() { return 1; }\n")
    assert {entry["status"] for entry in scorecard(tree)} == {"incomplete"}
    said = twinkernels(tree, "record", "--renew")
    assert "1 rows renewed; 0 are of other machine code" in said
    assert scorecard(tree) == before

    kernel.write_text(kernel.read_text().replace("#pragma unroll 4", "#pragma unroll 2"))
    said = twinkernels(tree, "record", "--renew")
    assert "0 rows renewed; 1 are of other machine code" in said
    assert {entry["status"] for entry in scorecard(tree)} == {"incomplete"}
