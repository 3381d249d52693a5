"""What the matrix adds up to, from the recorded proofs, and what the source of an overlap becomes in machine code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.catalog import sources
from harness.catalog.problem import Problem, Tile
from harness.expressibility import matrix as proofs
from harness.expressibility.cells import CLAIMS
from harness.expressibility.claims import VERSIONS
from harness.rows import results
from reports import build
from reports.data.dataset import Row
from reports.facts import expressibility, findings
from reports.facts.expressibility import Known, Said
from reports.pages import overview
from tests.support.pages import EMPTY, rendered

HASHES = {(findings.OVERLAP, backend): backend for backend in ("cuda", "gluon", "triton")}


def known(**grades: str) -> Known:
    """Techniques in core Triton by grade; Gluon writes all, TLX none."""
    found = {(name, "triton"): Said(name, grade) for name, grade in grades.items()}
    return found | {(name, "gluon"): Said(name, "direct") for name in grades}


def page_of(given: Known, found: findings.Findings) -> str:
    return " ".join(rendered("expressibility.html", overview.expressibility([], given, [], found, EMPTY)).split())


def loop(backend: str, kept: int, **rest: Any) -> Row:
    problem = Problem.parse("b4-h16-n4096-d128-bf16-full")
    counted = {"under_products": {"exponentials": kept}, "all": {"exponentials": 66}}
    return {
        "kind": "code",
        "status": "passed",
        "technique": findings.OVERLAP,
        "backend": backend,
        "arch": "sm_90a",
        "problem": problem.to_dict(),
        "tile": Tile(128, 128, 2, 8).to_dict(),
        "source_sha256": backend,
        "code": {"main_loop": counted},
        **rest,
    }


def test_grades_add_up_and_what_is_beyond_core_triton_is_named() -> None:
    given = known(wgmma="hint", padded_rows="hatch", pingpong="hatch", three_warpgroups="inexpressible")
    found = findings.findings(given, EMPTY, None, [], {})
    assert (found.techniques, sum(found.grades.values()), found.beyond) == (4, 4, 3)
    assert list(found.gains["hatch"]) == ["padded_rows", "pingpong"]
    assert found.written == {"gluon": 3, "tlx": 0}
    page = page_of(given, found)
    assert "Of 4 techniques its source writes 0, its compiler does 0 unasked, and 1 are hints" in page
    assert 'Impossible: <a href="#three_warpgroups-triton">Three consumer warpgroups</a>.' in page
    assert "Of these 3, Gluon writes 3 and TLX 0.</li>" in page
    assert "What the source only proposes" not in page, "no machine code was read"


def test_the_order_that_ptxas_left_is_read_from_rows_of_this_checkout() -> None:
    rows = [loop("cuda", 0), loop("triton", 66), loop("triton", 7, source_sha256="earlier"), loop("gluon", 3)]
    kept = findings.findings(known(wgmma="hint"), EMPTY, None, rows, HASHES)
    assert kept.kept == {"cuda": (0, 66), "gluon": (3, 66), "triton": (66, 66)}
    page = page_of(known(wgmma="hint"), kept)
    assert "CUDA and Gluon keep P V in flight, and 0 of 66 exponentials" in page
    assert "(3 of 66 in Gluon)" in page
    assert "instead, and 66 of 66 are." in page
    without = findings.findings(known(wgmma="hint"), EMPTY, None, [*rows[:2], loop("gluon", 3, arch="sm_80")], HASHES)
    assert without.kept["gluon"] is None
    page = page_of({}, replace(without, techniques=1))
    assert "CUDA keeps P V in flight" in page


def test_a_site_has_the_files_of_its_proofs_with_what_they_need_beside_them() -> None:
    recorded = results.read(build.ROOT / "recorded" / "compilers" / "expressibility.jsonl")
    files = overview.programs(expressibility.said(recorded))
    assert "triton_kernels/probes/swizzle_box.py" in files
    assert "harness/expressibility/rivals/cutile/assemble.py" in files
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
    said = [
        changing("regained", ("hint", None), ("hint", "fails"), ("hint", "fails"), ("hint", None)),
        changing("gained", ("inexpressible", None), ("hint", None), ("hint", None), ("direct", None)),
        changing("lost_to_a_bug", ("hint", None), ("hint", "dropped"), ("hint", "dropped"), ("hint", "dropped")),
        changing("lost", ("direct", None), ("direct", None), ("hint", None), ("hint", None)),
        changing("same", *[("hint", None)] * 4),
        Said("not_probed"),
    ]
    found = findings.changes({(one.technique, "triton"): one for one in said})
    assert [(change.technique, change.lost) for change in found] == [
        ("lost_to_a_bug", True),
        ("lost", True),
        ("regained", False),
        ("gained", False),
    ]
