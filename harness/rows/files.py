"""Files that several processes may write at once, on a disk that may be full. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

UNWRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a full disk, and of a folder that belongs to somebody else."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time between reading files below the folder and replacing them. The folder is made where it is
    missing; no other file is. Waits for whoever is inside, and says so on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process writes into {folder}: waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in the place of `path`: under a temporary name of its own, on disk and in place when the block
    ends. Where the block raises, or the disk is full, `path` stays as it is and nothing else is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            yield file
            flush(file)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    _flush_folder(path.parent)


def replace(contents: Mapping[Path, str | bytes]) -> None:
    """Replaces the files, each in one step, once all of them are on disk: where one does not fit, none changes."""
    with ExitStack() as stack:
        for path, content in contents.items():
            file = stack.enter_context(replacing(path))
            file.write(content.encode() if isinstance(content, str) else content)
            flush(file)


def flush(file: IO[bytes]) -> None:
    """Returns when all that was written is on disk."""
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now
