"""Detectors find a thing where it stands and nowhere else: two texts written by hand, one with it and one without."""

from __future__ import annotations

import pytest

from harness.expressibility import detectors
from harness.expressibility.claims import Detector

WITH, WITHOUT = True, False
TTGIR_LOOP = """
    %s = tt.dot %q, %k
    scf.for %i = %a to %b {
      {first}
      {second}
      scf.yield %x
    } {tt.num_stages = 2}
    %o = tt.dot %p, %v
"""
COPY, DOT = "%c = ttg.async_copy_global_to_local %ptr", "%d = tt.dot %p, %v"
COPY_BEFORE_DOT = Detector(
    "ttgir",
    "async_copy_global_to_local.*dot",
    within=(r"scf\.for", r"^    [}]"),
    order=r"async_copy_global_to_local|dot",
)


def loop(first: str, second: str) -> str:
    return TTGIR_LOOP.replace("{first}", first).replace("{second}", second)


def rotated(*words: str) -> str:
    """Machine code of a loop whose branch goes back to its second instruction."""
    said = ["MOV R1, c[0x0][0x28]", *words, "BRA 0x0010"]
    lines = [f"        /*{16 * n:04x}*/                   {word} ;   /* 0x0 */" for n, word in enumerate(said)]
    return "\n".join(["                Function : k", *lines])


EX2_BEHIND_WAIT = Detector(
    "sass", r"HGMMA WAIT(?: MUFU\.EX2)+ BRA", in_loop=True, order=r"HGMMA|WAIT|MUFU\.EX2|\bBRA\b"
)
BARRIER_9 = Detector("sass", r"BAR\.(?:SYNC|ARV)\S* 0x[4-9a-f], 0x\w+")
UNSWIZZLED = Detector("ttgir", r"maxPhase = 1\b")


@pytest.mark.parametrize(
    ("detector", "text", "expected"),
    [
        (BARRIER_9, "BAR.SYNC.DEFER_BLOCKING 0x9, 0x100 ;", WITH),
        (BARRIER_9, "BAR.SYNC.DEFER_BLOCKING 0x0 ;", WITHOUT),
        (UNSWIZZLED, "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 1, order = [1, 0]}>", WITH),
        (UNSWIZZLED, "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>", WITHOUT),
        (COPY_BEFORE_DOT, loop(COPY, DOT), WITH),
        (COPY_BEFORE_DOT, loop(DOT, COPY), WITHOUT),
        (EX2_BEHIND_WAIT, rotated("HGMMA R4", "WAIT gsb0", "MUFU.EX2 R1"), WITH),
        # The same iteration, rotated: what stands at the head of the loop comes behind its last instruction.
        (EX2_BEHIND_WAIT, rotated("WAIT gsb0", "HGMMA R4", "MUFU.EX2 R1"), WITHOUT),
        (Detector("facts", r"warps (?:12|16)"), "shared 8192\nwarps 12", WITH),
        (Detector("facts", r"warps (?:12|16)"), "shared 8192\nwarps 4", WITHOUT),
    ],
)
def test_a_detector_finds_the_thing_and_only_the_thing(detector: Detector, text: str, expected: bool) -> None:
    assert (detectors.find(detector, {detector.text: text}).times > 0) is expected


def test_an_iteration_that_begins_behind_the_branch_is_read_on_from_the_head() -> None:
    found = detectors.find(
        Detector("sass", r"HGMMA MUFU\.EX2 WAIT", in_loop=True, order=r"HGMMA|WAIT|MUFU\.EX2"),
        {"sass": rotated("WAIT gsb0", "HGMMA R4", "MUFU.EX2 R1")},
    )
    assert found.times == 1


def test_of_several_regions_the_fullest_counts() -> None:
    text = "begin\nx\nend\nx\nx\nbegin\nx\nx\nend\nbegin\nx\nx\nx"
    assert detectors.find(Detector("ptx", "x", within=("begin", "end")), {"ptx": text}).times == 2


def test_a_program_that_did_not_compile_lacks_nothing() -> None:
    with pytest.raises(ValueError, match=r"did not compile.*range must be"):
        detectors.find(BARRIER_9, {"words": "error: range must be a power of 2"})


def test_a_compiler_that_said_nothing_said_nothing() -> None:
    assert detectors.find(Detector("words", "error"), {}).times == 0


def test_an_error_is_the_first_line_that_says_so() -> None:
    words = "module {\n  %0 = tt.load\n}\nx.py:3:0: error: Failures have been detected\nnote: Pipeline failed"
    assert detectors.first_error(words) == "x.py:3:0: error: Failures have been detected"


def test_matches_are_shown_once_with_their_number() -> None:
    assert detectors.counted(["HMMA", "LDSM", "HMMA"]) == ["HMMA  x2", "LDSM"]


def test_an_order_is_shown_in_runs() -> None:
    found = detectors.find(Detector("sass", "LDSM", order="HMMA|LDSM"), {"sass": "LDSM\nHMMA\nHMMA\nLDSM"})
    assert found.lines == ["LDSM HMMA x2 LDSM"]
