"""--gpus and --cluster: the same command on every GPU, a problem at a time."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import missing, refuse
from harness.cli.output import RECORDED, Row
from harness.rows import results

if TYPE_CHECKING:
    from harness.measure.fleet import Work


def _count(gpus: str | None) -> str | None:
    if gpus not in (None, "all") and not (str(gpus).isdecimal() and int(str(gpus))):
        raise typer.BadParameter(f"--gpus: got {gpus!r}, expected all or a number such as 4")
    return gpus


def _address(cluster: str | None) -> str | None:
    if cluster not in (None, "auto") and not re.search(r"^[^/]+:\d+$", str(cluster)):
        raise typer.BadParameter(
            f"--cluster: got {cluster!r}, expected auto, for a cluster of which this host is a node, or HOST:PORT such "
            "as 10.0.0.1:6379, which `ray start --head` prints"
        )
    return cluster


Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="all|N",
        callback=_count,
        help="Share the problems among the GPUs of this host, by Ray; with --cluster, how many of its GPUs.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT", callback=_address, help="Share them among all GPUs of the Ray cluster there."
    ),
]


def _writable(rows_file: Path | None) -> Path | None:
    if rows_file:
        if rows_file.resolve().is_relative_to(RECORDED):
            raise typer.BadParameter(f"--rows: got {str(rows_file)!r}, which `record` alone writes; name another file")
        if rows_file.suffix in (".log", ".html", ".xz"):
            raise typer.BadParameter(
                f"--rows: got {str(rows_file)!r}, expected a name such as run.jsonl: a log and a page get its stem"
            )
        try:
            tempfile.TemporaryFile(dir=rows_file.parent).close()
        except OSError as error:
            raise typer.BadParameter(
                f"--rows: got {str(rows_file.parent)!r}, where nothing can be written ({error.strerror}); "
                "make that folder, or name a file elsewhere"
            ) from None
    return rows_file


Rows = Annotated[
    Path | None,
    typer.Option(
        "--rows",
        dir_okay=False,
        callback=_writable,
        help="Write rows to this file; what it holds is not done again.",
    ),
]


def wanted(gpus: str | None, cluster: str | None) -> bool:
    return gpus is not None or cluster is not None


def spread(work: Work, path: Path, gpus: str | None, cluster: str | None) -> list[Row]:
    """The rows of the command, run everywhere, but for what `path` holds. Ends it where GPUs or Ray are missing."""
    from harness.machine import environment
    from harness.measure import fleet, ray_workers

    count = None if gpus in (None, "all") else int(str(gpus))
    if cluster is None and (count or 0) > (here := len(environment.boards())):  # Ray believes any number
        raise typer.BadParameter(f"--gpus: got {count}, expected all or a number up to {here}, the GPUs of this host")
    earlier = results.read(path) if path.exists() else ()
    continues = f"interrupted: the same command with --rows {path} continues"
    try:
        with ray_workers.workers(count, cluster) as (workers, new_worker):
            rows = fleet.run(work, path, workers, new_worker=new_worker, earlier=earlier)
    except ray_workers.Refused as refusal:
        missing(str(refusal))
    except (SystemExit, KeyboardInterrupt):
        if path.exists():
            typer.echo(continues, err=True)
        raise
    if any(row.get("status") == "interrupted" for row in results.newest(rows)):
        typer.echo(continues, err=True)
    return rows


def refuse_to_spread(gpus: str | None, cluster: str | None, others: Mapping[str, object]) -> None:
    """Bad usage when one of the other options was given beside --gpus or --cluster."""
    if wanted(gpus, cluster):
        given = " and ".join(name for name, value in (("--gpus", gpus), ("--cluster", cluster)) if value is not None)
        refuse(given, "each GPU gets whole problems, and rows come back to one file here", others)


def command(words: Sequence[str], options: Mapping[str, object]) -> tuple[str, ...]:
    """Arguments of Python for a command of ours: an option once for each item of a list, and without one for None."""
    found = ["-m", "harness", *words]
    for name, value in options.items():
        items = value if isinstance(value, list) else [] if value is None else [value]
        found += [word for item in items for word in (name, str(item))]
    return tuple(found)
