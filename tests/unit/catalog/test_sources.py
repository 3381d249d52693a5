"""Which files a kernel rests on, what of them its hash covers, and where builds are kept: on a small tree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.catalog import sources

TREE = {
    "cuda_kernels/attention/attention.cuh": "#pragma once\n#include <cstdint>\n#include <ptx/mma.cuh>\n",
    "cuda_kernels/ptx/mma.cuh": "#pragma once\n",
    "cuda_kernels/ptx/unused.cuh": "#pragma once\n",
    "cuda_kernels/attention/ampere/first.cu": "// idea\n/* two\n   lines */\n#include <attention/attention.cuh>\n\nint x = 1;  // why\n",  # noqa: E501
    "cuda_kernels/attention/ampere/second.cu": "// the tile only\n\n#include <attention/ampere/first.cu>\n",
    "triton_kernels/attention/specialization.py": "x = 1\n",
    "triton_kernels/attention/ampere/first.py": (
        '"""Idea.\n\nMore.\n"""\n\nfrom triton_kernels.attention.specialization import x\n\n\n'
        'def f():\n    """Doc."""\n    # why\n    return (\n        x\n    )\n'
    ),
    "triton_kernels/attention/ampere/second.py": (
        '"""The same program."""\n\nfrom triton_kernels.attention.ampere.first import f  # noqa: F401\n\n__all__ = ["f"]\n'  # noqa: E501
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(paths: list[Path], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_the_files_of_a_kernel_follow_includes_and_imports(tree: Path) -> None:
    assert names(sources.files("cuda", "attention/ampere/second", tree), tree) == [
        "cuda_kernels/attention/ampere/second.cu",
        "cuda_kernels/attention/ampere/first.cu",
        "cuda_kernels/attention/attention.cuh",
        "cuda_kernels/ptx/mma.cuh",
    ]
    assert names(sources.files("triton_native", "attention/ampere/second", tree), tree) == [
        "triton_kernels/attention/ampere/second.py",
        "triton_kernels/attention/ampere/first.py",
        "triton_kernels/attention/specialization.py",
    ]


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        ("cuda", "cuda_kernels/ptx/mma.cuh"),
        ("cuda", "cuda_kernels/attention/ampere/first.cu"),
        ("triton", "triton_kernels/attention/specialization.py"),
    ],
)
def test_a_hash_changes_with_the_code_of_every_file_it_rests_on(tree: Path, backend: str, file: str) -> None:
    before = sources.source_sha256(backend, "attention/ampere/second", tree)
    assert before == sources.source_sha256(backend, "attention/ampere/second", tree)
    comment, statement = ("// why\n", "int more;\n") if backend == "cuda" else ("# why\n\n", "more = 1\n")
    (tree / file).write_text((tree / file).read_text() + comment)
    assert sources.source_sha256(backend, "attention/ampere/second", tree) == before
    (tree / file).write_text((tree / file).read_text() + statement)
    assert sources.source_sha256(backend, "attention/ampere/second", tree) != before


def test_a_hash_ignores_docstrings(tree: Path) -> None:
    path = tree / "triton_kernels/attention/ampere/first.py"
    before = sources.source_sha256("triton", "attention/ampere/first", tree)
    path.write_text('"""Another opening."""\n' + path.read_text().partition('"""\n')[2])
    assert sources.source_sha256("triton", "attention/ampere/first", tree) == before


def test_a_hash_ignores_headers_that_are_not_included(tree: Path) -> None:
    before = sources.source_sha256("cuda", "attention/ampere/first", tree)
    (tree / "cuda_kernels/ptx/unused.cuh").write_text("changed\n")
    assert sources.source_sha256("cuda", "attention/ampere/first", tree) == before


def test_a_re_export_is_the_same_program(tree: Path) -> None:
    for language in ("cuda", "triton", "triton_native"):
        assert sources.same_program("attention/ampere/second", language, tree) == "first"
        assert sources.same_program("attention/ampere/first", language, tree) is None
        assert sources.same_program("attention/ampere/absent", language, tree) is None


def test_lines_of_code_are_those_without_comments_and_docstrings(tree: Path) -> None:
    assert sources.lines_of_code(tree / "cuda_kernels/attention/ampere/first.cu") == 2
    assert sources.lines_of_code(tree / "triton_kernels/attention/ampere/first.py") == 5
    assert sources.lines_of_code(tree / "triton_kernels/attention/ampere/second.py") == 2


def test_python_that_does_not_parse_is_not_the_reports_problem(tree: Path) -> None:
    path = tree / "triton_kernels/attention/ampere/broken.py"
    path.write_text("def f(:")
    assert sources.lines_of_code(path) == 0
    assert sources.same_program("attention/ampere/broken", "triton", tree) is None
    assert sources.files("triton", "attention/ampere/broken", tree) == [path]


def test_absent_kernel_and_unknown_backend_say_so(tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cuda twin of attention/ampere/absent"):
        sources.files("cuda", "attention/ampere/absent", tree)
    with pytest.raises(ValueError, match="sdpa_flash"):
        sources.files("sdpa_flash", "attention/ampere/first", tree)


def test_checkouts_can_share_what_compilers_make(tmp_path: Path) -> None:
    """One folder for all of it, kernels' packages and harness alike, where the variable names one."""
    program = """
from cuda_kernels import build, cpu_build
from harness.catalog import sources
from harness.build import machine_code
print(build.BUILD, cpu_build.BUILD, machine_code.CACHE, sources.CACHE)
"""
    for given, folder in (({"TWINKERNELS_CACHE": str(tmp_path)}, tmp_path), ({}, sources.ROOT / "build")):
        environment = {name: value for name, value in os.environ.items() if name != "TWINKERNELS_CACHE"} | given
        command = [sys.executable, "-c", program]
        said = subprocess.run(command, cwd=sources.ROOT, env=environment, capture_output=True, text=True, check=True)
        assert said.stdout.split() == [str(folder / name) for name in ("cuda", "cpu", "disassembled", ".")]


def test_a_file_is_put_whole_with_the_mode_of_any_other(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    sources.put(tmp_path / "new" / "put", b"whole")
    assert (tmp_path / "new" / "put").read_bytes() == b"whole"
    assert (tmp_path / "new" / "put").stat().st_mode == plain.stat().st_mode
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        sources.put(tmp_path / "folder", b"")
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "new", "folder"}, "nothing is left behind"
