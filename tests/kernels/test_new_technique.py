"""A new technique is two files and one registry entry: in a copy of the tree it is inspected and reported.

That it is listed and checked, tests/unit/cli/test_rungs.py shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.setup import bootstrap
from tests.support.checkout import copied

DRAWN = "techniques.html", "technique/synthetic.html"
FEW_PAGES = f"""
import functools
from harness.cli import main
from reports import build

build.build = functools.partial(build.build, only={DRAWN})
main()
"""
"""The command line, which draws a site of these pages alone: tests/unit/reports draws the others."""
ENTRIES = """
    Technique("synthetic", "ampere", "a rung that this test adds", builds_on=("mma_ldmatrix",), limits=MMA),
    Technique("broken", "ampere", "neither language can build it", builds_on=("mma_ldmatrix",), limits=MMA),
"""


def harness(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FEW_PAGES, *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with two more techniques: mma_ldmatrix under another name, and one that is broken in both languages; with
    few problems, the first one small, as each takes seconds."""
    root = copied(tmp_path_factory.mktemp("checkout"), "tests/planted", "pyproject.toml", *bootstrap.LOCKS)
    for kernels, suffix in (("cuda_kernels", ".cu"), ("triton_kernels", ".py")):
        folder = root / kernels / "attention" / "ampere"
        source = (folder / f"mma_ldmatrix{suffix}").read_text()
        (folder / f"synthetic{suffix}").write_text(source.replace("mma_ldmatrix", "synthetic"))
    (root / "cuda_kernels/attention/ampere/broken.cu").write_text(
        "#include <attention/attention.cuh>\nthis is no C++;\n"
    )
    (root / "triton_kernels/attention/ampere/broken.py").write_text("import os\n\nos._exit(3)\n")
    registry = root / "harness/operators/attention/ladders/ampere.py"
    entries = registry.read_text()
    assert entries.endswith("\n)\n"), "the registry does not end where this test expects it to"
    registry.write_text(entries.removesuffix("\n)\n") + ENTRIES + ")\n")
    ladder, correctness = (root / f"experiments/attention/{name}.py" for name in ("ladder", "correctness"))
    ladder.write_text(ladder.read_text().replace("(128, 64)", "(64,)").replace("(False, True)", "(False,)"))
    text, first = correctness.read_text(), "Problem(2, 6, 2, 128, 128, 64,"
    assert text.count(first) == 1, "experiments/attention/correctness.py is not what this test makes smaller"
    correctness.write_text(text.replace(first, "Problem(1, 1, 1, 64, 64, 64,"))
    return root


def test_inspect_survives_its_broken_neighbour(tree: Path) -> None:
    done = harness(
        tree, "inspect", "synthetic", "broken", "--arch", "sm_90a", "--backend", "cuda", "--backend", "triton", "--json"
    )
    assert done.returncode == 1
    rows = {(row["technique"], row["backend"]): row for row in json.loads(done.stdout)}
    assert rows["synthetic", "cuda"]["status"] == rows["synthetic", "triton"]["status"] == "passed"
    assert rows["broken", "cuda"]["status"] == "compile_error"
    assert "broken.cu" in rows["broken", "cuda"]["reason"]
    assert "error" in rows["broken", "cuda"]["reason"]
    assert rows["broken", "triton"]["status"] == "crashed"


def test_report_finds_it(tree: Path) -> None:
    done = harness(tree, "report", "synthetic")
    assert done.returncode == 0, done.stderr
    index = Path(done.stdout.splitlines()[-1])
    assert index == tree / "reports/site/index.html"
    techniques, page = ((index.parent / name).read_text() for name in DRAWN)
    assert "technique/synthetic.html" in techniques
    assert "rung that this test adds" in page
    assert "HMMA" in page
