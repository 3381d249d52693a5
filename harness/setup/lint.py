"""ruff, mypy and clang-format over the checkout, with the time that each took: python3 -m harness.setup.lint [--fix]"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CXX = (".cu", ".cuh", ".cpp", ".h")


def steps(fix: bool) -> dict[str, list[str]]:
    """Name of a step -> its command, tool first."""
    rooms = ("cuda_kernels", "tests")
    files = (path for room in rooms for path in (CHECKOUT / room).rglob("*") if path.suffix in CXX)
    cxx = sorted(str(path.relative_to(CHECKOUT)) for path in files)
    return {
        "ruff check": ["ruff", "check", *(["--fix"] if fix else [])],
        "ruff format": ["ruff", "format", *([] if fix else ["--check"])],
        "mypy": ["mypy", "--no-error-summary"],
        "registry": [sys.executable, "-m", "harness.catalog.rungs"],
        "clang-format": ["clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *cxx],
    }


def main(arguments: list[str]) -> int:
    """0 when every tool is content or missing; a missing one is named."""
    failed = []
    for name, (tool, *rest) in steps("--fix" in arguments).items():
        found = shutil.which(tool, path=sysconfig.get_path("scripts")) or shutil.which(tool)
        if found is None:
            print(f"{name}: skipped, {tool} is not installed (pip install {tool})", flush=True)
            continue
        start = time.monotonic()
        if subprocess.run([found, *rest], cwd=CHECKOUT).returncode:
            failed.append(name)
        print(f"{name}: {'FAILED' if name in failed else 'ok'} in {time.monotonic() - start:.1f} s", flush=True)
    if failed:
        print(f"lint: {', '.join(failed)} failed; `make format` repairs what a tool can repair", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
