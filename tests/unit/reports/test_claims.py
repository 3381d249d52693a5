"""What hand-written pages claim holds for the recorded rows: a claim that broke is named."""

import math
import re
from collections.abc import Sequence

import pytest

from harness import operators
from reports.data.dataset import Dataset
from reports.pages import prose
from tests.support import synthetic_rows as synthetic
from tests.support.pages import Recorded, dataset

pytestmark = pytest.mark.xdist_group("recorded")


@pytest.mark.slow
def test_every_claim_holds_for_the_recorded_rows(
    recorded_site: Recorded, recorded_data: dict[str, Sequence[Dataset]]
) -> None:
    claims = prose.Claims()
    for operator in operators.every():
        for technique in operator.techniques:
            prose.render(technique.name, recorded_data[operator.name][0], claims)
    assert recorded_site.broken + claims.broken == []


def test_a_claim_lists_numbers_that_ascend() -> None:
    claims = prose.Claims()
    assert claims("fine", 0.5, prose.Number(0.7, "0.70×"), 1) == ""
    assert claims("turned", 1.2, 1) == prose.BROKEN
    assert claims("unknown", None, 1) == prose.UNKNOWN
    assert claims("not measured", prose.Number(None, prose.NOT_MEASURED), 1) == prose.UNKNOWN
    assert claims("of an earlier version", prose.Number(None, prose.EARLIER), 1) == prose.UNKNOWN
    assert claims.broken == ["turned: 1.2 < 1"]
    assert claims.unknown == ["unknown", "not measured", "of an earlier version"]


def test_a_number_prints_as_its_text() -> None:
    number = prose.Number(0.8, "0.80×")
    assert f"{number}" == str(number) == "0.80×"
    assert number < 1
    assert math.isnan(prose.Number(None, prose.NOT_MEASURED))


def test_a_number_of_an_earlier_version_or_another_gpu_has_a_mark_and_is_in_no_claim() -> None:
    data, other = dataset(synthetic.rows()), dataset([*synthetic.rows()], "NVIDIA H100")
    problem = synthetic.PROBLEMS[2].slug
    before = prose.Elsewhere(data, [data, other])
    number = before.references["tflops"]("xor_swizzle", "cuda", problem)
    assert before.explained(str(number)) == "150 TFLOPS†\n\n† Of an earlier version of the kernel."
    assert before.explained("no number") == "no number"
    assert prose.Claims()("it is faster", 1, number) == prose.UNKNOWN
    empty = dataset([row for row in synthetic.rows() if row["kind"] == "environment"], "NVIDIA B200")
    there = prose.Elsewhere(empty, [empty, other])
    assert there.explained(str(there.references["tflops"]("xor_swizzle", "triton", problem))).endswith(
        " TFLOPS†\n\n† On an H100."
    )


@pytest.mark.slow
def test_no_note_denies_rows_that_are_there(recorded_data: dict[str, Sequence[Dataset]]) -> None:
    for name, datasets in recorded_data.items():
        for note in (prose.ROOT / name).glob("*.md"):
            if re.search(r"\bhas no rows?\b", note.read_text().partition("### Outcome")[2].split(". ")[0]):
                timed = [data.gpu for data in datasets for row in data.of("timing", note.stem) if row.usable]
                assert not timed, note
