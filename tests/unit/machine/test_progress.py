"""A bar for people, lines for logs, and two meanings of Ctrl-C."""

import signal
from queue import Queue
from types import SimpleNamespace

import pytest

from harness.machine import progress
from harness.machine.progress import Interrupts, Progress


def test_lines_go_to_stderr_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.say("gate    scalar [bold] passed")
        progress.say("gate    own \x1b[2J\x1b]0;title crashed")
        progress.step("gate", 1, 2)
        progress.step("compile", 1, 2, "scalar cuda")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" s  ")[1] for line in err.splitlines()] == [
        "gate    scalar [bold] passed",
        "gate    own \\x1b[2J\\x1b]0;title crashed",
        "compile  scalar cuda",
    ]


def test_without_a_terminal_a_line_every_twenty_seconds_tells_how_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Progress() as shown:
        for done in range(1, 101):
            clock[0] += 3.0
            shown.count("compile", done, 100, f"kernel {done}")
    said = [line.partition(" s  ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said[0] == "compile  7 of 100, about 5 min left: kernel 7"
    assert said[-1] == "compile  100 of 100, about 0 s left: kernel 100"
    assert len(said) == 100 // 7 + 1


def impatient(monkeypatch: pytest.MonkeyPatch) -> tuple[Progress, Queue[str]]:
    """One that breaks every silence at once, and the lines that it says."""
    said: Queue[str] = Queue()
    monkeypatch.setattr(progress, "SILENCE", 0.02)
    shown = Progress()
    monkeypatch.setattr(shown, "_console", SimpleNamespace(print=lambda text, **_: said.put(text)))
    return shown, said


def test_a_step_that_takes_long_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, said = impatient(monkeypatch)
    with shown:
        shown.say("compiling")
        lines = [said.get().partition(" s  ")[2] for _ in range(3)]
        shown.count("compile", 1, 100, "a kernel")
        assert any("still at work after: compile  1 of 100" in said.get() for _ in range(100))
    assert lines == ["compiling", *["still at work after: compiling"] * 2]


def test_a_silence_names_the_case_at_work_and_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning of the beginning was repeated every 20 seconds, as if it were what was done last."""
    shown, said = impatient(monkeypatch)
    with shown:
        shown.warn("uncommitted changes")
        assert [said.get().partition(" s  ")[2] for _ in range(2)] == ["warning: uncommitted changes", "at work"]
        shown.now("launch", "scalar cuda")
        assert any("still at work: scalar cuda, stage launch" in said.get() for _ in range(100))
        shown.say("passed")
        assert any("still at work after: passed" in said.get() for _ in range(100))


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


@pytest.mark.parametrize("patient", [True, False])
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_where_somebody_is_patient_and_the_next_insists(
    number: signal.Signals, exit_code: int, patient: bool
) -> None:
    before = signal.getsignal(number)
    with Interrupts(patient) as interrupts:
        if patient:
            signal.raise_signal(number)
            assert interrupts.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert (interrupts.requested, interrupts.exit_code) == (True, exit_code)
    assert signal.getsignal(number) is before
