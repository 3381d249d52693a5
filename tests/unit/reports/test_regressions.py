"""The page of regressions says how often compare is wrong, with rows and without."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from harness.rows import noise
from reports.data.dataset import Dataset
from reports.pages import overview
from tests.support.pages import rendered

NOTHING = Dataset("NVIDIA H200", True, [], {}, {})


def said_by(template: str, variables: dict[str, Any]) -> str:
    return " ".join(rendered(template, variables).split())


def test_the_false_verdicts_stand_beside_the_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [noise.Trial("boards", False, "twins", 1328, 0.0218, 0.012, 0.05, 0.989)]
    monkeypatch.setattr(noise, "trial", lambda _: found)
    monkeypatch.setattr(noise, "replicates", lambda _: [1])
    monkeypatch.setattr(noise, "noise", lambda _, one_board: SimpleNamespace(ratio=0.031))
    said = said_by("regressions.html", overview.regressions(NOTHING))
    line = re.sub("<[^>]+>", " ", said[said.index("the boards") :]).split()
    assert line[2:9] == ["two", "twins", "1328", "2.18%", "1.20%", "5%", "98.9%"]
    assert '<td class="n bad">2.18%</td>' in said
    assert '<td class="n">98.9%</td>' in said
    assert "moves by up to 3.1% from board to board although nothing has changed" in said
    monkeypatch.undo()  # no pair of replicates, so that there are no limits
    nothing = said_by("regressions.html", overview.regressions(NOTHING))
    assert "How often is a verdict" not in nothing
    assert "no verdict" in nothing
