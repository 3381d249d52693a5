"""A file of experiments/ called as a script becomes the command line."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def become(*command: str) -> NoReturn:
    """`twinkernels` with this command and the options that the file was called with, in the place of this process."""
    os.execv(sys.executable, [sys.executable, "-m", "harness", *command, *sys.argv[1:]])
