"""The proofs of every technique, and what changed between versions."""

from dataclasses import replace
from typing import Any

import pytest

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.expressibility import matrix as proofs
from harness.expressibility import verdicts
from harness.expressibility.claims import VERSIONS
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.problem import Problem
from harness.rows import results
from reports import build
from reports.data.dataset import Dataset, Row
from reports.facts.expressibility import Known, Said, said
from reports.pages import overview
from reports.pages.common import Rows
from tests.support import synthetic_rows as synthetic
from tests.support.pages import EMPTY, rendered

pytestmark = pytest.mark.slow


def known(**grades: str) -> Known:
    """Techniques in core Triton by grade; Gluon writes all, TLX none."""
    found = {(name, "triton"): Said(name, grade) for name, grade in grades.items()}
    return found | {(name, "gluon"): Said(name, "direct") for name in grades}


def page_of(given: Known, data: Dataset = EMPTY) -> str:
    """The proofs of every technique, one after the other."""
    rows = {name: Rows(data, [data], given, lambda *_: "") for name in operators.names()}
    pages = (rendered("proof.html", overview.proof(rows, name)) for name in dict.fromkeys(name for name, _ in given))
    return " ".join(" ".join(pages).split())


def test_every_technique_of_the_matrix_has_its_marks_and_its_proofs() -> None:
    given = known(wgmma="hint", padded_rows="hatch", named_barriers="automatic")
    rows = {name: Rows(EMPTY, [EMPTY], given, lambda *_: "") for name in operators.names()}
    page = rendered("techniques.html", overview.techniques_page(rows, []))
    assert all(f'href="proof/{name}.html#triton"' in page for name in ("wgmma", "padded_rows", "named_barriers"))
    assert 'href="technique/wgmma.html"' in page
    assert "technique/named_barriers.html" not in page, "it is on no ladder"


def test_a_cell_says_what_the_gates_of_a_gpu_say() -> None:
    """A compiler does not tell that a result is wrong."""
    claim = next(each for each in CLAIMS if each.cell == ("warp_specialized", "triton"))
    mark = proofs.Mark(verdicts.PROVEN, claim, ())
    cell = proofs.Cell("warp_specialized", "roles", "triton", dict.fromkeys(VERSIONS["triton"], mark))
    given = {("warp_specialized", "triton"): Said("warp_specialized", "hint", version="3.9.0", cell=cell)}

    def gate(backend: str, stages: int, status: str, **rest: Any) -> Row:
        tile, problem = Tile(128, 64, stages, 8), Problem.square(1, 16, 1024, 64)
        row = synthetic.make("gate", "producer_consumer", backend, problem, tile, experiment=claim.gates)
        return {**row, "status": status, "source_sha256": "f" * 64, **rest}

    rows = [
        *(gate("triton", 2, "passed"), gate("triton", 3, "wrong", reason="elements of O are NaN")),
        *(gate("triton@3.7.1", 3, "wrong", reason="x"), gate("triton@3.8.0", 3, "passed")),
    ]
    hashes = {("producer_consumer", backend): "f" * 64 for backend in ("triton", *techniques.AS_CUBINS)}
    page = page_of(given, Dataset("NVIDIA H200", True, [synthetic.ENVIRONMENT, *rows], hashes))
    said = (
        'compiled by Triton 3.6.0: right at 128x64-s2-w8, <span class="fault">wrong result</span> at 128x64-s3-w8; '
        '3.7.1: <span class="fault">wrong result</span> at 128x64-s3-w8; 3.8.0: right at 128x64-s3-w8. '
        "The first: elements of O are NaN."
    )
    assert said in page
    assert overview.gated(given["warp_specialized", "triton"], EMPTY) is None


def test_an_experiment_whose_gates_a_cell_names_has_rows_with_a_wrong_result() -> None:
    for name in {claim.gates for claim in CLAIMS if claim.gates}:
        rows = results.read_recorded(build.ROOT / "recorded", "h200", name)
        assert {row["status"] for row in rows if row["kind"] == "gate"} >= {"passed", "wrong"}


def test_a_proof_says_how_it_is_seen_without_this_project_or_what_it_needs() -> None:
    def needs(name: str, version: str) -> tuple[str, bool]:
        proof = next(proof for claim in CLAIMS for proof in claim.proofs if proof.name == name)
        shown = proofs.Shown(proof, version, verdicts.PROVEN)
        return shown.needs, shown.alone is not None

    assert needs("epilogue descriptor", "3.9.0") == ("", True)
    assert needs("tiles from a counter", "3.9.0") == ("this repository", False)
    assert needs("wgmma in CUDA", "") == needs("l2_policy in CUDA", "") == ("this repository and nvcc", False)
    recorded = results.read_recorded(build.ROOT / "recorded", "compilers", "expressibility")
    page = page_of(said(recorded))
    assert "<dt>without this project</dt><dd>it needs this repository and nvcc</dd>" in page
    assert "<dt>without this project</dt><dd>it needs this repository</dd>" in page


def test_a_site_has_the_files_of_its_proofs_with_what_they_need_beside_them() -> None:
    recorded = results.read_recorded(build.ROOT / "recorded", "compilers", "expressibility")
    files = overview.programs(said(recorded))
    assert "triton_kernels/probes/swizzle_box.py" in files
    assert "harness/operators/attention/rivals/cutile/assemble.py" in files
    assert all((sources.ROOT / path).is_file() for path in files)
    assert overview.programs(known(wgmma="hint")) == set(), "nothing was compiled"


def changing(name: str, *marks: tuple[str, str | None]) -> Said:
    """A cell of core Triton with a grade and a fault in each version."""
    claim = next(claim for claim in CLAIMS if claim.dialect == "triton")
    versions = zip(VERSIONS["triton"], marks, strict=True)
    made = {
        version: proofs.Mark("proven", replace(claim, grade=grade, fault=fault), ())
        for version, (grade, fault) in versions
    }
    return Said(name, marks[-1][0], cell=proofs.Cell(name, "", "triton", made))


def test_what_the_newest_version_does_no_more_comes_first() -> None:
    cells = [
        changing("regained", ("hint", None), ("hint", "fails"), ("hint", "fails"), ("hint", None)),
        changing("gained", ("inexpressible", None), ("hint", None), ("hint", None), ("direct", None)),
        changing("lost_to_a_bug", ("hint", None), ("hint", "dropped"), ("hint", "dropped"), ("hint", "dropped")),
        changing("lost", ("direct", None), ("direct", None), ("hint", None), ("hint", None)),
        changing("same", *[("hint", None)] * 4),
        Said("not_probed"),
    ]
    found = overview.changes({(one.technique, "triton"): one for one in cells})
    assert [(cell.technique, lost) for cell, _, lost in found] == [
        ("lost_to_a_bug", True),
        ("lost", True),
        ("regained", False),
        ("gained", False),
    ]


def test_what_an_author_can_write_is_counted_by_the_version_that_was_timed_too() -> None:
    always = ("direct", None)
    cells = [
        changing("always", always, always, always, always),
        changing("later", ("hatch", None), always, always, always),
        changing("mended", ("direct", "wrong"), always, always, always),
        changing("lost", always, always, always, ("direct", "dropped")),
    ]
    given = {(one.technique, "triton"): replace(one, fault=one.cell.marks["3.9.0"].fault) for one in cells}
    rows = {name: Rows(EMPTY, [EMPTY], given, lambda *_: "") for name in operators.names()}
    variables = overview.techniques_page(rows, [])
    assert variables["written"]["core Triton"] == 3
    assert variables["timed"] == ("3.6.0", {"core Triton": 2, "Gluon": 0})
    assert "in Triton 3.6.0, of which the speeds are, 2 in core Triton" in rendered("techniques.html", variables)
