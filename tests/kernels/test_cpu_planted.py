"""Bugs planted into the real kernels: each patch applies, the diagnosis has its name, and the kernel as it is passes
the launch that shows the bug.

A patch opens with prose, then `technique:` and `diagnosis:`; git ignores what stands before the diff.
`wrong_answer` is the name for numbers that differ while every access is in order.
"""

import re
import shutil
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from cuda_kernels import cpu_build, cpu_library, includes
from cuda_kernels.cpu_library import Library
from harness.catalog import planted, sources, techniques
from harness.catalog.planted import Bug
from harness.measure import gate as gates
from harness.operators.attention import numerics
from harness.operators.attention.problem import Problem
from tests.support import together
from tests.support.cpu_run import run

BUGS = planted.bugs()
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


def patched(folder: Path, bug: Bug) -> Path:
    """A root of kernels that has the file with this bug alone."""
    (changed,) = re.findall(r"^\+\+\+ b/(\S+)$", bug.path.read_text(), re.MULTILINE)
    (folder / changed).parent.mkdir(parents=True)
    shutil.copy(sources.ROOT / changed, folder / changed)
    applied = subprocess.run(["git", "apply", str(bug.path)], cwd=folder, capture_output=True, text=True)
    assert applied.returncode == 0, f"{bug.path.name} does not apply, renew it:\n{applied.stderr}"
    return folder / "cuda_kernels"


Libraries = dict[tuple[str, str], Library]
"""By technique and name of the bug; "" for the kernel as it is."""


@pytest.fixture(scope="module")
def libraries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """The kernels of the selected tests, with each bug and without: all of one build."""
    kernels: dict[tuple[str, str], together.Kernel] = {}
    for bug in {one["bug"]: None for one in together.parameters(request)}:
        changed = together.of(patched(tmp_path_factory.mktemp(bug.name), bug))
        right = together.Kernel(bug.technique, problems(bug.technique)[0])
        kernels[bug.technique, ""] = right
        kernels[bug.technique, bug.name] = right._replace(
            read=lambda file, changed=changed: changed(file) or together.as_it_is(file)
        )
    return dict(zip(kernels, together.build([*kernels.values()]), strict=True))


@cache
def names(library: Library, technique: str, problem: Problem, seed: int) -> set[str]:
    """Names of the diagnoses of one launch."""
    result = run(technique, problem, library=library, seed=seed, patience=0.5)
    found = {line.partition(":")[0] for line in result.diagnosis.splitlines()}
    expected = gates.expect(problem, "normal", 0, "cpu")
    if not result.code and not numerics.judge(result.o, result.lse, expected).passed:
        found.add("wrong_answer")
    return found


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_named(bug: Bug, libraries: Libraries) -> None:
    launches = [(bug.technique, problem, seed) for seed, problem in product(SEEDS, problems(bug.technique))]
    wrong = libraries[bug.technique, bug.name]
    found = next((one for one in launches if bug.diagnosis in names(wrong, *one)), None)
    assert found, f"no launch is diagnosed as {bug.diagnosis}"
    assert names(libraries[bug.technique, ""], *found) == set(), "the kernel as it is"


@pytest.mark.parametrize(
    ("bug", "buffer"),
    [
        (planted.find("v_released_under_product"), "v_operand"),
        (planted.find("stage_off_by_one"), "v_lane"),
        (planted.find("barrier_missing_after_load"), "k_lane"),
        (planted.find("o_over_the_next_q"), "o_smem"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_race_names_the_buffer(bug: Bug, buffer: str, libraries: Libraries, tmp_path: Path) -> None:
    """By the kernel's own word for the address, at either of the two accesses."""
    library = libraries[bug.technique, bug.name]
    said = run(bug.technique, PROBLEMS[0], library=library).diagnosis.splitlines()
    roots = patched(tmp_path, bug), cpu_build.HERE
    kernel = f"{techniques.of_qualified(bug.technique).path}.cu"
    top = next(root / kernel for root in roots if (root / kernel).is_file())
    files = includes.closure([top], roots)
    first = cpu_library.with_buffers(said, files)[0]
    assert re.match(rf"(race|copy_in_flight): {buffer} \(shared address 0x\w+\) is ", first)


@pytest.mark.parametrize("bug", [planted.find("release_forgotten_by_a_warp")], ids=lambda bug: bug.name)
def test_a_deadlock_tells_how_many_arrivals_are_lacking_of_how_many(bug: Bug, libraries: Libraries) -> None:
    result = run(bug.technique, PROBLEMS[0], library=libraries[bug.technique, bug.name])
    assert "lacks 1 of 8 arrivals" in result.diagnosis


def test_half_of_the_bugs_are_on_the_later_ladders() -> None:
    ladders = [techniques.of_qualified(bug.technique).ladder for bug in BUGS]
    assert len(ladders) >= 20
    assert 2 * ladders.count("ampere") <= len(ladders)
