"""Timelines of techniques: drawn for rungs that there are, with lanes of one length."""

from __future__ import annotations

import pytest

from harness.catalog import techniques
from reports.facts.timelines import TIMELINES, Timeline

ALL = [(name, one) for name, pair in TIMELINES.items() for one in pair]


@pytest.mark.parametrize(("name", "timeline"), ALL, ids=lambda one: one if isinstance(one, str) else one.title)
def test_the_lanes_of_a_timeline_are_of_one_length(name: str, timeline: Timeline) -> None:
    assert techniques.get(name)
    spans = timeline.spans()
    assert len(spans) > 1
    assert len({sum(span.width for span in lane) for lane in spans.values()}) == 1, timeline.lanes
    assert all(span.width > 0 for lane in spans.values() for span in lane)
    assert {span.kind for lane in spans.values() for span in lane} & {"product", "other", "copy"}


def test_a_lane_that_waits_has_no_label() -> None:
    (spans,) = Timeline("", "", {"warp": "Q K 1*2 | .*3 | load*1 | softmax*4"}).spans().values()
    assert [(span.label, span.width, span.kind) for span in spans] == [
        ("Q K 1", 2, "product"),
        ("", 3, "wait"),
        ("load", 1, "copy"),
        ("softmax", 4, "other"),
    ]
