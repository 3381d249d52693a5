"""guide/cpu shows what a planted deadlock prints: the same as when its commands are run.

`python -m tests.unit.reports.test_guide` writes the text anew after a change of the kernel or of the diagnosis.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.catalog import planted
from harness.catalog.sources import CACHE, ROOT
from reports.pages import guide
from tests.support.checkout import copied
from tests.support.pages import rendered

pytestmark = pytest.mark.slow


def diagnosed(folder: Path) -> str:
    """Copies the checkout to `folder`, plants the guide's bug there and returns what its command prints of it first."""
    copied(folder)
    subprocess.run(["git", "apply", str(ROOT / guide.PATCH)], cwd=folder, check=True)
    command = [sys.executable, "-m", "harness", *guide.CHECK]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["TWINKERNELS_CACHE"] = str(CACHE)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    first = re.search(r"^launch_error: .*?(?=^\S|\Z)", done.stdout, re.MULTILINE | re.DOTALL)
    assert first, done.stdout + done.stderr
    return first[0]


def without_block(text: str) -> str:
    """Without the block: several run at once, and the first that is stuck is told."""
    return re.sub(r"block \(\d+, \d+, \d+\)", "block", text)


def test_the_deadlock_is_diagnosed_as_printed(tmp_path: Path) -> None:
    printed = diagnosed(tmp_path)
    assert "deadlock: nobody can go on" in printed
    assert without_block(printed) == without_block(guide.PRINTED.read_text()), (
        "run `python -m tests.unit.reports.test_guide`"
    )


def test_every_planted_bug_fits_its_kernel() -> None:
    """Their lines are a kernel's, comments too: who edits one learns it here, not from the runs of all bugs."""
    for path in sorted((ROOT / "tests" / "planted").glob("*.patch")):
        done = subprocess.run(["git", "apply", "--check", str(path)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{path.name}: {done.stderr}"


def test_every_planted_bug_is_listed() -> None:
    page = rendered("guide.html", guide.page("cpu"))
    for path in (ROOT / "tests" / "planted").glob("*.patch"):
        bug = planted.read(path)
        assert bug.story
        assert re.search(rf"<code>{path.name}</code></td>\s*<td><code>{bug.diagnosis}</code></td>", page)


def test_the_glossary_names_the_schedules_of_matrix_products() -> None:
    included = (ROOT / "cuda_kernels/gemm/schedules.cuh").read_text()
    schedules = set(re.findall(r"== (\d+)\n#include <gemm/hopper/(\w+)\.cu>", included))
    entry = re.search(r"\*\*schedule:\*\*.*?(?=^-)", (guide.NOTES / "reading.md").read_text(), re.MULTILINE | re.DOTALL)
    assert entry
    assert schedules
    assert schedules <= set(re.findall(r"(\d+) (\w+)", entry[0]))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        guide.PRINTED.write_text(diagnosed(Path(name)))
    print(f"wrote {guide.PRINTED.relative_to(ROOT)}")
