"""harness/rows/noise.py: limits come from replicates, verdicts from limits; on recorded rows they hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.rows import noise, results
from tests.conftest import CHECKOUT
from tests.support import replicated_rows as replicated


def pairs(**options: float) -> noise.Replicates:
    return noise.replicates(noise.Timings(replicated.rows(**options)))  # type: ignore[arg-type]


def test_replicates_are_pairs_of_one_program_in_two_groups() -> None:
    found = pairs(problems=1)
    programs, processes = 9, replicated.BOARDS * replicated.PROCESSES
    assert len(found) == programs * math.comb(processes, 2)
    assert found.one_board.sum() == programs * replicated.BOARDS
    assert not np.isnan(found.anchors).any()


def test_a_row_is_asked_for_its_program_once() -> None:
    """Intervals and replicates ask for it a hundred thousand times."""
    timings = noise.Timings(replicated.rows(problems=1))
    for row in timings.rows:
        assert timings.program(row) is timings.program(row)
        assert timings.program(dict(row)) == timings.program(row)


def test_another_source_compiler_or_library_is_another_program() -> None:
    rows = replicated.rows(problems=1)
    timings = noise.Timings(rows)
    kernel = next(row for row in rows if row.get("technique"))
    peer = next(row for row in rows if row.get("backend") == "sdpa_cudnn")
    assert timings.program(kernel) != timings.program({**kernel, "source_sha256": "another"})
    assert timings.program(kernel) != timings.program({**kernel, "compiler": {"ptxas": "13.1"}})
    newer = [{**row, "details": {**row["details"], "software": {"cudnn": 92000}}} for row in rows if "details" in row]
    assert timings.program(peer) != noise.Timings(newer).program(peer)


def test_limits_grow_with_the_noise_and_two_boards_have_more() -> None:
    quiet, loud = (
        [noise.noise(found, one).both for one in (True, False)] for found in (pairs(within=0.001), pairs(within=0.004))
    )
    for one_board, two_boards in (quiet, loud):
        assert one_board < two_boards  # type: ignore[operator]
    assert loud[0] == pytest.approx(4 * quiet[0], rel=0.5)  # type: ignore[operator]


def test_kernels_too_short_for_two_hosts_are_no_replicates_between_boards() -> None:
    """What events read beside a kernel is the host's: 2.2 us on one, 3.9 on another."""
    rows = replicated.rows(problems=1)
    gaps = {"board0": (0.0022, 0.0024), "board1": (0.0039,)}
    by_cupti = [
        {"kind": "cupti", "environment": f"{board}-{process}", "details": {"gap_ms": gap}}
        for board, found in gaps.items()
        for process, gap in enumerate(found)
    ]
    timings = noise.Timings([*rows, *by_cupti])
    assert timings.gaps == pytest.approx([0.0023, 0.0039])
    assert timings.shortest_ms(one_board=False) == pytest.approx(0.0016 / 0.025)
    assert timings.shortest_ms(one_board=True) == noise.Timings(rows).shortest_ms(one_board=False) == 0

    def slowed(factor: float) -> noise.Replicates:
        found = [
            row | {"samples_ms": [sample * factor for sample in row["samples_ms"]]} if "samples_ms" in row else row
            for row in rows
        ]
        return noise.replicates(noise.Timings([*found, *by_cupti]))

    long, short = slowed(10.0), slowed(0.1)
    assert len(long) == len(noise.replicates(noise.Timings(rows)))
    assert short.one_board.all()
    assert short.one_board.sum() == long.one_board.sum()


def test_few_replicates_are_no_noise() -> None:
    found = pairs()
    few = noise.noise(found.where(found.one_board.cumsum() < noise.FEWEST), True)
    assert few.time is None
    with pytest.raises(ValueError, match=f"expected {noise.EXPECTED}"):
        noise.judge(0.1, 0.0, False, few)


def test_pairs_of_one_problem_are_no_noise() -> None:
    """Whether their limits hold on another problem, nobody has seen."""
    found = pairs(problems=1)
    assert (~found.one_board).sum() > 2 * noise.FEWEST
    assert noise.noise(found, False).level is None


def test_the_level_is_what_the_replicates_say() -> None:
    """Gaussian noise that hides no planted slowdown: the level that calls the fewest false. So loud that half of the
    slowdowns are missed: the lowest."""
    quiet, loud = (noise.noise(pairs(within=within), True).level for within in (0.002, 0.02))
    assert quiet is not None
    assert loud is not None
    assert quiet > loud == noise.LEVELS[0]


@pytest.mark.parametrize("left_out", ["problem", "boards"])
def test_what_is_held_out_has_no_part_in_the_level(left_out: str) -> None:
    """Replicates of what is held out become wild: level and limits of the others stay what they were."""
    found = pairs(problems=8)
    kind = noise.Sorted(found, False)
    sides = kind.pairs.problem[:, None] if left_out == "problem" else kind.pairs.boards
    asked: list[noise.Array] = []

    def limits(others: noise.Array) -> list[noise.Noise]:
        asked.append(others)
        return kind.noises(others)

    judged = kind.held_out(np.ones(len(kind.pairs), bool), sides, limits)
    assert judged is not None
    assert sorted(judged.places) == list(range(len(kind.pairs)))
    unseen = [~np.isin(sides, sides[others]).any(axis=1) for others in asked]
    assert np.any(unseen, axis=0).all()
    for others in asked:
        wild = replace(kind.pairs, time=np.where(others, kind.pairs.time, 10.0))
        assert noise.Sorted(wild, False).noise(others) == kind.noise(others)


LIMIT = noise.Noise(True, 1000, 100, 0.99, time=0.02, ratio=0.03, both=0.015, anchors=0.025, anchor=0.02)


@pytest.mark.parametrize(
    ("time", "anchors", "told", "why"),
    [
        (0.05, 0.0, 1, "time and ratio"),
        (-0.05, 0.0, -1, "time and ratio"),
        (0.014, 0.0, 0, "within the noise"),
        (0.018, 0.018, 0, "the anchors moved as well"),
        (0.021, 0.021, noise.AMBIGUOUS, "the time alone moved"),
        (0.10, 0.10, 0, "a clock locked lower: the machine moved, the ratio decides"),
        (0.15, 0.10, 1, "slower on a slower machine"),
        (0.0, -0.10, 1, "as fast on a faster machine"),
        (0.021, math.nan, 1, "no anchor: the time alone"),
    ],
)
def test_what_is_judged(time: float, anchors: float, told: int, why: str) -> None:
    assert noise.judge(time, anchors, False, LIMIT) == told, why


def test_what_is_judged_has_no_part_in_its_limits() -> None:
    """One problem whose replicates are wild: its pairs are called slower or faster, for the others' limits are narrow.
    Estimated with them, the limits would let most pass."""
    rows = replicated.rows(problems=8)
    wild = [row for row in rows if row["kind"] == "timing" and row["problem"]["seq_q"] == 512 and row.get("technique")]
    for number, row in enumerate(wild):
        row["samples_ms"] = [sample * (1 + 0.1 * (number % 2)) for sample in row["samples_ms"]]
    found = noise.replicates(noise.Timings(rows))
    trial = {(item.left_out, item.one_board, item.what): item for item in noise.trial(found)}
    one_board = trial["problem", True, "twins"]
    assert one_board.false > 1 / 8 * 0.9
    together = noise.judge(found.time, found.anchors, found.is_anchor, noise.noise(found, True))
    assert np.isin(together[found.one_board], (1, -1)).mean() < 0.05


def test_few_replicates_are_not_judged() -> None:
    """A site of a new GPU has some replicates, and too few for limits."""
    found = noise.replicates(noise.Timings(replicated.rows()))
    few = found.where(np.arange(len(found)) < noise.FEWEST // 2)
    assert len(few) > 0
    assert noise.trial(few) == []


def test_recorded_rows_keep_what_the_verdicts_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """At most 1% false verdicts on one board and 2% on two; slowdowns of 3% and 5% found in 95%."""
    files = results.iter_recorded(CHECKOUT / "reports" / "recorded")
    timings = noise.Timings(row for _, path in files for row in results.read(path))
    trials = noise.trial(noise.replicates(timings))
    with capsys.disabled():
        print(f"\n{'left out':9} {'boards':6} {'what':14} {'pairs':>6}   false    open planted   found")
        for item in trials:
            numbers = f"{item.false:7.2%} {item.ambiguous:7.2%} {item.planted:7.0%} {item.found:7.2%}"
            print(f"{item.left_out:9} {'one' if item.one_board else 'two':6} {item.what:14} {item.pairs:6} {numbers}")
    assert {(item.left_out, item.one_board, item.what) for item in trials} >= {
        (left_out, one_board, what)
        for left_out in ("problem", "boards")  # whole boards left out: a verdict about a board never seen
        for one_board in (True, False)
        for what in ("all", "twins")
    }
    for item in trials:
        promised = 0.01 if item.one_board else 0.02
        if item.what == "all":
            assert item.false <= promised, item
        # Of a kind with a few hundred pairs a handful decides: chance alone may not explain more than was promised.
        assert chance(round(item.false * item.pairs), item.pairs, promised) > 0.001, item
        assert item.found >= 0.95, item


def chance(times: int, of: int, probability: float) -> float:
    """That something this probable happens so many times or more."""
    logs = (
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(probability)
        + (of - k) * math.log1p(-probability)
        for k in range(times, of + 1)
    )
    return sum(map(math.exp, logs))


def test_chance_explains_a_handful_and_no_more() -> None:
    assert chance(0, 100, 0.01) == pytest.approx(1)
    assert chance(1, 100, 0.01) == pytest.approx(1 - 0.99**100)
    assert chance(10, 100, 0.01) < 1e-6
