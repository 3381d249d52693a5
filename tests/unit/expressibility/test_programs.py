"""Which programs share a process of the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.expressibility import programs
from harness.expressibility.claims import Probe
from harness.operators.attention.claims.twin import Twin

VERSION = "3.6.0"


def test_kernels_of_the_ladders_share_processes_and_a_hatch_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each would import torch for itself; a hatch's hook would stay for the kernels after it."""
    names = ("wgmma", "producer_consumer", "three_warpgroups", "exp_lock", "overlapped_softmax", "pingpong")
    twins = [Twin(name, "gluon", head_dim) for name in names for head_dim in (64, 128)]
    held = [Twin(name, "triton", 64) for name in ("xor_swizzle", "large_tile")]  # to mma.sync, by a variable
    hatch, probe = Twin("producer_consumer", "hatch"), [Probe("swizzle_box", form) for form in ("64", "32")]
    lock = [Twin("softmax_lock", "hatch", head_dim) for head_dim in (64, 128)]
    asked: list[set[str]] = []

    def run(request: dict, environment: dict, forms: list[str]) -> dict:
        asked.append(set(forms))
        assert set(request.get("twins", forms)) == set(forms)
        return {form: {"words": environment.get("DISABLE_MMA_V3", "free")} for form in forms}

    monkeypatch.setattr(programs, "run", run)
    monkeypatch.setattr(programs.tritons, "variables", lambda version, dialect: {})
    jobs = [(program, VERSION) for program in (*twins, *held, hatch, *lock, *probe)]
    found = dict(programs.compiled(jobs, tmp_path))
    assert set(found) == set(jobs)
    assert sorted(map(len, asked)) == [1, 2, 2, 2, 4, programs.TOGETHER]
    assert {hatch.label} in asked
    assert {each.label for each in lock} in asked
    assert {each.label for each in held} in asked
    assert {found[each, VERSION]["words"] for each in held} == {"1"}
    assert {found[each, VERSION]["words"] for each in twins} == {"free"}
