"""Drawings in notes: two each, with lanes of one length; a legend names what is drawn."""

import pytest

from harness.catalog import techniques
from reports.facts import timelines
from reports.pages.attention import fragments

DRAWN = [technique.name for technique in techniques.TECHNIQUES if timelines.drawings(technique.name)]


def test_notes_have_drawings() -> None:
    assert len(DRAWN) == 50


@pytest.mark.parametrize("name", DRAWN)
def test_a_note_draws_before_and_with_the_technique_and_its_lanes_are_equally_long(name: str) -> None:
    drawn = timelines.drawings(name)
    assert len(drawn.timelines) == 2
    for one in drawn.timelines:
        assert len(one.lanes) > 1
        assert len({sum(span.width for span in lane) for lane in one.lanes.values()}) == 1, one.lanes
        assert all(span.width > 0 for lane in one.lanes.values() for span in lane)
    assert {*drawn.legend} & {"product", "other", "copy"}


def test_a_lane_that_waits_has_no_label() -> None:
    assert [(span.label, span.width, span.kind) for span in timelines.spans("Q K 1*2 | .*3 | load*1 | softmax*4")] == [
        ("Q K 1", 2, "product"),
        ("", 3, "wait"),
        ("load", 1, "copy"),
        ("softmax", 4, "other"),
    ]


def test_a_note_names_its_own_heading_and_legend_or_takes_the_drawings_of_another() -> None:
    own, usual = timelines.drawings("wide_tile"), timelines.drawings("pingpong")
    assert own.legend == {"other": "of a thread in this warpgroup", "wait": "left for the third"}
    assert usual.heading == "Who works when"
    same, other = timelines.drawings("softmax_lock"), timelines.drawings("exp_lock")
    assert same.timelines == other.timelines
    assert timelines.drawings("no_technique") is None


def test_products_leave_scores_where_the_next_ones_take_them_and_a_half_warp_does_not() -> None:
    """As cuda_kernels/attention/ampere counts them: `group` is lane / 4, `quad` is lane % 4."""
    left, wanted, taken = (one.rows for one in fragments.HOLDINGS)
    for lane in range(32):
        group, quad = lane // 4, lane % 4
        held = [(row, key) for row in range(8) for key in range(16) if left[row][key] == lane]
        assert held == [(group, n * 8 + quad * 2 + i) for n in range(2) for i in range(2)]
    assert taken == left
    moved = [a != b for here, there in zip(left, wanted, strict=True) for a, b in zip(here, there, strict=True)]
    assert sum(moved) / len(moved) > 0.9
