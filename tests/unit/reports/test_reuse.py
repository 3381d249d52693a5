"""Figures of equal data are drawn once, and again wherever what they show is another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reports.draw import reuse

Draw = Callable[..., str]


@dataclass(frozen=True)
class Mark:
    tflops: float


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(reuse, "FOLDER", tmp_path / "drawn")
    return []


@pytest.fixture
def draw(drawn: list[float]) -> Draw:
    @reuse.once
    def figure(marks: list[Mark], width: int = 1) -> str:
        drawn.append(marks[0].tflops)
        return f"<svg>{marks[0].tflops} {width}</svg>"

    return figure


def test_equal_data_is_drawn_once(draw: Draw, drawn: list[float]) -> None:
    assert [draw([Mark(1.5)]), draw([Mark(1.5)])] == ["<svg>1.5 1</svg>"] * 2
    assert drawn == [1.5]


def test_other_data_another_option_and_another_figure_are_drawn(draw: Draw, drawn: list[float]) -> None:
    @reuse.once
    def other(marks: list[Mark]) -> str:
        return "<svg>another</svg>"

    assert draw([Mark(1.5)]) != draw([Mark(1.5000001)]) != draw([Mark(1.5)], width=2)
    assert len(drawn) == 3
    assert other([Mark(1.5)]) == "<svg>another</svg>"


def test_other_code_draws_anew(draw: Draw, drawn: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    draw([Mark(1.5)])
    for room in reuse.ROOMS:
        (tmp_path / room).mkdir(parents=True)
    (tmp_path / "reports" / "draw.py").write_text("WIDTH = 7\n")
    monkeypatch.setattr(reuse.sources, "ROOT", tmp_path)
    reuse._drawn_by.cache_clear()
    try:
        draw([Mark(1.5)])
    finally:
        reuse._drawn_by.cache_clear()
    assert drawn == [1.5, 1.5]


def test_what_is_known_by_its_address_alone_is_refused(draw: Draw) -> None:
    with pytest.raises(TypeError, match=r"figure: got <function .*expected data"):
        draw([lambda: 1])
