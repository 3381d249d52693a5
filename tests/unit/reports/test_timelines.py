"""Drawings of techniques: for rungs that there are, with lanes of one length; a legend says what each colour is."""

from __future__ import annotations

import pytest

from harness.catalog import techniques
from reports.facts import fragments
from reports.facts.timelines import HEADINGS, TIMELINES, Timeline, heading

ALL = [(name, one) for name, pair in TIMELINES.items() for one in pair]


@pytest.mark.parametrize(("name", "timeline"), ALL, ids=lambda one: one if isinstance(one, str) else one.title)
def test_the_lanes_of_a_timeline_are_of_one_length(name: str, timeline: Timeline) -> None:
    assert techniques.get(name)
    spans = timeline.spans()
    assert len(spans) > 1
    assert len({sum(span.width for span in lane) for lane in spans.values()}) == 1, timeline.lanes
    assert all(span.width > 0 for lane in spans.values() for span in lane)
    assert {span.kind for lane in spans.values() for span in lane} & {"product", "other", "copy"}


def test_a_technique_has_a_drawing_before_it_and_one_with_it() -> None:
    assert {len(pair) for pair in TIMELINES.values()} == {2}


def test_a_lane_that_waits_has_no_label() -> None:
    (spans,) = Timeline("", "", {"warp": "Q K 1*2 | .*3 | load*1 | softmax*4"}).spans().values()
    assert [(span.label, span.width, span.kind) for span in spans] == [
        ("Q K 1", 2, "product"),
        ("", 3, "wait"),
        ("load", 1, "copy"),
        ("softmax", 4, "other"),
    ]


@pytest.mark.parametrize("name", TIMELINES)
def test_the_legend_names_what_is_drawn_and_nothing_else(name: str) -> None:
    drawn = {span.kind for one in TIMELINES[name] for lane in one.spans().values() for span in lane}
    assert {kind for kind, _ in heading(name).legend} == drawn


def test_headings_are_of_drawings_that_there_are() -> None:
    assert set(HEADINGS) <= set(TIMELINES)
    assert heading("pingpong").title == "Who works when"
    assert heading("wide_tile").legend == (("other", "of a thread in this warpgroup"), ("wait", "left for the third"))


def test_products_leave_scores_where_the_next_ones_take_them_and_a_half_warp_does_not() -> None:
    """As cuda_kernels/attention/ampere counts them: `group` is lane / 4, `quad` is lane % 4."""
    left, wanted, taken = (one.lanes for one in fragments.HOLDINGS)
    for lane in range(32):
        group, quad = lane // 4, lane % 4
        held = [(row, key) for row in range(8) for key in range(16) if left[row][key] == lane]
        assert held == [(group, n * 8 + quad * 2 + i) for n in range(2) for i in range(2)]
    assert taken == left
    moved = [a != b for here, there in zip(left, wanted, strict=True) for a, b in zip(here, there, strict=True)]
    assert sum(moved) / len(moved) > 0.9
