"""Several processes, a full disk, a folder of somebody else: no row is lost, nothing half-written is left."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.catalog import sources
from harness.rows import files, record, results
from tests.conftest import CHECKOUT
from tests.support.row_file import ENVIRONMENT, TIMING, write

RECORD = """
import sys
from pathlib import Path
from harness.rows import record
for run in sys.argv[2:]:
    record.record([Path(run)], Path(sys.argv[1]))
"""


def run_of(folder: Path, number: int) -> Path:
    """A run of one timing row that no other run has."""
    path = folder / f"{number}.jsonl"
    row = TIMING | {"mode": "burst", "problem": TIMING["problem"] | {"batch": number + 1}}
    return write(path, [ENVIRONMENT, row])


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.slow
def test_two_at_once_lose_no_row(tmp_path: Path) -> None:
    root, each = tmp_path / "recorded", 12
    halves = [[str(run_of(tmp_path, number)) for number in range(first, first + each)] for first in (0, each)]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    at_work = [subprocess.Popen([sys.executable, "-c", RECORD, str(root), *half], env=environment) for half in halves]
    assert [process.wait() for process in at_work] == [0, 0]
    assert len(results.read_recorded(root)) == 2 * 2 * each
    folder = root / "h200/attention/ladder"
    expected = [*(f"{number}.jsonl.xz" for number in range(2 * each)), "summary.csv"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(expected)
    assert len((folder / "summary.csv").read_text().splitlines()) == 1 + 2 * each


def test_a_full_disk_leaves_every_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "recorded"
    (path,) = record.record([run_of(tmp_path, 0)], root)
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        record.record([run_of(tmp_path, 1)], root)
    assert error.value.filename == str(path.with_name("1.jsonl.xz"))
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


def test_of_two_files_none_changes_when_the_second_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for path in (one, two):
        path.write_text("before\n")
    fsync, on_disk = os.fsync, []

    def second(descriptor: int) -> None:
        on_disk.append(descriptor)
        (full if len(on_disk) == 2 else fsync)(descriptor)

    monkeypatch.setattr(os, "fsync", second)
    with pytest.raises(OSError, match="No space left"):
        files.replace({one: b"after", two: b"after"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {one.name: "before\n", two.name: "before\n"}


def test_a_run_on_a_full_disk_ends_in_a_whole_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "run.jsonl", os.write
    with results.Writer(path) as writer:
        kept = writer.write(TIMING)
        room = [40]

        def fill(descriptor: int, data: bytes) -> int:
            if not room:
                full()
            return write(descriptor, data[: room.pop()])

        monkeypatch.setattr(os, "write", fill)
        with pytest.raises(OSError, match="No space left") as error:
            writer.write(TIMING)
        assert error.value.filename == str(path)
        monkeypatch.setattr(os, "write", write)
        writer.write(kept)
    assert results.read(path) == [kept, kept]
    assert path.read_text().endswith("\n")


ROOM = "; make room there or choose a checkout that may be written\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "x.jsonl"), f"x.jsonl: Read-only file system{ROOM}"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.jsonl"), f"x.jsonl: No space left on device{ROOM}"),
        (sources.Unreadable("h200.toml: line 2"), "h200.toml: line 2\n"),
    ],
)
def test_a_file_that_cannot_be_written_or_read_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    def app(arguments: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit) as end:
        cli.main(["run", "attention/ladder"])
    assert end.value.code == 2
    assert capsys.readouterr().err == said


def test_another_error_of_the_system_is_no_matter_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def app(arguments: Any) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(ConnectionResetError):
        cli.main(["list"])
