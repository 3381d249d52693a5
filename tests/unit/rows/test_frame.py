"""The table of a kind has typed columns, the machine of each row, and says which rows count."""

from __future__ import annotations

import pytest

from harness.rows import frame as frames
from harness.rows.frame import frame

pytestmark = pytest.mark.slow


def test_every_recorded_row_is_in_one_table_of_its_kind() -> None:
    counted = sum(len(frame(kind)) for kind in ("timing", "gate", "counters", "proof"))
    kinds = [row["kind"] for row in frames.rows()]
    assert counted == sum(kind not in ("environment", "code", "fleet", "outputs", "heads", "fp8") for kind in kinds)


def test_a_timing_has_its_speed_and_its_machine() -> None:
    timing = frame("timing")
    usable = timing[timing.usable & (timing.purpose == "timing")]
    assert len(usable) > 10_000
    assert usable.speed.between(0.01, 2000).all()
    assert usable.gpu.str.startswith("NVIDIA").all()
    assert usable.environment.isin(frame("environment").index).all()
    assert (usable.technique.isna() == (usable.tile == "")).all()


def test_two_timings_compare_where_one_process_interleaved_them() -> None:
    timing = frame("timing")
    hopper = timing[timing.usable & (timing.experiment == "hopper_grid") & (timing.purpose == "timing")]
    pairs = frames.in_groups(hopper[hopper.technique == "flagship"], hopper[hopper.backend == "sdpa_cudnn"])
    assert len(pairs) > 50
    assert pairs.ratio.between(0.2, 5).all()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind: got 'cupti', expected one of timing"):
        frame("cupti")
