"""cuda_kernels/build.py: what a build folder's name depends on, a build that is killed, two libraries of one kernel."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels import build, toolchain
from harness.build import Case, load
from harness.catalog import sources, techniques
from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention.problem import Problem

KERNEL = "attention/ampere/xor_swizzle"
TREE = {
    "attention/ampere/xor_swizzle.cu": "#include <attention/attention.cuh>\n",
    "attention/attention.cuh": "#include <cstdint>\n#include <ptx/mma.cuh>\n",
    "ptx/mma.cuh": "// mma\n",
    "ptx/unused.cuh": "// nothing\n",
}

Made = list[tuple[str, list[str]]]
"""What a build was asked for: the line that is compiled, and the files that lay in its folder."""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Builds go to a folder of their own, and a compiler that writes an empty library notes them here."""
    calls: Made = []

    def compiler(folder: Path, name: str, source: str, *_: object) -> tuple[Path, str]:
        calls.append((source, sorted(path.name for path in folder.iterdir())))
        library = folder / f"{name}.so"
        library.touch()
        return library, "warnings"

    monkeypatch.setattr(build, "BUILD", tmp_path / "build")
    monkeypatch.setattr(build, "toolchain", lambda: toolchain.Toolchain(Path("/cuda"), "13.0.88", "13.0.88"))
    monkeypatch.setattr(build, "_nvcc", compiler)
    return calls


def built(defines: dict[str, int] | None = None, arch: str = "sm_90a") -> build.Built:
    return build.build(KERNEL, defines or {"ATTENTION_HEAD_DIM": 64}, arch, inline=False)


def test_a_library_is_built_once_for_each_set_of_constants_and_architecture(made: Made) -> None:
    first = built()
    assert built() == first
    assert first.library.is_file()
    assert first.log == "warnings"
    others = [built({"ATTENTION_HEAD_DIM": 128}), built(arch="sm_80")]
    assert len({library.library.parent for library in (first, *others)}) == 3
    assert made == [(f"#include <{KERNEL}.cu>\n", [])] * 3


@pytest.mark.parametrize("changed", TREE)
def test_a_changed_include_is_another_build(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(build, "HERE", tmp_path)
    before = built().library.parent
    (tmp_path / changed).write_text(TREE[changed] + "\n")
    assert (built().library.parent != before) == (changed != "ptx/unused.cuh")


@pytest.mark.parametrize("technique", techniques.TECHNIQUES, ids=lambda technique: technique.name)
def test_a_build_and_a_row_rest_on_the_same_files(technique: techniques.Technique) -> None:
    assert set(build.sources(technique.path)) == set(sources.files("cuda", technique.path))


KILLED = """
import sys, time
from pathlib import Path
from cuda_kernels import build, toolchain

def compiler(folder, *_):
    for name in ("half.so", "lock"):  # torch's own lock is a file that it waits for, as long as it takes
        (folder / name).touch()
    print("compiling", flush=True)
    time.sleep(600)

build.BUILD, build._nvcc = Path(sys.argv[1]), compiler
build.toolchain = lambda: toolchain.Toolchain(Path("/cuda"), "13.0.88", "13.0.88")
build.build(sys.argv[2], {"ATTENTION_HEAD_DIM": 64}, "sm_90a", inline=False)
"""


def test_a_build_waits_for_another_of_its_folder_and_survives_its_death(made: Made) -> None:
    command = [sys.executable, "-c", KILLED, str(build.BUILD), KERNEL]
    with (
        subprocess.Popen(command, cwd=sources.ROOT, stdout=subprocess.PIPE, text=True) as other,
        ThreadPoolExecutor() as pool,
    ):
        try:
            assert other.stdout.readline() == "compiling\n"
            (folder,) = (path for path in build.BUILD.iterdir() if path.is_dir())
            assert sorted(path.name for path in folder.iterdir()) == ["half.so", "lock"]
            waiting = pool.submit(built)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
            assert made == []
        finally:
            other.kill()
        assert waiting.result().library.parent == folder
    assert made == [(f"#include <{KERNEL}.cu>\n", [])], "what a killed build left is cleared away"


def test_a_build_that_fails_leaves_no_folder(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(folder: Path, *_: object) -> None:
        (folder / "half.so").touch()
        raise build.CompileError("error: expected a ';'")

    monkeypatch.setattr(build, "_nvcc", compiler)
    with pytest.raises(build.CompileError, match=rf"{KERNEL}\.cu does not build for sm_90a:\nerror: expected a ';'"):
        built()
    assert not [path for path in build.BUILD.iterdir() if path.is_dir()]


@pytest.mark.slow
@pytest.mark.parametrize("on", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_two_specializations_of_one_kernel_run_in_turn_in_one_process(on: str) -> None:
    technique = techniques.get("attention/xor_swizzle")
    device = "cuda" if on == "gpu" else "cpu"
    loaded: dict[int, Any] = {}
    calls: dict[int, Callable[[], object]] = {}
    for head_dim in (64, 128):
        problem = Problem.square(1, 2, 128, head_dim)
        tile = techniques.reference_tile(technique, head_dim)
        loaded[head_dim] = load(Case("test", technique.name, "cuda", problem, tile), on)
        given, outputs = arenas.make(problem, "normal", 0, device), arenas.make_outputs(problem, device)
        calls[head_dim] = loaded[head_dim].bind({**given.tensors, **outputs.tensors}, given.scalars)

    def between(head_dim: int, other: int) -> Callable[..., None]:
        def launch(tensors: Any, scalars: Any) -> None:
            calls[other]()
            loaded[head_dim].launch(tensors, scalars)
            calls[other]()

        return launch

    repeats = 10 if on == "gpu" else 2
    for head_dim, other in ((64, 128), (128, 64)):
        launch, problem = between(head_dim, other), loaded[head_dim].problem
        verdict = gates.gate(launch, problem, distributions=("normal",), device=device, repeats=repeats)
        assert verdict.passed, verdict.reason
