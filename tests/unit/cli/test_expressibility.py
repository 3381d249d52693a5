"""`twinkernels expressibility NAME` where some Tritons are not installed."""

from __future__ import annotations

import pytest

from harness.cli.expressibility import without_missing
from harness.expressibility import survey
from harness.expressibility.cells import CLAIMS
from harness.variants import tritons

ASKED = survey.todo([claim for claim in CLAIMS if claim.technique == "cluster_multicast"], ("3.6.0",))


def test_a_proof_whose_control_needs_another_triton_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": version == "3.6.0")
    here = without_missing(ASKED)
    assert {proof.name for _, proof, _ in here} == {"smem_asm", "smem_asm gluon", "multicast_gluon argument"}
    assert "not run: clusters sm_90 needs triton 3.9.0; add --install" in capsys.readouterr().out


def test_where_none_can_run_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": False)
    assert without_missing(ASKED) == ASKED
