"""What the matrix adds up to, from the recorded proofs, and what the source of an overlap becomes in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

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
from reports.pages import expressibility, overview
from tests.support import synthetic_rows as synthetic
from tests.support.pages import EMPTY, rendered

pytestmark = pytest.mark.slow

HASHES = {(expressibility.OVERLAP, backend): backend for backend in ("cuda", "gluon", "triton")}


def known(**grades: str) -> Known:
    """Techniques in core Triton by grade; Gluon writes all, TLX none."""
    found = {(name, "triton"): Said(name, grade) for name, grade in grades.items()}
    return found | {(name, "gluon"): Said(name, "direct") for name in grades}


def page_of(given: Known, data: Dataset = EMPTY, inspected: Sequence[Row] = ()) -> str:
    return " ".join(rendered("expressibility.html", expressibility.page([], given, inspected, None, data)).split())


def loop(backend: str, kept: int, **rest: Any) -> Row:
    problem = Problem.parse("b4-h16-n4096-d128-bf16-full")
    counted = {"under_products": {"exponentials": kept}, "all": {"exponentials": 66}}
    return {
        "kind": "code",
        "time": synthetic.TIME,
        "status": "passed",
        "technique": expressibility.OVERLAP,
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
    found = expressibility.grades(given, {})
    assert (found["techniques"], sum(found["grades"].values())) == (4, 4)
    assert list(found["beyond"]["hatch"]) == ["padded_rows", "pingpong"]
    assert found["written"] == {"gluon": 3, "tlx": 0}
    page = page_of(given)
    assert (
        'Of <a href="#matrix">4 techniques</a> its source writes 0, its compiler does 0 unasked, and 1 are hints'
        in page
    )
    assert 'Impossible: <a href="#three_warpgroups-triton">Three consumer warpgroups</a>.' in page
    assert 'Of <a href="#matrix">these 3</a>, Gluon writes 3 and TLX 0.</li>' in page
    assert "already swizzles the tiles that CUDA pads" in page
    assert "What the source only proposes" not in page, "no machine code was read"
    other = page_of(known(pingpong="hatch"))
    assert "already swizzles" not in other
    assert "Nothing is impossible: each was reached in some form." in other


def test_a_grade_with_a_fault_gives_nothing_back() -> None:
    given = known(cluster_multicast="hatch", pingpong="hatch")
    given |= {("cluster_multicast", "tlx"): Said("cluster_multicast", "direct", "fails")}
    given |= {("pingpong", "tlx"): Said("pingpong", "direct")}
    assert expressibility.grades(given, {})["written"] == {"gluon": 2, "tlx": 1}


def test_the_order_that_ptxas_left_is_read_from_rows_of_this_checkout() -> None:
    rows = [loop("cuda", 0), loop("triton", 66), loop("triton", 7, source_sha256="earlier"), loop("gluon", 3)]
    data = Dataset("", False, (), HASHES)
    said = "In machine code 0 of 66 exponentials are still there in CUDA (128x128-s2-w8), 3 of 66"
    assert said in page_of(known(wgmma="hint"), data, rows)
    found = expressibility.overlap([*rows[:2], loop("gluon", 3, arch="sm_80")], HASHES)
    assert {name: row["code"]["main_loop"]["under_products"]["exponentials"] for name, row in found.items()} == {
        "cuda": 0,
        "triton": 66,
    }


def test_the_hatch_that_was_timed_is_on_the_page() -> None:
    tile, problem = techniques.reference_tile(techniques.get("softmax_lock"), 128), Problem.square(4, 16, 4096, 128)

    def timed(backend: str, tflops: float) -> Row:
        of = {"experiment": "hatches", "mode": "burst", "group": "g1", "samples_ms": [problem.flops / tflops / 1e9] * 5}
        return {**synthetic.make("timing", "softmax_lock", backend, problem, tile, **of), "source_sha256": backend}

    hashes = {("softmax_lock", backend): backend for backend in ("hatch", "triton")}
    rows = [synthetic.ENVIRONMENT, timed("hatch", 400), timed("triton", 500)]
    page = page_of(known(padded_rows="hatch"), Dataset("NVIDIA H200", True, rows, hashes))
    assert (
        'runs at <a href="experiment/hatches.html">0.80 to 0.80 times</a> the speed of core Triton’s own kernel' in page
    )
    assert expressibility.timed_hatch(EMPTY) is None


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
    assert expressibility.gated(given, EMPTY) == {}


def test_an_experiment_whose_gates_a_cell_names_has_rows_with_a_wrong_result() -> None:
    for name in {claim.gates for claim in CLAIMS if claim.gates}:
        rows = results.read_recorded(build.ROOT / "recorded", "h200", name)
        assert {row["status"] for row in rows if row["kind"] == "gate"} >= {"passed", "wrong"}


def test_a_proof_says_how_it_is_seen_without_this_project_or_what_it_needs() -> None:
    def needs(name: str, version: str) -> tuple[str, bool]:
        proof = next(proof for claim in CLAIMS for proof in claim.proofs if proof.name == name)
        shown = proofs.Shown(proof, version, verdicts.PROVEN, "", (), (), None)
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
    found = expressibility.changes({(one.technique, "triton"): one for one in cells})
    assert [(cell.technique, lost) for cell, _, lost in found] == [
        ("lost_to_a_bug", True),
        ("lost", True),
        ("regained", False),
        ("gained", False),
    ]
