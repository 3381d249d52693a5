"""twinkernels: the command line. Commands choose and print; each imports the heavy modules that it needs."""

import importlib.util
import os
import signal
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from harness.catalog.sources import CACHE, ROOT, Unreadable
from harness.catalog.text import plain
from harness.cli import comparing, inspecting, measuring, recording, reporting, rungs
from harness.cli.expressibility import expressibility
from harness.cli.versions import versions
from harness.rows.files import UNWRITABLE

PACKAGES = ("cuda_kernels", "triton_kernels", "harness", "experiments", "reports")
AWKWARD = frozenset("',$\"\\\n")
"""What compilers and ninja take for something else in a path."""
NO_UTF8 = frozenset(map(chr, range(0xDC80, 0xDD00)))
"""What Python makes of bytes of a path that are no UTF-8; Triton and PyTorch fail at them."""
COMMANDS: dict[str, Callable[..., None]] = {
    "list": inspecting.list_techniques,
    "show": rungs.show,
    "diff": rungs.diff,
    "new": rungs.new,
    "doctor": inspecting.doctor,
    "build": inspecting.build,
    "inspect": inspecting.inspect,
    "expressibility": expressibility,
    "versions": versions,
    "check": measuring.check,
    "sanitize": measuring.sanitize,
    "bench": measuring.bench,
    "run": measuring.run,
    "report": reporting.report,
    "record": recording.record,
    "tune": measuring.tune,
    "scorecard": comparing.scorecard,
    "compare": comparing.compare,
    "history": comparing.history,
}
"""In the order in which `--help` names them."""


class Commands(TyperGroup):
    """Whose messages begin with no exception of pydantic and describe a missing argument."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            missing = getattr(error.param, "help", None)  # what to write, behind click's "Missing argument 'NAME'."
            error.message = error.message.removeprefix("Value error, ") or missing or ""
            raise


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
        raise typer.Exit


@app.callback()
def twinkernels(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """What does each optimization buy, and can Triton say it?"""


for name, command in COMMANDS.items():
    app.command(name)(command)


def _end(why: str) -> NoReturn:
    """Ends the process as bad usage does."""
    typer.echo(plain(why).encode(errors="backslashreplace").decode(), err=True)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits: 0 fine, 1 something failed, 2 bad usage or nothing to run it on, 130 interrupted."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
        if ROOT / package not in folders[:1]:
            _end(
                f"{package}: got {folders[0] if folders else 'no such package'}, expected {ROOT / package}. "
                f"Another distribution has a package of this name, or another checkout is installed here. "
                f"Run `python -m pip install -e {ROOT}` in a virtual environment of its own, or `make report`."
            )
    for name, path in (("the checkout", ROOT), ("TWINKERNELS_CACHE", CACHE)):
        if found := sorted(letter for letter in set(str(path)) if letter in AWKWARD or letter in NO_UTF8):
            _end(
                f"{name}: got {str(path)!r} with {' and '.join(found)}, at which compilers fail; move it "
                "to a path without"
            )
    if os.environ.get("TWINKERNELS_CACHE"):  # what fails there would be told as each kernel's own failure
        try:
            CACHE.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=CACHE).close()
        except OSError as error:
            _end(
                f"TWINKERNELS_CACHE: got {str(CACHE)!r}, where nothing can be written ({error.strerror}); expected a "
                "folder for what compilers make"
            )
    os.environ.setdefault("TRITON_CACHE_DIR", str(CACHE / "triton"))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE / "inductor"))
    signal.signal(signal.SIGINT, _interrupt)
    try:
        try:
            app(arguments)
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # who read it has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(128 + signal.SIGPIPE)
    except Unreadable as refusal:
        _end(str(refusal))
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        where = error.filename or "a file"
        _end(f"{where}: {error.strerror}; make room there or choose a checkout that may be written")


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Ctrl-C. Within an import it ends the process here: numpy and torch have places that catch every exception, so
    that the command would go on, or end with an error that is none."""
    while frame:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
