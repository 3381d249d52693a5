"""A verdict needs both programs; a grade needs proofs that agree with it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.catalog import sources
from harness.expressibility import matrix, survey, verdicts
from harness.expressibility.claims import HATCHES, VERSIONS, Claim, Detector, Probe, Proof
from harness.expressibility.verdicts import Verdict

CLAIMS, OF_RIVALS = matrix.claims(), matrix.claims_of_rivals()
PROOF = Proof("p", "it is there", Probe("words"), Probe("words", "other"), Detector("sass", r"\bHGMMA\b"))
THERE, ABSENT = {"sass": "HGMMA.64x64x16 R4 ;"}, {"sass": "HMMA.16816 R4 ;"}


@pytest.mark.parametrize(
    ("seen", "subject", "control", "state"),
    [
        (True, THERE, ABSENT, verdicts.PROVEN),
        (True, ABSENT, ABSENT, verdicts.REFUTED),
        (True, ABSENT, THERE, verdicts.BROKEN),
        (True, THERE, THERE, verdicts.BROKEN),
        (False, ABSENT, THERE, verdicts.PROVEN),
        (False, THERE, THERE, verdicts.REFUTED),
        (False, ABSENT, ABSENT, verdicts.BROKEN),
        (False, {"words": "error: no"}, THERE, verdicts.REFUTED),
        (False, ABSENT, {"words": "error: no"}, verdicts.BROKEN),
    ],
)
def test_a_proof_holds_when_the_thing_is_in_one_program_alone(
    seen: bool, subject: dict[str, str], control: dict[str, str], state: str
) -> None:
    assert verdicts.judge(replace(PROOF, seen=seen), subject, control).state == state


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": Probe("words", "other")},
        {"subject": Probe("words", version="3.9.0")},
        {"control": Probe("options")},
        {"detector": Detector("sass", r"\bHMMA\b")},
        {"detector": replace(PROOF.detector, least=2)},
        {"seen": False},
    ],
    ids=str,
)
def test_what_decides_a_verdict_changes_the_hash(changed: dict[str, Any]) -> None:
    assert verdicts.source_sha256(replace(PROOF, **changed)) != verdicts.source_sha256(PROOF)


def test_a_reworded_proof_keeps_its_row() -> None:
    reworded = replace(PROOF, shows="the machine code has it", obtained=True)
    assert verdicts.source_sha256(reworded) == verdicts.source_sha256(PROOF)
    row = survey.row((CLAIMS[0], reworded, "3.6.0"), Verdict(verdicts.PROVEN))
    assert row["source_sha256"] == verdicts.source_sha256(PROOF)


def problems(claims: Iterable[Claim]) -> list[str]:
    """What is wrong with claims as they stand, before anything is compiled; empty when nothing is.

    A cell has one claim for a version, and a name belongs to one proof. A grade agrees with its proofs: what is
    inexpressible is obtained by none of three attempts or more (the obvious source, the best workaround, a hatch); any
    other grade without a fault has a proof that obtains it, whose source says the claim's word: one of HATCHES for a
    hatch, none of them for direct and hint, no word at all for automatic.
    """
    found: list[str] = []
    seen: set[tuple[str, str, str]] = set()
    names: dict[str, Proof] = {}
    for claim in claims:
        who = f"{claim.technique} in {claim.dialect}"
        for version in claim.holds_for:
            if (*claim.cell, version) in seen:
                found.append(f"{who}: two claims for {version or 'it'}")
            seen.add((*claim.cell, version))
        for proof in claim.proofs:
            if names.setdefault(proof.name, proof) != proof:
                found.append(f"{proof.name}: the name of two proofs")
        found += [f"{who}, graded {claim.grade}: {fault}" for fault in disagreements(claim)]
    return found


def disagreements(claim: Claim) -> Iterator[str]:
    obtaining = [proof for proof in claim.proofs if proof.obtains]
    if claim.grade == "inexpressible":
        if obtaining:
            yield f"{obtaining[0].name} obtains it"
        if len(claim.proofs) < 3:
            yield f"{len(claim.proofs)} attempts, expected 3 or more"
        return
    if not claim.proofs or (not obtaining and not claim.fault):
        yield "no proof obtains it"
    if claim.grade == "automatic" and claim.word:
        yield f"the source says {claim.word}"
    if claim.grade in ("direct", "hint", "hatch") and claim.dialect != "cuda":
        if not claim.word:
            yield "no word of the source is named"
        if bool(re.search(HATCHES, claim.word)) is not (claim.grade == "hatch"):
            yield f"its word is {claim.word!r}"
    for proof in obtaining:
        if not re.search(claim.word, sources.code(verdicts.path_of(proof.subject))):
            yield f"{proof.name}: its source does not say {claim.word!r}"


def test_every_claim_agrees_with_its_proofs() -> None:
    assert problems([*CLAIMS, *OF_RIVALS]) == []


def claim(technique: str, dialect: str, version: str) -> Claim:
    return next(
        each for each in (*CLAIMS, *OF_RIVALS) if each.cell == (technique, dialect) and version in each.holds_for
    )


@pytest.mark.parametrize(
    ("technique", "dialect", "grade"),
    [
        ("xor_swizzle", "triton", "inexpressible"),
        ("xor_swizzle", "triton", "automatic"),
        ("xor_swizzle", "gluon", "automatic"),
        ("padded_rows", "triton", "direct"),
        ("unswizzled_rows", "triton", "hatch"),
        ("named_barriers", "triton", "hint"),
        ("tma_swizzle", "triton", "hatch"),
        ("cluster_multicast", "triton", "direct"),
        ("three_warpgroups", "triton", "inexpressible"),
        ("three_warpgroups", "gluon", "inexpressible"),
        ("wide_tile", "gluon", "inexpressible"),
        ("overlapped_softmax", "triton", "inexpressible"),
        ("barriers", "cutile", "direct"),
        ("clusters", "cutile", "automatic"),
        ("tiles", "cute", "inexpressible"),
    ],
)
def test_a_wrong_grade_is_named(technique: str, dialect: str, grade: str) -> None:
    planted = replace(claim(technique, dialect, VERSIONS[dialect][0]), grade=grade)
    assert any(f"{technique} in {dialect}" in each for each in problems([planted]))


def test_two_claims_for_one_cell_are_named() -> None:
    first = claim("tma_store", "triton", "3.6.0")
    assert "two claims" in problems([first, replace(first, proofs=())])[0]
