"""The gap of attention's backward pass: its terms have causes and proofs, and add up to it."""

import math

import pytest

from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import of_experiment
from harness.operators.attention.gap import CAUSES, Term
from harness.operators.attention_backward import prices
from harness.operators.attention_backward.ablations import ABLATIONS
from harness.operators.attention_backward.claims import CLAIMS
from harness.rows import scorecard
from tests.support import synthetic_rows as synthetic
from tests.support.tables import tables

EXPERIMENT = experiments.load(f"attention_backward/{prices.EXPERIMENT}")
GRADES = {proof.name: claim.grade for claim in CLAIMS if claim.dialect == "triton" for proof in claim.proofs}
SPEED = {
    "triton": 340,
    "triton_program": 420,
    "consumers_reduce": 450,
    "bulk_reduce": 500,
    "overlapped": 600,
    "descending": 605,
    "next_tile": 620,
    "flagship": 640,
    "without_reducing_warp": 560,
    "without_dp_in_flight": 580,
}
"""TFLOPS that nothing measured."""


@pytest.mark.parametrize("term", prices.TERMS, ids=lambda term: term.name)
def test_a_term_is_measured_and_its_cause_is_borne_out(term: Term) -> None:
    timed = {case.technique for case in of_experiment(EXPERIMENT, "h100") if case.backend == "cuda"} | {prices.START}
    assert {end for end in (term.leave_out, *(term.step or ())) if end} <= timed
    assert term.leave_out in {"", *(one.name for one in ABLATIONS if term.name in one.lacks)}
    assert term.cause in CAUSES
    grades = {GRADES[name] for name in term.proofs}
    assert grades or term.cause == "effort"
    assert term.cause != "language" or "hatch" in grades


def test_the_steps_lead_from_core_triton_to_the_fastest_kernel_without_a_break() -> None:
    at = prices.START
    for term in prices.TERMS:
        if not term.part_of:
            to, before = term.step or ("", "")
            assert before == at
            at = to
    assert at == prices.FLAGSHIP


def test_the_gap_begins_at_core_tritons_kernels_with_five_products() -> None:
    tile = techniques.reference_tile(techniques.get("attention_backward/flagship"), prices.HEADLINE.tile_key)
    names = ("bulk_reduce", "deterministic", "flagship")
    found = [prices.name("triton", name, tile.slug, tile, prices.HEADLINE, False) for name in names]
    assert found == [prices.START, None, None]
    twins = {sources.same_program(f"attention_backward/hopper/{name}", "triton") or name for name in names[1:]}
    assert twins == {"deterministic"}


def test_the_scorecard_has_the_share_that_has_a_cause() -> None:
    problem = prices.HEADLINE
    rows, hashes = [synthetic.ENVIRONMENT], {}
    for kernel, speed in SPEED.items():
        technique, backend = ("bulk_reduce", "triton") if kernel == prices.START else (kernel, "cuda")
        which, sha = techniques.get(f"attention_backward/{technique}"), synthetic.sha(technique, backend)
        row = synthetic.make("timing", None, backend, problem, None, experiment=EXPERIMENT.name, mode="burst")
        row |= {"operator": "attention_backward", "technique": technique, "source_sha256": sha, "arch": "sm_90a"}
        row |= {"mma": "wgmma", "tile": techniques.reference_tile(which, problem.tile_key).to_dict(), "group": "one"}
        rows.append(row | {"samples_ms": [problem.flops / speed / 1e9] * 20, "clock_ghz": [1.7]})
        hashes |= {(technique, backend): sha, (f"attention_backward/{technique}", backend): sha}
    entries = scorecard.scorecard(*tables(rows, hashes))["entries"]
    (entry,) = [one for one in entries if one["name"] == "backward_gap_explained"]
    assert (entry["status"], entry["goal"]) == ("complete", 0.85)
    left = (math.log(500 / 450) - math.log(600 / 560)) / 2
    assert entry["value"] == pytest.approx(1 - left / math.log(640 / 340), abs=1e-6)
