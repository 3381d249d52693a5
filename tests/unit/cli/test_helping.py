"""Processes that help do so at once, and none is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.cli.helping import helped


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda count: monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))


def takes(folder: Path) -> None:
    (folder / str(os.getpid())).touch()


def crashes(folder: Path) -> None:
    os.abort()


def fails(folder: Path) -> None:
    raise RuntimeError("no row")


def hangs(folder: Path) -> None:
    takes(folder)
    time.sleep(600)


@pytest.mark.parametrize(("share", "took"), [(takes, 3), (crashes, 1), (fails, 1)])
def test_others_do_their_share_meanwhile(
    share: Callable[[Path], None], took: int, tmp_path: Path, cores: Callable[[int], None]
) -> None:
    cores(3)
    with helped(partial(share, tmp_path)):
        takes(tmp_path)
    assert len(list(tmp_path.iterdir())) == took


def test_on_one_core_nobody_helps(tmp_path: Path, cores: Callable[[int], None]) -> None:
    cores(1)
    with helped(partial(takes, tmp_path)):
        pass
    assert not list(tmp_path.iterdir())


def test_an_exception_ends_the_helpers(tmp_path: Path, cores: Callable[[int], None]) -> None:
    cores(2)

    def interrupted() -> None:
        with helped(partial(hangs, tmp_path)):
            while not any(tmp_path.iterdir()):
                time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (helper,) = tmp_path.iterdir()
    assert not Path("/proc", helper.name).exists()
