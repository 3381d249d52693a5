"""A new technique is two files and one registry entry: in a copy of the tree it is reported, beside one that is broken.

That it is listed and checked, tests/unit/cli/test_rungs.py shows.
"""

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
    Technique("synthetic", "a rung that this test adds", builds_on=("mma_ldmatrix",), limits=MMA),
    Technique("broken", "neither language can build it", builds_on=("mma_ldmatrix",), limits=MMA),
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy with two more techniques: mma_ldmatrix under another name, and one that is broken in both languages; with
    few problems, the first one small, as each takes seconds."""
    root = copied(tmp_path / "checkout", "tests/planted", "pyproject.toml", *bootstrap.LOCKS)
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


def test_report_finds_it_and_survives_its_broken_neighbour(tree: Path) -> None:
    command = [sys.executable, "-c", FEW_PAGES, "report", "synthetic", "broken"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    index = Path(done.stdout.splitlines()[-1])
    assert index == tree / "reports/site/index.html"
    techniques, page = ((index.parent / name).read_text() for name in DRAWN)
    assert "technique/synthetic.html" in techniques
    assert "rung that this test adds" in page
    assert "HMMA" in page
    lines = [line for path in tree.glob("reports/runs/*.jsonl") for line in path.read_text().splitlines()]
    rows = [row for row in map(json.loads, lines) if row["kind"] in ("code", "gate")]
    found = {(row["kind"], row["technique"], row["backend"]): row for row in rows}
    for (_, name, backend), row in found.items():
        broken = "compile_error" if backend == "cuda" else "crashed"
        assert row["status"] == ("passed" if name == "synthetic" else broken)
    assert len(found) == 2 * (3 + 2), "machine code of three series, and gates of two languages"
    assert "broken.cu" in found["code", "broken", "cuda"]["reason"]
    assert "error" in found["code", "broken", "cuda"]["reason"]
