"""A bar for people, lines for logs, and two meanings of Ctrl-C."""

from __future__ import annotations

import signal

import pytest

from harness.progress import Interrupts, Progress


def test_lines_go_to_stderr_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.say("gate    scalar [bold] passed")
        progress.step("gate", 1, 2)
        progress.step("compile", 1, 2, "scalar cuda")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" s  ")[1] for line in err.splitlines()] == [
        "gate    scalar [bold] passed",
        "compile  scalar cuda",
    ]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as progress:
        progress.step("gate", 1, 4)
        progress.step("gate", 3, 4)
        progress.say("one row")
    err = capsys.readouterr().err
    assert "3/4" in err
    assert "one row" in err


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_and_the_second_insists(number: signal.Signals, exit_code: int) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        signal.raise_signal(number)
        assert (interrupts.requested, interrupts.exit_code) == (True, exit_code)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before
