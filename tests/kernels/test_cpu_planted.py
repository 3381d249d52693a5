"""Bugs planted into the real kernels: each patch applies, the diagnosis has its name, and the kernel as it is passes
the launch that shows the bug.

A patch opens with prose, then `technique:` and `diagnosis:`; git ignores what stands before the diff.
`wrong_answer` is the name for numbers that differ while every access is in order.
"""

import re
import subprocess
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cuda_kernels import cpu_library, includes
from cuda_kernels.cpu_library import Library
from harness.catalog import planted, techniques
from harness.catalog.planted import Bug
from harness.measure import gate as gates
from harness.operators.attention import numerics
from harness.operators.attention.problem import Problem
from tests.support import together
from tests.support.cpu_run import copied, run

pytestmark = pytest.mark.spread

SEEDS = (0, 1, 2)
PROBLEMS = (
    Problem(1, 4, 2, 128, 640, 64, "fp16", True, "bshd"),  # five steps of 128 keys: rings of two wrap
    Problem(2, 4, 2, 256, 128, 64, "fp16", True, "bshd"),  # two batches; half of the rows see no key
)
"""Of one build. The second is small, and for bugs that are none on the first."""
RAGGED = Problem(1, 3, 1, 200, 331, 64, "fp16", True, "bshd")
"""For a kernel that takes any length, of the same build: a group of three, and warpgroups of a tile that end at another
key tile each."""
UNMASKED = Problem(1, 2, 2, 400, 640, 64, "fp16", False, "bshd")
"""For a kernel that declines masks: three tiles of 192 queries; rings of two wrap."""


def problems(name: str) -> tuple[Problem, ...]:
    technique = techniques.of_qualified(name)
    tile = techniques.reference_tile(technique, UNMASKED.head_dim)
    taken = [one for one in (*PROBLEMS, RAGGED) if not techniques.unsupported(technique, "cuda", one, tile)]
    return tuple(taken) or (UNMASKED,)


@cache
def libraries(technique: str) -> dict[str, Library]:
    """The kernel with each of its bugs by name, and "" as it is."""
    bugs = [bug for bug in planted.bugs() if bug.technique == technique]
    with TemporaryDirectory() as folder:
        roots = [together.of(patched(Path(folder, bug.name), bug)) for bug in bugs]
        problem = problems(technique)[0]
        built = together.build([(technique, problem, read) for read in (together.as_it_is, *roots)])
    return dict(zip(["", *(bug.name for bug in bugs)], built, strict=True))


@cache
def names(technique: str, problem: Problem, seed: int, bug: str = "") -> set[str]:
    """Names of the diagnoses of one launch."""
    result = run(technique, problem, library=libraries(technique)[bug], seed=seed, patience=0.5)
    found = {line.partition(":")[0] for line in result.diagnosis.splitlines()}
    expected = gates.expect(problem, "normal", 0, "cpu")
    if not result.code and not numerics.judge(result.o, result.lse, expected).passed:
        found.add("wrong_answer")
    return found


def patched(folder: Path, bug: Bug) -> Path:
    """The root of the kernels with this bug."""
    folder.mkdir(exist_ok=True)
    root = copied(folder)
    applied = subprocess.run(["git", "apply", str(bug.path)], cwd=folder, capture_output=True, text=True)
    assert applied.returncode == 0, f"{bug.path.name} does not apply, renew it:\n{applied.stderr}"
    return root


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=pytest.mark.xdist_group(bug.technique)) for bug in planted.bugs()],
)
def test_a_planted_bug_is_named(bug: Bug) -> None:
    launches = ((problem, seed) for seed, problem in product(SEEDS, problems(bug.technique)))
    found = next((one for one in launches if bug.diagnosis in names(bug.technique, *one, bug.name)), None)
    assert found, f"no launch is diagnosed as {bug.diagnosis}"
    assert names(bug.technique, *found) == set(), "the kernel as it is"


@pytest.mark.parametrize(
    ("name", "buffer"),
    [
        ("v_released_under_product", "v_operand"),
        ("stage_off_by_one", "v_lane"),
        ("barrier_missing_after_load", "k_lane"),
        ("o_over_the_next_q", "o_smem"),
    ],
)
def test_a_race_names_the_buffer(name: str, buffer: str, tmp_path: Path) -> None:
    """By the kernel's own word for the address, at either of the two accesses."""
    bug = planted.find(name)
    root = patched(tmp_path, bug)
    said = run(bug.technique, PROBLEMS[0], library=libraries(bug.technique)[name]).diagnosis.splitlines()
    files = includes.closure([root / f"{techniques.of_qualified(bug.technique).path}.cu"], [root])
    first = cpu_library.with_buffers(said, files)[0]
    assert re.match(rf"(race|copy_in_flight): {buffer} \(shared address 0x\w+\) is ", first)


def test_a_deadlock_tells_how_many_arrivals_are_lacking_of_how_many() -> None:
    bug = planted.find("release_forgotten_by_a_warp")
    result = run(bug.technique, PROBLEMS[0], library=libraries(bug.technique)[bug.name])
    assert "lacks 1 of 8 arrivals" in result.diagnosis


def test_half_of_the_bugs_are_on_the_later_ladders() -> None:
    ladders = [techniques.of_qualified(bug.technique).ladder for bug in planted.bugs()]
    assert len(ladders) >= 20
    assert 2 * ladders.count("ampere") <= len(ladders)
