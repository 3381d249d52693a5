"""Finds or makes a Python that can run this checkout, and becomes it:
python3 -m harness.setup.bootstrap -m harness report

Standard library only; this file runs before anything is installed. In this order:
1. the current Python, if it meets pyproject.toml's dependencies: nothing is installed (a machine without a network);
2. .venv, if it was set up from the same pyproject.toml and lock;
3. .venv, set up now: PyTorch, this checkout (editable) with its dev tools, and NVIDIA's compiler when there is none.

The lock is constraints.txt, with torch's version in constraints-cpu.txt and constraints-gpu.txt. uv installs where it
is on PATH, else pip. TORCH_INDEX names the package index that PyTorch comes from, where the choice below does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "set-up"
NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"  # of the interpreter and of its packages
OLDEST_PYTHON = (3, 11)
GET_PYTHON = "apt install python3.11 python3.11-venv, then make PYTHON=python3.11 report"
LOCKS = ("constraints.txt", "constraints-cpu.txt", "constraints-gpu.txt")
SIZES = {False: "0.6 GB to download, 2.3 GB on disk", True: "2.9 GB to download, 5.6 GB on disk"}
"""Whether there is a GPU -> what a set-up takes, measured; without NVIDIA's compiler 0.1 and 0.3 GB less."""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class SetupError(Exception):
    """What is missing and the command that gets it."""


def version(text: str) -> tuple[int, ...]:
    """(2, 13, 0) for '2.13.0+cpu'."""
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("+")[0])[:3])


def requirements(*extras: str) -> list[str]:
    """The dependencies in pyproject.toml, and those of the extras."""
    import tomllib

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return [requirement for one in lists for requirement in one]


def unmet(required: list[str]) -> list[str]:
    """Those of `required` (a name with >= and < bounds) that this Python does not meet, and what it has instead."""
    problems = []
    for requirement in required:
        name, bounds = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
        try:
            installed = version(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{requirement} (not installed)")
            continue
        for sign, bound in re.findall(r"(>=|<)([\d.]+)", bounds):
            if (installed >= version(bound)) != (sign == ">="):
                problems.append(f"{requirement} (installed: {'.'.join(map(str, installed))})")
    return problems


def interpreter_fault() -> str | None:
    """Why Triton's interpreter, which checks the Triton twins where there is no GPU, fails in this Python; or None."""
    try:
        triton, numpy = importlib.metadata.version("triton"), importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        return None
    fails = version(triton) < (3, 7) and version(numpy) >= (2, 4)
    return f"numpy<2.4 for Triton {triton} (installed: {numpy})" if fails else None


def system_nvcc() -> bool:
    """Whether the CUDA twins can be built here without NVIDIA's compiler wheels."""
    from cuda_kernels import toolchain

    return toolchain.find(toolchain.system_homes()) is not None


def has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def python_header() -> Path:
    return Path(sysconfig.get_path("include")) / "Python.h"


def digest() -> str:
    """Names what .venv is made from; it is set up again when this changes."""
    made_from = [*(CHECKOUT / name for name in ("pyproject.toml", *LOCKS)), Path(__file__)]
    content = b"".join(path.read_bytes() for path in made_from)
    return hashlib.sha256(content + f"{CHECKOUT} {has_gpu()} {system_nvcc()}".encode()).hexdigest()


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def lock() -> Path:
    """The constraints of all that is installed here."""
    return CHECKOUT / f"constraints-{'gpu' if has_gpu() else 'cpu'}.txt"


def torch_pin() -> str:
    """torch==<version>, from the lock."""
    return next(line.split()[0] for line in lock().read_text().splitlines() if line.startswith("torch=="))


def pip(*arguments: str) -> None:
    """pip's own. Raises SetupError."""
    ran([str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments])


def install(*arguments: str) -> None:
    """By uv where it is on PATH, else by pip: what both understand. Raises SetupError."""
    if uv := shutil.which("uv"):
        ran([uv, "pip", "install", "--python", str(PYTHON), *arguments])
    else:
        pip("install", *arguments)


def ran(command: list[str]) -> None:
    """Runs an installer, which says itself how far it is. Raises SetupError."""
    if subprocess.run(command, stdout=sys.stderr).returncode:
        raise SetupError(f"it failed (the message is above). Try again with: {' '.join(command)}")


def torch_arguments() -> list[str]:
    """What to ask for: the CUDA build on a machine with an NVIDIA GPU, else a CPU build (no CUDA libraries)."""
    wanted = torch_pin()
    if index := os.environ.get("TORCH_INDEX"):
        return [wanted, "--index-url", index]
    if has_gpu():
        return [wanted]
    if shutil.which("uv"):  # it does not read pip's configuration
        return [wanted, "--index-url", CPU_INDEX]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip("install", "--dry-run", "--no-deps", "--quiet", "--report", str(report), wanted)
        chosen = json.loads(report.read_text())["install"]
    if not chosen or "+cpu" in chosen[0]["metadata"]["version"]:  # already there, or configured to be found
        return [wanted]
    return [wanted, "--index-url", CPU_INDEX]


def obstacles() -> list[str]:
    """What keeps a set-up from being made here, each with the command that mends it."""
    found = []
    if importlib.util.find_spec("ensurepip") is None:
        found.append(f"{NAME} has no venv. On Debian or Ubuntu: apt install {NAME}-venv")
    if shutil.which("g++") is None:
        found.append("g++ is missing; nvcc needs it. On Debian or Ubuntu: apt install g++")
    if has_gpu() and not python_header().exists():
        found.append(
            f"Python.h is missing; Triton compiles its launcher with it. On Debian or Ubuntu: apt install {NAME}-dev"
        )
    return found


def is_set_up() -> bool:
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == digest()


def set_up() -> None:
    """Makes .venv. Raises SetupError."""
    start = time.monotonic()
    if found := obstacles():
        raise SetupError(found[0])
    if not PYTHON.exists():
        say(f"making {VENV.relative_to(CHECKOUT)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True, stdout=sys.stderr)
    try:
        torch = torch_arguments()
        say(f"installing {' '.join(torch)} (once; with all else about {SIZES[has_gpu()]})")
        install("--no-deps", *torch)
    except SetupError as error:
        raise SetupError(
            f"{error}\nset-up: where that package index is out of reach, name one that has {torch_pin()}: "
            "TORCH_INDEX=<url> make report"
        ) from None
    extras = "dev" if system_nvcc() else "dev,nvcc"
    say(f"installing this checkout with [{extras}]")
    install("--editable", f"{CHECKOUT}[{extras}]", "--constraint", str(lock()))
    STAMP.write_text(digest())
    say(f"done in {time.monotonic() - start:.0f} s")


def lacking(*extras: str) -> list[str]:
    """What this Python lacks of the dependencies and those of `extras`; where it lacks anything, .venv is used."""
    missing = unmet(requirements(*extras))
    if not has_gpu() and (fault := interpreter_fault()):
        missing.append(fault)
    return missing


def find_python(*extras: str) -> Path:
    """The Python to use, set up if need be: this one where it has the dependencies and those of `extras`. Raises
    SetupError."""
    missing = lacking(*extras)
    if not missing:
        return Path(sys.executable)
    lock_file = CHECKOUT / "build" / "set-up.lock"
    lock_file.parent.mkdir(exist_ok=True)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two `make` at once: the second waits for the first
        if not is_set_up():
            say(f"{sys.executable} lacks {missing[0]} and {len(missing) - 1} more; using .venv")
            set_up()
    return PYTHON


def newer_python() -> str:
    """A Python on PATH that is new enough. Raises SetupError when there is none."""
    for minor in (14, 13, 12, 11):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:  # no dead shim
            return found
    raise SetupError(f"got Python {sys.version.split()[0]}, expected 3.11 or newer. On Debian or Ubuntu: {GET_PYTHON}")


def main(arguments: list[str]) -> None:
    if sys.version_info < OLDEST_PYTHON:
        newer = newer_python()
        os.execv(newer, [newer, "-m", "harness.setup.bootstrap", *arguments])
    python = str(find_python(*(["test"] if "pytest" in arguments else [])))
    os.execv(python, [python, *arguments])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (SetupError, subprocess.CalledProcessError) as error:
        sys.exit(f"set-up: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
