"""`twinkernels expressibility`: what it compiles where some Tritons are not installed, and where rows are recorded."""

import importlib
import re
from typing import Any

import pytest
import typer

from harness import operators
from harness.build import tritons
from harness.catalog import techniques
from harness.cli import output
from harness.cli.expressibility import needed, without_missing
from harness.expressibility import matrix, survey, verdicts
from harness.expressibility.claims import RIVALS, VERSIONS
from harness.expressibility.survey import Todo
from harness.expressibility.verdicts import Verdict

CLAIMS, OF_RIVALS = matrix.claims(), matrix.claims_of_rivals()
ASKED = survey.todo([claim for claim in CLAIMS if claim.technique == "cluster_multicast"], ("3.6.0",))
HERE = ("3.7.1", "triton")
EVERY = (*VERSIONS["triton"], "", *(VERSIONS[rival][0] for rival in RIVALS))


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


@pytest.mark.slow
def test_missing_compiles_what_has_no_current_row_in_any_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": True)
    few = CLAIMS[::6]
    assert {claim.dialect for claim in few} == {claim.dialect for claim in CLAIMS}
    monkeypatch.setattr(matrix, "claims", lambda: few)
    every = survey.todo(few, (*VERSIONS["triton"], ""))
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
    asked = compiled_by(monkeypatch, [], only_missing=True, name="attention/cluster_multicast")
    assert {version for claim, _, version in asked if claim.dialect != "cuda"} == {"3.9.0"}
    assert "needs triton 3.6.0; add --install" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("rivals", [False, True])
def test_the_whole_table_stands_without_the_compilers_that_are_not_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rivals: bool
) -> None:
    """Of a fresh machine no proof was shown: one of them needs a Triton that is not there."""
    monkeypatch.setattr(tritons, "installed", lambda: "3.7.1")
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": (version, dialect) == HERE)
    rows = [survey.row(each, Verdict(verdicts.PROVEN)) for each in survey.todo((*CLAIMS, *OF_RIVALS), EVERY)]
    asked = compiled_by(monkeypatch, rows, rivals=rivals)
    assert bool(asked) is not rivals
    assert {one for each in asked for one in needed(each)} <= {HERE}
    out, err = capsys.readouterr()
    every = int(re.search(r"(\d+) of \1 cells are proven in every version", out)[1])  # type: ignore[index]
    assert every > 5
    needs = (
        r"cuTile \S+ and CuTe DSL \S+, not here; --install downloads that \(717 MB\)" if rivals else r"triton 3\.9\.0"
    )
    assert re.match(rf"shown as recorded: \d+ proofs need .*{needs}", err)
    missing = {"triton": ["3.9.0"]}
    assert err.count("triton 3.9.0") <= 1
    if not rivals:
        monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": version == "3.7.1")
        assert {version for *_, version in compiled_by(monkeypatch, rows, **missing)} >= {"3.9.0"}, "asked for by name"


def test_a_proof_that_was_missing_is_written_for_one_technique_too(monkeypatch: pytest.MonkeyPatch) -> None:
    command = importlib.import_module("harness.cli.expressibility")
    wrote: list[Todo] = []
    monkeypatch.setattr(tritons, "is_here", lambda version, dialect="triton": True)
    monkeypatch.setattr(command, "known_rows", list)
    monkeypatch.setattr(command, "judged", lambda todo, install: [(each, Verdict(verdicts.PROVEN)) for each in todo])
    monkeypatch.setattr(command, "written", lambda found: wrote.extend(each for each, _ in found) or [])
    for only_missing in (False, True):
        with pytest.raises(typer.Exit):
            command.expressibility("attention/cluster_multicast", triton=["3.6.0"], only_missing=only_missing)
        assert bool(wrote) is only_missing


def test_a_technique_without_a_claim_is_not_graded_yet_whatever_its_operator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graded = {claim.technique for claim in (*CLAIMS, *OF_RIVALS)}
    for operator in operators.every():
        name = next(key for one in operator.techniques if (key := techniques.key(one)) not in graded)
        assert compiled_by(monkeypatch, [], name=name) == []
        assert f"{name} is not graded yet: a Claim in " in capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_recorded_shows_the_table_and_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setattr(output.console, "width", columns)
    assert compiled_by(monkeypatch, [], only_recorded=True) == []
    said = capsys.readouterr().out
    assert {claim.technique for claim in CLAIMS} <= set(re.findall(r"\w+", said))
    assert "…" not in said
    assert re.search(r"0 of \d+ cells are proven", said)
