"""What a Triton compiler is given has one name, wherever its lines stand and whatever else its files hold."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalog import sources, techniques
from harness.catalog.problem import Problem, Tile
from harness.machine import processes
from harness.rows.renew import Program, Unknown
from harness.variants import recompiling
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.slow

KERNEL = "triton_kernels/attention/ampere/scalar.py"
PROBLEM = Problem.square(2, 4, 256, 64)


def program(problem: Problem = PROBLEM, backend: str = "triton") -> Program:
    rung = techniques.get("scalar")
    compiler = recompiling._triton() if backend == "triton" else recompiling._nvcc()
    return Program(
        "scalar",
        backend,
        problem,
        techniques.reference_tile(rung, problem.head_dim),
        "sm_90a",
        sources.source_sha256(backend, rung.path),
        compiler or ("none", "none"),
    )


def tree(place: Path, kernel: str = KERNEL, old: str = "", new: str = "") -> str:
    """A copy of the kernels, with one change to this one."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "triton_kernels", place / "triton_kernels", ignore=ignored)
    text = (place / kernel).read_text()
    assert old in text
    (place / kernel).write_text(text.replace(old, new, 1))
    return str(place)


def names_in(places: list[str], kernel: str, programs: list[Program]) -> list[dict[Program, str | Unknown]]:
    jobs: list[processes.Job] = [(recompiling._identify, (place, kernel, programs)) for place in places]
    found = {job[1][0]: answer for job, answer in processes.answers(jobs, {})}
    assert all(isinstance(each, dict) for each in found.values()), found
    return [found[place] for place in places]


def test_names_tell_programs_apart_and_nothing_else(tmp_path: Path) -> None:
    places = [
        tree(tmp_path / name, KERNEL, old, new)
        for name, old, new in (
            ("as it is", "", ""),
            ("moved", "import triton\n", "\n\nimport triton\n"),
            ("more beside it", "import triton\n", "import triton\n\n\ndef nobody_calls():\n    return 1\n"),
            ("changed", "tl.exp", "tl.exp2"),
            ("another constant", "LOWEST = tl.constexpr(-3.0e38)", "LOWEST = tl.constexpr(-3.1e38)"),
            ("another option", "num_stages=1", "num_stages=2"),
        )
    ]
    one, causal = program(), program(Problem.square(2, 4, 256, 64, causal=True))
    names = names_in(places, KERNEL, [one, causal])
    assert [each[one] == names[0][one] for each in names] == [True, True, True, False, False, False]
    assert names[0][one] != names[0][causal]


def gluon(kernel: str) -> Program:
    return replace(program(), technique=kernel, backend="gluon", tile=Tile(64, 64))


def test_a_constexpr_function_may_move_and_comments_may_change(tmp_path: Path) -> None:
    """Triton puts the line of each function into the key of its cache, and its text with comments. Layouts come from
    constexpr functions."""
    kernel = "triton_kernels/attention/gluon/ampere/cp_async_pipeline.py"
    one = gluon("cp_async_pipeline")
    places = [
        tree(tmp_path / "as it is", kernel),
        tree(tmp_path / "moved", kernel, "@gluon.constexpr_function\n", "\n\n@gluon.constexpr_function\n"),
        tree(tmp_path / "comment", kernel, "# S = Q K^T", "# the scores"),
        tree(tmp_path / "docstring", kernel, "Adds keys begin <= j < end to O", "Adds some keys"),
        tree(tmp_path / "changed", kernel, "max_phase=8", "max_phase=4"),
    ]
    as_it_is, moved, comment, docstring, changed = (each[one] for each in names_in(places, kernel, [one]))
    assert isinstance(as_it_is, str)
    assert as_it_is == moved == comment == docstring
    assert as_it_is != changed


def test_a_name_is_the_same_whatever_was_named_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's own depends on it where a kernel calls a function that reads a constant, as `load_rows` does."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})  # one process for all
    kernels = [f"triton_kernels/attention/gluon/hopper/{name}.py" for name in ("exp_lock", "pingpong")]
    jobs: list[processes.Job] = [
        (recompiling._identify, (str(CHECKOUT), kernel, [gluon(Path(kernel).stem)])) for kernel in kernels
    ]
    first = [answer for _, answer in processes.answers(jobs, {})]
    again = [answer for _, answer in processes.answers(jobs[::-1], {})]
    assert first == again[::-1]
    assert all(isinstance(name, str) for answer in first for name in answer.values()), first


def test_a_program_without_a_name_leaves_the_others_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompiling, "KEPT", tmp_path / "kept.txt")
    fine = program()
    unsayable = replace(fine, tile=Tile(64, 64, 1, 4, (("maxregs", 128),)))
    found = dict(recompiling.identify_all([unsayable, fine]))
    assert isinstance(found[fine], str)
    assert isinstance(found[unsayable], Unknown)
    assert "maxregs" in found[unsayable].reason


def test_sources_are_found_in_the_newest_commit_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commit that was measured lacks them: rows renewed since count as later sources."""
    monkeypatch.setattr(recompiling, "_history", lambda backend: ["newer", "older"])
    monkeypatch.setattr(recompiling, "lay_out", lambda commit: Path("/", commit))
    held = {CHECKOUT: {"now": "here.py"}, Path("/measured"): {"then": "a.py"}, Path("/older"): {"since": "b.py"}}
    monkeypatch.setattr(recompiling, "_kernels", lambda root, backend: held.get(root, {}))
    recompiling._sources.cache_clear()
    assert recompiling._sources("triton", "now", "measured") == (CHECKOUT, "here.py")
    assert recompiling._sources("triton", "then", "measured") == (Path("/measured"), "a.py")
    assert recompiling._sources("triton", "since", "measured") == (Path("/older"), "b.py")
    absent = recompiling._sources("triton", "never", "measured")
    assert isinstance(absent, Unknown)
    assert "measure" in absent.reason
    recompiling._sources.cache_clear()


def test_names_are_kept_and_cuda_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompiling, "KEPT", tmp_path / "kept.txt")
    wanted = [program(), program(backend="cuda")]
    first = dict(recompiling.identify_all(wanted))
    assert first[wanted[1]] == Unknown("only compiling tells")
    assert isinstance(first[wanted[0]], str)
    monkeypatch.setattr(processes, "answers", lambda *rest, **more: iter(()))
    assert dict(recompiling.identify_all(wanted)) == first
