"""`twinkernels expressibility`: what it compiles where some Tritons are not installed, and where rows are recorded."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import typer

from harness.cli.expressibility import without_missing
from harness.expressibility import survey, verdicts
from harness.expressibility.cells import CLAIMS, OF_RIVALS
from harness.expressibility.claims import RIVALS, VERSIONS
from harness.expressibility.survey import Todo
from harness.expressibility.verdicts import Verdict
from harness.variants import tritons

ASKED = survey.todo([claim for claim in CLAIMS if claim.technique == "cluster_multicast"], ("3.6.0",))


def test_a_proof_whose_control_needs_another_triton_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": version == "3.6.0")
    here = without_missing(ASKED)
    names = {proof.name for _, proof, _ in here}
    in_gluon = {"multicast_asm in Gluon", "multicast_gluon argument"}
    assert names == {"multicast_asm", "smem_asm", "clusters of two blocks", *in_gluon}
    assert "not run: clusters sm_90 needs triton 3.9.0; add --install" in capsys.readouterr().out


def test_where_none_can_run_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": False)
    assert without_missing(ASKED) == ASKED


def compiled_by(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], **options: Any) -> list[Todo]:
    """What the command compiles when these rows are recorded."""
    command = importlib.import_module("harness.cli.expressibility")
    asked: list[Todo] = []
    monkeypatch.setattr(command, "known_rows", lambda: rows)
    monkeypatch.setattr(command, "written", lambda found: [])
    monkeypatch.setattr(command, "judged", lambda todo, install: asked.extend(todo) or [])
    with pytest.raises(typer.Exit):
        command.expressibility(**options)
    return asked


def test_missing_compiles_what_has_no_current_row_in_any_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": True)
    every = survey.todo(CLAIMS, (*VERSIONS["triton"], ""))
    rows = [survey.row(each, Verdict(verdicts.PROVEN)) for each in every]
    assert compiled_by(monkeypatch, rows, only_missing=True) == []
    rows[0]["source_sha256"] = "of an earlier probe"
    assert compiled_by(monkeypatch, rows[:-1], only_missing=True) == [every[0], every[-1]]
    assert compiled_by(monkeypatch, rows[1:], only_missing=True, triton=["3.7.1"]) == []
    assert compiled_by(monkeypatch, rows[:-1], only_missing=True, rivals=True) == survey.todo(
        OF_RIVALS, (VERSIONS[rival][0] for rival in RIVALS)
    )


def test_missing_leaves_out_what_needs_a_triton_that_is_not_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": version == "3.9.0")
    asked = compiled_by(monkeypatch, [], only_missing=True, name="cluster_multicast")
    assert {version for claim, _, version in asked if claim.dialect != "cuda"} == {"3.9.0"}
    assert "needs triton 3.6.0; add --install" in capsys.readouterr().out
