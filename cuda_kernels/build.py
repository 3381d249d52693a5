"""Builds a kernel file into a shared library, one library per set of compile-time constants.

With a CUDA build of torch this is `torch.utils.cpp_extension.load_inline` on the one line `#include "x.cu"`:
no torch header is seen by nvcc, so a kernel builds in seconds. Without one (load_inline refuses to run there) nvcc
is called directly on the same line with the same flags, so that the machine code can be read on any machine.

Builds land in build/cuda/<name>-<hash> inside the checkout, or in $TWINKERNELS_CACHE/cuda, where the hash covers the
kernel, everything that it includes, the flags and the compiler. A lock that the operating system releases guards each
folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cuda_kernels import includes
from cuda_kernels.patched import CACHE, HERE, kernel_file
from cuda_kernels.toolchain import Toolchain, toolchain

BUILD = CACHE / "cuda"
NO_LAUNCH = (
    "it exports no launch; a kernel file ends in `EXPORT int launch(const <Arguments>* args, void* stream)`, whose "
    "structure and EXPORT are in its operator's header; a launch without EXPORT is hidden"
)
HALF_SWITCHES = ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_CONVERSIONS", "HALF2_OPERATORS")
"""torch forces these __CUDA_NO_x__ on every extension; given here too, they hold for every compiler that we call."""


class CompileError(RuntimeError):
    """nvcc rejected a kernel; the message holds the compiler's own words."""


@dataclass(frozen=True)
class Built:
    """A shared library with `launch` and `shared_memory_bytes`, and how it came to be."""

    library: Path
    arch: str
    flags: tuple[str, ...]
    log: str
    """What nvcc and ptxas said: registers, spills, warnings."""
    seconds: float
    """Wall time of the build, when it was really built."""


def sources(kernel: str | Path) -> list[Path]:
    """The kernel file and every file that it includes from this folder or its own, the kernel first."""
    path = _file(kernel)
    return includes.closure([path], [path.parent, HERE])


def _file(kernel: str | Path) -> Path:
    """`ladder/name` is a kernel of this folder, a Path a file anywhere."""
    return kernel if isinstance(kernel, Path) else kernel_file(kernel, HERE)


def flags(arch: str, defines: Mapping[str, int]) -> tuple[str, ...]:
    """nvcc's flags for `arch` (sm_80, sm_90a, sm_120a): the same with and without a GPU."""
    target = arch.removeprefix("sm_")
    return (
        "-O3",
        "-std=c++20",
        "-fmad=true",
        "-lineinfo",
        "--expt-relaxed-constexpr",
        f"-gencode=arch=compute_{target},code=sm_{target}",
        *(f"-D__CUDA_NO_{switch}__" for switch in HALF_SWITCHES),
        *(f"-D{name}={value}" for name, value in sorted(defines.items())),
        "-Xptxas=-v",
        # Function-local statics of two libraries made from one template must not be merged.
        "-Xcompiler=-fno-gnu-unique,-fvisibility=hidden",
    )


def build(kernel: str | Path, defines: Mapping[str, int], arch: str, *, inline: bool | None = None) -> Built:
    """The library of a kernel file for these constants; from the build folder when it is there.

    `kernel` is `ladder/name`, for cuda_kernels/<ladder>/<name>.cu, or the path of a file elsewhere. `inline` chooses
    load_inline (default: when torch is a CUDA build). Raises FileNotFoundError, ToolchainError, CompileError.
    """
    tools = toolchain()
    if inline is None:
        inline = _torch_has_cuda()
    options = flags(arch, defines)
    file = _file(kernel)
    name = re.sub(r"\W", "_", file.stem if isinstance(kernel, Path) else kernel)
    folder = BUILD / f"{name}-{_fingerprint(kernel, options, tools, inline)}"
    marker = folder / "built.json"
    with locked(folder):
        if not marker.is_file():
            shutil.rmtree(folder, ignore_errors=True)  # a killed build leaves files, and torch's lock among them
            folder.mkdir(parents=True)
            inside = file.is_relative_to(HERE)  # else it is a user's file, or what a patch makes
            source = f"#include <{file.relative_to(HERE).as_posix()}>\n" if inside else f'#include "{file}"\n'
            start = time.perf_counter()
            make = _load_inline if inline else _nvcc
            try:
                library, log = make(folder, f"{name}_{folder.name[-16:]}", source, options, tools)
            except CompileError as error:
                shutil.rmtree(folder, ignore_errors=True)
                shown = file.name if isinstance(kernel, Path) else f"cuda_kernels/{kernel}.cu"
                raise CompileError(f"{shown} does not build for {arch}:\n{error}") from None
            record = {"library": library.name, "log": log, "seconds": round(time.perf_counter() - start, 3)}
            partial = marker.with_suffix(".partial")
            partial.write_text(json.dumps(record))
            partial.replace(marker)
    record = json.loads(marker.read_text())
    return Built(folder / record["library"], arch, options, record["log"], record["seconds"])


def _torch_has_cuda() -> bool:
    import torch

    return torch.version.cuda is not None


def _fingerprint(kernel: str | Path, options: Sequence[str], tools: Toolchain, inline: bool) -> str:
    digest = hashlib.sha256()
    for path in sources(kernel):
        name = path.relative_to(HERE) if path.is_relative_to(HERE) else path
        digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    digest.update(json.dumps([list(options), tools.nvcc, tools.ptxas, inline]).encode())
    if inline:
        import torch

        digest.update(torch.__version__.encode())
    return digest.hexdigest()[:16]


@contextmanager
def locked(made: Path) -> Iterator[None]:
    """Holds an advisory lock beside the file or folder that is `made`; the system drops it when the process dies."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _load_inline(folder: Path, name: str, source: str, options: Sequence[str], tools: Toolchain) -> tuple[Path, str]:
    # torch's verbose build prints to this process' stdout; a child keeps the log apart, and builds run in parallel.
    request = {"name": name, "source": source, "flags": list(options), "folder": str(folder), "include": str(HERE)}
    target = next(flag.rsplit("sm_", 1)[1] for flag in options if flag.startswith("-gencode"))
    arch_list = re.sub(r"^(\d+)(\d)", r"\1.\2", target)
    done = subprocess.run(
        [sys.executable, "-c", _LOAD_INLINE, json.dumps(request)],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_HOME": str(tools.home), "TORCH_CUDA_ARCH_LIST": arch_list, "MAX_JOBS": "2"},
    )
    if done.returncode:
        raise CompileError(_compiler_words(done.stdout + done.stderr))
    return folder / f"{name}.so", done.stdout


_LOAD_INLINE = """
import json, sys
from torch.utils.cpp_extension import load_inline
request = json.loads(sys.argv[1])
load_inline(
    name=request["name"], cpp_sources="", cuda_sources=request["source"], no_implicit_headers=True,
    is_python_module=False, extra_cuda_cflags=request["flags"], extra_include_paths=[request["include"]],
    build_directory=request["folder"], verbose=True,
)
"""


def _nvcc(folder: Path, name: str, source: str, options: Sequence[str], tools: Toolchain) -> tuple[Path, str]:
    (folder / "cuda.cu").write_text(source)
    library = folder / f"{name}.so"
    # Relocatable device code would need a link; without it, one would only add an empty cubin, to be disassembled too.
    done = subprocess.run(
        [
            *(str(tools.bin / "nvcc"), *options, f"-I{HERE}", "-Xcompiler=-fPIC", "-shared", "-nodlink"),
            *(f"-L{tools.home / 'lib'}", "-o", str(library), "cuda.cu"),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    if done.returncode:
        raise CompileError(_compiler_words(done.stdout + done.stderr))
    return library, done.stdout + done.stderr


def _compiler_words(output: str) -> str:
    """The lines that say what is wrong, in the compiler's words; the last lines when none is marked."""
    lines = output.splitlines()
    errors = [line for line in lines if re.search(r"\berror\b|\bfatal\b|static assertion", line)]
    return "\n".join(errors[:20] or lines[-20:])
