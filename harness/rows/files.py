"""Files that several processes may write at once, on a disk that may be full. Standard library only."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

UNWRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers of a full disk, and of a folder that belongs to somebody else."""


def replace(contents: Mapping[Path, bytes]) -> None:
    """Replaces the files once all new ones are on disk. If one does not fit, the error names it and no file changes."""
    parts = {path: path.with_name(f".{path.name}.part") for path in contents}
    try:
        for path, part in parts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(contents[path])
                file.flush()
                os.fsync(file.fileno())
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
