"""The registry answers for cells and rungs that it does not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import techniques
from harness.problem import Problem


def test_a_rung_whose_parent_is_not_there_yet_stands_on_the_nearest_ancestor(monkeypatch: pytest.MonkeyPatch) -> None:
    rung = techniques.Technique("rung", "ampere", "", builds_on=("not_there_yet", "large_tile", "scalar"))
    assert techniques.parent(rung) == techniques.get("large_tile")
    assert techniques.reference_tile(rung, 64) == techniques.reference_tile(techniques.get("large_tile"), 64)
    assert techniques.parent(replace(rung, builds_on=("not_there_yet",))) is None


@pytest.mark.parametrize("backend", techniques.TWINS)
@pytest.mark.parametrize("technique", techniques.TECHNIQUES, ids=lambda technique: technique.name)
def test_a_head_dim_that_a_rung_has_no_tile_for_is_declined(technique: techniques.Technique, backend: str) -> None:
    for head_dim in (72, 256, 512):
        problem = Problem.square(1, 1, 1024, head_dim)
        reason = techniques.unsupported(technique, backend, problem, techniques.reference_tile(technique, head_dim))
        if head_dim == 256 and technique.general:
            assert reason is None
        else:
            assert reason is not None
            assert reason.startswith("head_dim must be 64")
            assert techniques.grid(technique, backend, problem) == ()
