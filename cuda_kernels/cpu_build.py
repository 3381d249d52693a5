"""Builds a kernel file into a shared library that runs on the CPU: the same source, g++ or clang, other headers.

`-Icuda_kernels/cpu` comes before `-Icuda_kernels`, so `<ptx/...>` is the CPU twin of each header. The runtime (fibers,
checks, counters) is compiled once and linked into every library, hidden, so that each library has its own.

Builds land in build/cpu/<name>-<hash>, or in $TWINKERNELS_CACHE/cpu, where the hash covers the kernel, everything that
it includes, the runtime, the flags and the compiler. Standard library only.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cuda_kernels import includes
from cuda_kernels.build import HALF_SWITCHES, CompileError, locked
from cuda_kernels.patched import CACHE
from cuda_kernels.toolchain import ToolchainError, homes

HERE = Path(__file__).resolve().parent
SEARCHED = HERE / "cpu", HERE
"""Where kernels find what they include: the CPU's headers come before those of the same names for a GPU."""
RUNTIME = HERE / "cpu" / "runtime"
BUILD = CACHE / "cpu"


def build(
    path: Path,
    defines: Mapping[str, object],
    *,
    sanitize: bool = False,
    include: Sequence[Path] = (),
) -> Path:
    """The library of kernel file `path` for these constants; from the build folder when it is there.

    `include` are folders of headers beside this one. `sanitize` adds the address and undefined-behaviour sanitizers; a
    process must have libasan preloaded to load such a library (see `sanitizer_environment`). Raises FileNotFoundError,
    ToolchainError (no compiler or CUDA headers), CompileError.
    """
    if not path.is_file():
        raise FileNotFoundError(f"path: got {path}, which is no file; expected a kernel such as ampere/scalar.cu")
    options = flags(sanitize)
    constants = tuple(f"-D{name}={value}" for name, value in sorted(defines.items()))
    runtime = _runtime(options, ("-Og",) if sanitize else ("-O3", "-g0"))  # a diagnosis names no line of it
    search = [f"-I{folder}" for folder in include]
    kernel = ["-x", "c++", *_prefix(options), "-include", str(path), os.devnull]
    # The time goes to the runtime: with -O1 a kernel compiles a third longer and runs no faster.
    command = [compiler(), *options, *search, *constants, "-Og", *kernel]
    gold = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []  # links in a third of ld's time
    link = ["-x", "none", str(runtime), "-shared", "-Wl,-z,defs", *gold]
    made_from = [*includes.closure([path], [*SEARCHED, *include]), runtime]
    return _made(
        path.stem, "so", made_from, [*options, *constants, "-Og"], lambda out: [*command, *link, "-o", str(out)]
    )


def plain(path: Path) -> Path:
    """The library of a C++ file that is no kernel; what it does not define its process must have loaded before it.
    Raises ToolchainError, CompileError."""
    options = ("-std=c++20", "-fPIC", "-fvisibility=hidden", "-Wall", "-O2", "-shared")
    return _made(path.stem, "so", [path], options, lambda out: [compiler(), *options, str(path), "-o", str(out)])


@functools.cache
def compiler() -> str:
    """$CXX, g++ or clang++.

    Raises ToolchainError when there is none or clang is too old, and where the runtime's fibers do not run.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise ToolchainError(
            f"CPU: got {platform.system()} {platform.machine()}, expected Linux on x86_64 or aarch64, whose stacks the "
            "runtime can switch; a container or a virtual machine will do"
        )
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (found := shutil.which(name)):
            clang = re.search(r"clang version (\d+)", _said([found, "--version"]))
            if clang and int(clang[1]) < 16:
                raise ToolchainError(
                    f"C++ compiler: got {found}, clang++ {clang[1]}, which tells a wrapper's line, not the kernel's; "
                    "expected clang++ 16 or g++ 11; install it: apt install g++"
                )
            return found
    raise ToolchainError("C++ compiler: got none, expected g++ 11 or clang++ 16 on PATH; install it: apt install g++")


@functools.cache
def cuda_include() -> Path:
    """The folder of cuda_fp16.h: from the first of toolchain.homes() that has it.

    Raises ToolchainError when there is none.
    """
    for home in homes():
        if (home / "include" / "cuda_fp16.h").is_file():
            return home / "include"
    raise ToolchainError(
        "cuda_fp16.h: got none, expected one in $CUDA_HOME, beside nvcc, in /usr/local/cuda or from NVIDIA's wheels; "
        "install it with: pip install -e '.[nvcc]'"
    )


def flags(sanitize: bool = False) -> tuple[str, ...]:
    """Compiler flags of kernels and runtime alike, without optimization level and constants."""
    return (
        "-std=c++20",
        "-fPIC",
        "-pthread",
        "-fvisibility=hidden",
        "-ffp-contract=fast",
        "-g1",  # lines, for a loop that only its address names
        "-Wall",
        "-Wno-unknown-pragmas",
        "-Werror=return-type",
        *(f"-I{folder}" for folder in SEARCHED),
        f"-isystem{cuda_include()}",
        f"-isystem{cuda_include() / 'cccl'}",
        *(f"-D__CUDA_NO_{switch}__" for switch in HALF_SWITCHES),
        *(("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined") if sanitize else ()),
    )


def line_of(library: Path, offset: int) -> str | None:
    """The kernel's line, "scalar.cu:88", of the code at `offset` of a library; None where addr2line does not tell."""
    tool = shutil.which("addr2line")
    told = _said([tool, "-i", "-e", str(library), hex(offset)]).splitlines() if tool else []
    for place in told:  # from an inlined function out to the kernel
        path, _, line = place.partition(" ")[0].rpartition(":")
        if Path(path).suffix in (".cu", ".cuh") and "cpu" not in Path(path).parts:
            return f"{Path(path).name}:{line}"
    return None


def sanitizing() -> bool:
    """Whether this process has the sanitizers preloaded, and so loads libraries that are built with them."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def sanitizer_environment() -> dict[str, str]:
    """Variables of a process that loads libraries built with `sanitize`. Raises ToolchainError when g++ lacks them."""
    names = ("libasan.so", "libubsan.so")
    found = [Path(_said([compiler(), f"-print-file-name={name}"]).strip()) for name in names]
    if missing := [path.name for path in found if not path.is_file()]:
        raise ToolchainError(
            f"sanitizers: got no {' and no '.join(missing)} beside {compiler()}, expected g++'s; "
            "install g++ and set CXX=g++"
        )
    preload = " ".join(str(path.resolve()) for path in found)
    return {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0"}  # the leaks are the interpreter's own


@functools.cache
def _prefix(options: tuple[str, ...]) -> tuple[str, ...]:
    """What includes the headers from elsewhere precompiled; nothing with clang, whose kernels include them one by one.

    The plain header lies beside it: g++ takes that one when a constant's name occurs in those headers.
    """
    if "clang" in _version():
        return ()
    header = RUNTIME / "prefix.h"
    precompiled = _made(
        "prefix.h",
        "gch",
        [header],
        options,
        lambda out: [compiler(), *options, "-Og", "-x", "c++-header", str(header), "-o", str(out)],
    )
    plain = precompiled.with_suffix("")
    with locked(precompiled):
        if not plain.is_file():
            shutil.copyfile(header, partial := plain.with_suffix(".partial"))
            partial.replace(plain)
    return "-include", str(plain)


@functools.cache
def _runtime(options: tuple[str, ...], further: tuple[str, ...]) -> Path:
    """The runtime as one object, and one unit: compiled file by file it takes three times as long, most of it on the
    headers. Under sanitizers it is compiled more often than it runs. Without the precompiled header, which is made at
    the kernels' -Og: with another level g++ 12 dies on it (internal error, "during IPA pass: cp")."""
    units = sorted(RUNTIME.glob("*.cpp"))
    together = [word for unit in units for word in ("-include", str(unit))]
    source = ["-x", "c++", *together, "-c", os.devnull]
    return _made(
        "runtime",
        "o",
        includes.closure(units, SEARCHED),
        (*options, *further),
        lambda out: [compiler(), *options, *further, *source, "-o", str(out)],
    )


def _made(
    name: str, suffix: str, made_from: Sequence[Path], options: Sequence[str], command: Callable[[Path], list[str]]
) -> Path:
    """The file that `command(output)` makes, unless the same contents and options made it before."""
    digest = hashlib.sha256(_version().encode())
    for path in made_from:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update("\0".join(option for option in options if not option.startswith("-I")).encode())
    result = BUILD / f"{name}-{digest.hexdigest()[:16]}.{suffix}"
    if result.is_file():
        return result
    with locked(result):
        if not result.is_file():
            partial = result.with_suffix(f".partial.{suffix}")
            unsanitized = None  # the compiler itself need not run under the sanitizers
            if sanitizing():
                unsanitized = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            done = subprocess.run(command(partial), capture_output=True, text=True, env=unsanitized)
            if done.returncode:
                raise CompileError(f"{name} does not build for the CPU:\n{done.stderr or done.stdout}")
            if done.stderr:
                print(done.stderr, file=sys.stderr)
            partial.replace(result)
    return result


@functools.cache
def _version() -> str:
    return _said([compiler(), "--version"])


def _said(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
