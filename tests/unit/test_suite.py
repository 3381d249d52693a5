"""With several processes, the tests of one file stay in one of them; a failed test shows what a command said, one that
a signal stopped ends the tests; and what no row proves is run again, with a few of the rest."""

import os
from pathlib import Path

import pytest
import typer

from tests.support import chosen, commands


def test_the_tests_of_a_file_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    """pytest-xdist goes by the end of a test's name. A pytest in which that cannot be set spreads every file's tests
    over all processes, and each makes anew what they share."""
    if "PYTEST_XDIST_WORKER" not in os.environ or request.config.getoption("dist", "no") != "no":
        pytest.skip("runs in one process: `make test` runs in several")
    if not request.config.getvalue("loadgroup"):
        pytest.skip("runs without --dist loadgroup: `make test` sets it")
    assert request.node.nodeid.endswith("@tests/unit/test_suite.py")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """What stands in for the command line."""
    app = typer.Typer()
    monkeypatch.setattr("harness.cli.app", app)
    return app


def test_a_command_that_a_signal_stopped_ends_the_tests(command: typer.Typer, tmp_path: Path) -> None:
    """A run answers SIGTERM itself: pytest would call the test failed and go on."""

    @command.command()
    def bench() -> None:
        typer.echo("so far")
        raise SystemExit(143)

    with pytest.raises(pytest.exit.Exception, match=r"(?s)a signal stopped .*exit code 143.*so far"):
        commands.run(tmp_path)


def test_a_failed_test_shows_what_a_command_said(command: typer.Typer, tmp_path: Path) -> None:
    @command.command()
    def bench() -> None:
        typer.echo("a table")
        typer.echo("a case", err=True)
        (tmp_path / "run.log").write_text("a compiler's words")
        raise ArithmeticError("a bug")

    told = commands.run(tmp_path).told
    for words in ("exit code 1", "a table", "a case", "a compiler's words", "ArithmeticError: a bug"):
        assert words in told


def test_all_that_no_row_proves_is_run_and_a_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, found = {("wmma", number) for number in range(9)} | {("scalar", number) for number in range(99)}, []
    for commit in ("a", "b"):
        monkeypatch.setattr(chosen, "commit", lambda commit=commit: commit)
        found.append(chosen.quick(cells, lambda cell: cell[0] == "scalar"))
        assert sum(name == "wmma" for name, _ in found[-1]) == 9
        assert sum(name == "scalar" for name, _ in found[-1]) == chosen.COUNT
    assert found[0] != found[1]
