"""The heads have the structure that their names say, and what is drawn of them is the kernel's own P."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.operators.attention import reference, structured_heads
from harness.operators.attention.structured_heads import ANCHORS, BIN, BLOCK, HEADS, PERIOD, SEQ

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    return structured_heads.compute()


@pytest.fixture(scope="module")
def attention(row: dict[str, Any]) -> dict[str, torch.Tensor]:
    """P of each head, the largest of each bin."""
    return {head["name"]: (torch.tensor(head["attention"]) / 255) ** 2 for head in row["heads"]}


def test_arrays_of_an_earlier_kernel_are_not_shown(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structured_heads, "CACHE", tmp_path)
    monkeypatch.setattr(structured_heads, "compute", lambda: row)
    assert structured_heads.saved() is None
    structured_heads.update()
    found = structured_heads.saved()
    assert [head["name"] for head in found["heads"]] == list(HEADS)
    monkeypatch.setattr(structured_heads, "source_sha256", lambda case: "another")
    assert structured_heads.saved() is None


def test_p_sums_to_one_and_keeps_to_the_mask(row: dict[str, Any], attention: dict[str, torch.Tensor]) -> None:
    for head in row["heads"]:
        assert head["row_sums"] == pytest.approx([1.0, 1.0], abs=2e-3)
        assert attention[head["name"]].triu(1).max() == 0


def test_p_is_what_the_inputs_say(attention: dict[str, torch.Tensor]) -> None:
    q, k = (heads[None].float() for heads in structured_heads.structured())
    scores = (q @ k.transpose(2, 3)) * structured_heads.CASE.problem.scale
    scores.masked_fill_(torch.ones(SEQ, SEQ).triu(1).bool(), -torch.inf)
    largest = scores.softmax(-1)[0].unfold(1, BIN, BIN).unfold(2, BIN, BIN).amax((3, 4))
    for head, name in enumerate(HEADS):
        assert (attention[name] - largest[head]).abs().max() < 6e-3  # two levels of 255


def test_each_head_has_its_structure(attention: dict[str, torch.Tensor]) -> None:
    bins = torch.arange(SEQ // BIN)
    apart = (bins[:, None] - bins[None]) * BIN
    seen = apart >= 0
    late = bins[:, None] * BIN >= 2 * PERIOD
    assert attention["local"][seen & (apart > 8 * BIN)].max() < 0.2 * attention["local"].diagonal().min()
    on_stride, off_stride = apart % PERIOD == 0, apart % PERIOD == PERIOD // 2
    strided = attention["strided"]
    assert strided[seen & late & on_stride].mean() > 5 * strided[seen & late & off_stride].mean()
    anchor = attention["global anchor"]
    assert anchor[late[:, 0], : ANCHORS // BIN].mean() > 5 * anchor[late[:, 0]][:, ANCHORS // BIN + 1 :].mean()
    same = bins[:, None] * BIN // BLOCK == bins[None] * BIN // BLOCK
    assert attention["block"][seen & same].mean() > 5 * attention["block"][seen & ~same].mean()


def test_errors_are_roundings_and_a_wrong_kernel_shows(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for head in row["heads"]:
        assert 0 < head["median_abs"] < head["max_abs"] <= 2 * head["rounding"]
        assert max(head["error_max"]) == pytest.approx(head["max_abs"], rel=0.01)
    right = reference.truth
    monkeypatch.setattr(reference, "truth", lambda q, k, v, **o: right(q, k, v.flip(2), **o))
    wrong = structured_heads.compute()["heads"]
    assert all(head["max_abs"] > 0.1 for head in wrong)
