"""A copy of the checkout for tests that edit it, break it or run it alone, and programs that stand in for tools."""

import shutil
from pathlib import Path

from tests.conftest import CHECKOUT

PACKAGES = ("cuda_kernels", "triton_kernels", "harness", "experiments", "reports")


def copied(folder: Path, *more: str) -> Path:
    """`folder` with the packages and `more` files and folders: nothing that was built, measured or drawn."""
    ignored = shutil.ignore_patterns("__pycache__", "runs", "site", "recorded", "figures")
    for name in (*PACKAGES, *more):
        if (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(CHECKOUT / name, folder)
    return folder


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
