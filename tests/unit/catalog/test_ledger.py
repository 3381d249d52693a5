"""The gap's data: every term can be measured, and has a cause that something bears out."""

from dataclasses import replace

import pytest

from harness.catalog import experiments, techniques
from harness.catalog.cases import of_experiment
from harness.catalog.tiles import best_tile
from harness.operators.attention import gap as ledger
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.claims import CLAIMS
from harness.operators.attention.gap import TERMS, WAYS, Term

PROOFS = {proof.name: claim for claim in CLAIMS if claim.dialect != "cuda" for proof in claim.proofs}
ALL = [term for way in WAYS.values() for term in way]
NAMES = [term.name for term in ALL]


@pytest.mark.parametrize("term", ALL, ids=NAMES)
def test_a_term_is_measured(term: Term) -> None:
    assert term.leave_out or term.step
    known = {one.name for one in techniques.kernels()} | {*WAYS, ledger.SHARED, ledger.CONFINED, ledger.AWAITED}
    assert {end.partition(" at ")[0] for end in (term.leave_out, *(term.step or ())) if end} <= known
    assert term.part_of in {"", *NAMES}
    if term.leave_out:
        assert next(one for one in ABLATIONS if one.name == term.leave_out).lacks in (
            (term.name.removeprefix("gluon_"),),
            ("lazy_rescale", "integer_max"),
        )


@pytest.mark.parametrize("term", ALL, ids=NAMES)
def test_a_cause_is_borne_out(term: Term) -> None:
    """Only by an escape hatch where the matrix says hatch, written where it says direct. None of the terms is
    impossible, and none is a loss before it is measured."""
    assert term.cause in {*ledger.CAUSES} - {"loss"}
    (start,) = [start for start, way in WAYS.items() if term in way]
    dialect = start.partition("@")[0]
    assert {PROOFS[name].dialect for name in term.proofs} <= {dialect}
    if term.cause != "unexplained":
        assert term.proofs or term.orders or term.cause in ("effort", "both")
    if term.cause in ("compiler", "slower") and not term.part_of:
        assert term.ttgir or len(term.orders) > 1, "its lines of TTGIR, or of two main loops"
    grades = {PROOFS[name].grade for name in term.proofs}
    assert "inexpressible" not in grades
    beyond = grades & {"hatch"}
    assert bool(beyond) is (term.cause in ("language", ledger.UNDONE))
    assert term.cause != ledger.UNDONE or term.part_of == "one_block"
    assert term.cause != "both" or (term.own and term.limited)
    if term.cause != "unexplained":
        assert ("direct" in grades) is (term.cause == "slower")
    if term.cause in ("compiler", "effort") and term.proofs:
        assert grades - beyond
    if term.cause == "assembler":
        assert term.orders


def test_a_title_fits_beside_its_bar() -> None:
    assert max(len(term.title) for term in TERMS if not term.part_of) <= 45


def test_who_makes_roles_is_told_by_what_is_there_and_what_is_absent() -> None:
    """Inline PTX can branch by warp, and an edit of the IR makes roles: that core Triton has no word for either, the
    program without shows."""
    (term,) = [term for term in TERMS if term.name == "own_diagonal"]
    assert set(term.proofs) == {"role_branch", "role_branch without asm", "warpgroups_hook roles"}


def test_the_steps_are_one_way_from_triton_to_the_top_of_the_ladder() -> None:
    """Each starts where an earlier one ended, or where what both have is taken out; no kernel is reached twice."""
    reached = {ledger.TRITON}
    limited = [term.limited for term in TERMS if term.limited]
    assert limited == [(ledger.WITH_INTEGERS, ledger.ORDERED), (ledger.ORDERED, ledger.VOCABULARY)]
    assert all(term.own for term in TERMS if term.limited)
    replaced = {term.instead_of for term in TERMS} - {""}
    for term in TERMS:
        if term.step and term.is_added and term.name not in replaced:
            to, start = term.step
            assert start in reached
            assert to not in reached
            reached |= {to, ledger.VOCABULARY, ledger.AWAITED} if to == ledger.CONFINED else {to}


def test_what_ptxas_serializes_is_no_price() -> None:
    proofs = {term.serialized for term in TERMS if term.serialized}
    assert proofs == {one.name for one in ABLATIONS if one.serialized}
    assert not proofs & set(ledger.kernels())
    assert all(not term.leave_out for term in TERMS if term.serialized)


def test_the_experiment_times_all_that_the_terms_name_at_the_flagships_tile() -> None:
    experiment = experiments.load("what_triton_misses")
    cases = of_experiment(experiment, "h200")
    for problem in experiment.problems:
        here = [case for case in cases if case.problem == problem]
        (flagship,) = [
            case
            for case in here
            if (case.technique, case.backend) == ("flagship", "cuda")
            and case.tile not in (ledger.SQUARE, ledger.NARROW)
        ] or [case for case in here if (case.technique, case.backend) == ("flagship", "cuda")]
        timed = {case.technique for case in here if case.backend == "cuda" and case.tile == flagship.tile}
        assert timed >= {*ledger.kernels(), "flagship"}
        assert ("flagship", "triton") in {(case.technique, case.backend) for case in here}
        assert {("flagship", language) for language in WAYS} <= {(case.technique, case.backend) for case in here}
        core = [case.tile for case in here if (case.technique, case.backend) == (ledger.SECTIONS, "triton")]
        for name in (ledger.VOCABULARY, ledger.ORDERED, ledger.WITH_INTEGERS):
            assert [case.tile for case in here if case.technique == name] == core
        own = {ledger.at(case.technique, case.tile) for case in here if case.technique and case.tile}
        elsewhere = {end for term in TERMS for end in term.step or () if " at " in end}
        absent = {
            *([ledger.at(ledger.FLAGSHIP, ledger.NARROW)] if problem.head_dim == 64 else []),
            *([ledger.at("without_register_split", ledger.SQUARE)] if problem.head_dim == 128 else []),
            *([] if core[0].stages > 1 else [ledger.at(ledger.ANY_TILE, ledger.CAUSAL_TRITONS)]),
        }
        assert elsewhere - own == absent


def test_the_narrow_tile_has_the_width_and_the_stages_of_the_flagships() -> None:
    for problem in experiments.load("what_triton_misses").problems:
        best = best_tile("flagship", "cuda", problem, "h200")
        assert best
        if problem.head_dim == 128:
            assert (best.block_n, best.stages) == (ledger.NARROW.block_n, ledger.NARROW.stages)
            assert techniques.unsupported(techniques.get("attention/flagship"), "cuda", problem, ledger.NARROW) is None


def test_a_run_of_triton_alone_is_of_triton_alone() -> None:
    """With nvcc's assembler only Triton's machine code is another."""
    experiment = replace(experiments.load("what_triton_misses"), backends=("triton",))
    assert {case.backend for case in of_experiment(experiment, "h200")} == {"sdpa_cudnn", "triton"}


def test_a_kernel_in_no_language_but_cuda_is_asked_for_in_no_other() -> None:
    for case in of_experiment(experiments.load("what_triton_misses"), "h200"):
        if case.technique in {one.name for one in ABLATIONS}:
            assert case.backend == "cuda"
