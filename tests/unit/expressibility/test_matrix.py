"""The matrix holds what current rows say, version by version; rows about compilers are recorded apart from GPUs."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import sources
from harness.expressibility import matrix, programs, survey, verdicts
from harness.expressibility.claims import RIVALS, Probe
from harness.expressibility.verdicts import Verdict
from harness.operators.attention.claims.rivals import ASKED
from harness.operators.attention.claims.twin import Twin
from harness.rows import record, results

CLAIMS, OF_RIVALS = matrix.claims(), matrix.claims_of_rivals()
EPILOGUE = next(claim for claim in CLAIMS if claim.cell == ("staged_epilogue", "triton"))
MACHINE = results.environment_id({"gpu": None})
PROVEN = Verdict(verdicts.PROVEN, "", ["STG.E.128"], [])


def rows(version: str, verdict: Verdict = PROVEN) -> list[dict[str, Any]]:
    made = [survey.row((EPILOGUE, proof, version), verdict) for proof in EPILOGUE.proofs]
    return [{**row, "time": "2026-01-01T00:00:00Z", "environment": MACHINE} for row in made]


def name(cell: matrix.Cell) -> tuple[str, str]:
    return cell.technique, cell.dialect


def cell_of(found: list[dict[str, Any]]) -> matrix.Cell:
    return {name(cell): cell for cell in matrix.cells(found)}[EPILOGUE.cell]


def mark(found: list[dict[str, Any]], version: str) -> matrix.Mark:
    return cell_of(found).marks[version]


def test_a_technique_is_graded_in_every_dialect_and_version_or_in_none() -> None:
    cells = [*matrix.cells([]), *matrix.rivals([])]
    later = set(matrix.not_graded(cells))
    empty = [
        (*name(cell), version)
        for cell in cells
        if cell.technique not in later
        for version, mark in cell.marks.items()
        if mark.claim is None
    ]
    assert empty == [], "add a Claim to the claims of the operator"
    assert {claim.cell for claim in (*CLAIMS, *OF_RIVALS)} <= set(map(name, cells)), "a claim about no row of the table"


def test_a_rung_without_claims_is_not_graded_yet_and_counts_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    _, before = matrix.proven(matrix.cells([]))
    others = [claim for claim in CLAIMS if claim.technique != EPILOGUE.technique]
    monkeypatch.setattr(matrix, "claims", lambda: others)
    assert {each.state for each in cell_of([]).marks.values()} == {matrix.NOT_GRADED}
    cells = matrix.cells([])
    assert EPILOGUE.technique in matrix.not_graded(cells)
    assert matrix.proven(cells) == (0, before - len(matrix.DIALECTS))


@pytest.mark.slow
def test_the_recorded_rows_prove_every_cell() -> None:
    """After an edit of a kernel or a probe: `expressibility --missing --install`, then `record`."""
    recorded = results.read_recorded(sources.ROOT / "reports" / "recorded", results.COMPILERS, "expressibility")
    for cells in (matrix.cells(recorded), matrix.rivals(recorded)):
        marks = [(*name(cell), version, mark.state) for cell in cells for version, mark in cell.marks.items()]
        assert [mark for mark in marks if mark[-1] not in (verdicts.PROVEN, matrix.NOT_GRADED)] == []
        done, graded = matrix.proven(cells)
        assert done == graded


def test_rivals_have_a_table_of_their_own() -> None:
    cells = {(cell.technique, cell.dialect): cell for cell in matrix.rivals([])}
    assert set(cells) == {(asked, rival) for asked in ASKED for rival in RIVALS} == {claim.cell for claim in OF_RIVALS}
    assert not set(cells) & {(cell.technique, cell.dialect) for cell in matrix.cells([])}


def test_a_rival_is_shown_again_by_its_own_packages() -> None:
    proof = next(proof for claim in OF_RIVALS for proof in claim.proofs if proof.name == "cutile barriers")
    shown = matrix.Shown(proof, "1.7.0", verdicts.PROVEN)
    assert shown.command == "twinkernels expressibility 'cutile barriers'"
    assert "cuda-tile==1.7.0" in str(shown.alone)
    assert str(shown.alone).endswith("rivals/cutile/hints.py")


def test_what_probes_of_cutile_share_is_part_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = next(claim for claim in OF_RIVALS if claim.dialect == "cutile").proofs[0].subject
    folder = (tmp_path / verdicts.file_of(probe)).parent
    shutil.copytree((sources.ROOT / verdicts.file_of(probe)).parent, folder)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    before = verdicts.program_sha256(probe)
    (folder / "assemble.py").write_text("another = 1\n")
    assert verdicts.program_sha256(probe) != before


REFUTED = replace(PROVEN, state=verdicts.REFUTED, reason="subject: found nothing")


@pytest.mark.parametrize(
    ("found", "version", "state"),
    [
        (rows("3.6.0"), "3.6.0", verdicts.PROVEN),
        (rows("3.6.0"), "3.9.0", matrix.NOT_RUN),
        ([{**row, "source_sha256": "0" * 64} for row in rows("3.6.0")], "3.6.0", matrix.NOT_RUN),
        (rows("3.6.0", REFUTED), "3.6.0", verdicts.REFUTED),
        ([*rows("3.6.0")[1:], *rows("3.6.0", REFUTED)[:1]], "3.6.0", verdicts.REFUTED),
    ],
    ids=["proven", "a version without rows", "of an earlier probe", "refuted", "one of several refuted"],
)
def test_a_mark_is_what_current_rows_say(found: list[dict[str, Any]], version: str, state: str) -> None:
    shown = mark(found, version)
    assert shown.state == state
    assert state != verdicts.REFUTED or shown.proofs[0].reason == REFUTED.reason


def test_a_proof_without_a_current_row_is_asked_for() -> None:
    asked = survey.todo([EPILOGUE], ("3.6.0", "3.9.0"))
    old = [{**row, "source_sha256": "0" * 64} for row in rows("3.9.0")]
    assert {version for _, _, version in survey.without_row(asked, [*rows("3.6.0"), *old])} == {"3.9.0"}
    assert survey.without_row(asked, [*rows("3.6.0"), *rows("3.9.0")]) == []


def test_a_mark_shows_what_was_seen_and_how_to_see_it_again() -> None:
    shown = mark(rows("3.9.0"), "3.9.0").proofs[0]
    assert shown.lines == ("STG.E.128",)
    assert shown.file == "triton_kernels/probes/epilogue.py"
    assert shown.command == f"twinkernels expressibility '{EPILOGUE.proofs[0].name}' --triton 3.9.0"
    assert shown.alone == "pip install triton==3.9.0 && python epilogue.py"


def test_rows_about_compilers_are_recorded_apart_from_gpus(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    with results.Writer(run) as writer:
        writer.write({"kind": "environment", "id": MACHINE, "on": "cpu", "details": {"gpu": None}})
        for row in rows("3.6.0"):
            writer.write(row)
    recorded = tmp_path / "recorded"
    (path,) = record.record([run], recorded)
    assert path.parent == recorded / "compilers" / "attention" / "expressibility"
    assert list(results.iter_recorded(recorded)) == []
    assert mark(results.read(path), "3.6.0").state == verdicts.PROVEN


def test_what_ptxas_decides_in_every_language_is_a_hint_in_every_language() -> None:
    shared = [claim for claim in CLAIMS if "In every language here ptxas decides" in claim.says]
    assert {claim.dialect for claim in shared} == set(matrix.DIALECTS)
    assert {claim.grade for claim in shared} == {"hint"}


VERSION = "3.6.0"


def test_kernels_of_the_ladders_share_processes_and_a_hatch_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each would import torch for itself; a hatch's hook would stay for the kernels after it."""
    names = ("wgmma", "producer_consumer", "three_warpgroups", "exp_lock", "overlapped_softmax", "pingpong")
    twins = [Twin(name, "gluon", head_dim=head_dim) for name in names for head_dim in (64, 128)]
    held = [Twin(name, "triton") for name in ("xor_swizzle", "large_tile")]  # to mma.sync, by a variable
    hatch, probe = Twin("producer_consumer", "hatch"), [Probe("swizzle_box", form) for form in ("64", "32")]
    lock = [Twin("softmax_lock", "hatch", head_dim=head_dim) for head_dim in (64, 128)]
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
