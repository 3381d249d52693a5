"""A kernel of the user's, by the lines that README has: on a GPU, from the command to its table, page and exit code.

Most of a command's time goes into starting processes and building, so that each of them is given several kernels.
"""

import shutil

import pytest

from harness.measure import runner
from harness.measure.worker import Deadlines
from harness.rows import results
from tests.support import commands, own_kernels, own_triton
from tests.support.places import place
from tests.support.readme import copied_kernel, my_kernel

pytestmark = pytest.mark.gpu

KERNELS = ("my_kernel.py:attend", "my_kernel.cu")
"""README's function and its copy of a twin."""
TILE = ("--tile", "128x64-s1-w8")
PROBLEM = ("--problem", "b4-h16-n2048-d128-bf16-causal")
PEER = {"backend": "sdpa_cudnn"}
TIMED = {"passed", "not_converged"}
LAUNCH = 10
"""Seconds that a launch has here: the first one of a library loads it."""
WRONG = {
    "crashing": ("gate", "crashed", None, "the process ended (stage launch): SIGSEGV"),
    "endless": (
        *("gate", "timeout", None),
        f"no sign of life for {LAUNCH} s (stage launch): endless at {place(own_triton.__file__, 'wait_for_ever[')}",
    ),
    "on_another_stream": ("timing", "implausible", "other_stream", "work on another stream"),
}
"""Kind of the row, status, check, and how the reason begins."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """KERNELS as files: what is built of one is built once, since a build goes by the path too."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "my_kernel.py").write_text(my_kernel())
    shutil.copy(copied_kernel(), folder / "my_kernel.cu")
    return [f"{folder}/{name}" for name in KERNELS]


@pytest.fixture(scope="module")
def checked(paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> commands.Ran:
    return commands.run(tmp_path_factory.mktemp("check"), "check", *paths, *TILE, *PROBLEM)


@pytest.fixture(scope="module")
def timed(paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> commands.Ran:
    beside = ("lazy_rescale", "--backend", "cuda", "--peer", "sdpa_cudnn")
    return commands.run(tmp_path_factory.mktemp("bench"), "bench", *paths, *beside, *TILE, *PROBLEM, "--report")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> commands.Ran:
    files = {name: (own_triton if name == "endless" else own_kernels).__file__ for name in WRONG}
    kernels = [f"{file}:{name}" for name, file in files.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Deadlines", lambda: Deadlines(launch=LAUNCH))
        return commands.run(tmp_path_factory.mktemp("wrong"), "bench", *kernels, "--peer", "sdpa_cudnn", *PROBLEM)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_checked(checked: commands.Ran, kernel: str) -> None:
    assert checked.code == 0, checked.told
    assert [row["status"] for row in checked.of("gate", kernel=kernel, on="gpu")] == ["passed"], checked.told


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_timed_beside_what_is_named(timed: commands.Ran, kernel: str) -> None:
    assert timed.code == (3 if timed.of("timing", status="not_converged") else 0), timed.told
    assert {row["backend"] for row in timed.of("timing")} == {"own", "cuda", "sdpa_cudnn"}, timed.told
    assert {row["status"] for row in timed.of("timing")} <= TIMED, timed.told
    rows = [row for row in timed.of("timing") if results.what(row) == "timing"]  # CUPTI looks at one's own alone
    groups, of_peer = ({row["group"] for row in rows if of.items() <= row.items()} for of in ({"kernel": kernel}, PEER))
    assert groups, timed.told
    assert groups <= of_peer, timed.told
    assert f" {kernel} " in timed.said, timed.told


def test_timed_kernels_have_a_page(timed: commands.Ran) -> None:
    pages = list(timed.folder.rglob("*.html"))
    assert len(pages) == 1, timed.told
    assert f"{', '.join(KERNELS)} beside the ladder" in pages[0].read_text()
    assert f"{pages[0]} is its page" in timed.said, timed.told


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_kernel_is_a_row_and_exit_code_1(wrong: commands.Ran, name: str) -> None:
    kind, status, check, reason = WRONG[name]
    assert wrong.code == 1, wrong.told
    rows = [row for row in wrong.of(kind, status=status) if str(row.get("kernel")).endswith(f":{name}")]
    assert [(row["status"], row.get("check")) for row in rows] == [(status, check)], wrong.told
    assert rows[0]["reason"].startswith(reason), wrong.told
    assert f"{status}: {rows[0]['kernel']} own" in wrong.said, wrong.told


def test_what_is_wrong_with_a_kernel_costs_the_others_nothing(wrong: commands.Ran) -> None:
    others = {row["status"] for row in wrong.of("timing", **PEER)}
    assert others, wrong.told
    assert others <= TIMED, wrong.told
    assert wrong.of("timing", kernel="own_kernels.py:on_another_stream"), wrong.told
