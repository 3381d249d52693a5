"""Launches the small kernels of tests/kernels/cpu_kernels, on the CPU or on a GPU of compute capability 9.0."""

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Sequence

import torch
from torch import Tensor

from cuda_kernels import build, cpu_build
from cuda_kernels.cpu_library import Library
from tests.conftest import CHECKOUT
from tests.support.cpu_run import watch

KERNELS = CHECKOUT / "tests" / "kernels" / "cpu_kernels"
BUGS = re.findall(r"[A-Z_]+(?=,)", (KERNELS / "arguments.cuh").read_text().partition("enum Bug {")[2])


class Arguments(ctypes.Structure):
    """tests/kernels/cpu_kernels/arguments.cuh, field by field."""

    _fields_ = [("tensors", ctypes.c_void_p * 4), ("values", ctypes.c_int32 * 4)]


def gpu_library(kernel: str, constants: dict[str, object]) -> ctypes.CDLL:
    """The same kernel for sm_90a, built anew when a source, a constant or the compiler changes."""
    tools, options = build.toolchain(), build.flags("sm_90a", constants)
    digest = hashlib.sha256(repr((options, tools)).encode())
    for source in sorted([KERNELS / f"{kernel}.cu", *KERNELS.glob("*.cuh"), *(build.HERE / "ptx").glob("*.cuh")]):
        digest.update(source.read_bytes())
    library = build.BUILD / f"{kernel}-{digest.hexdigest()[:16]}.so"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        folders = [f"-I{build.HERE}", f"-I{KERNELS}", f"-L{tools.home / 'lib'}", f"-L{tools.home / 'lib64'}"]
        command = [tools.bin / "nvcc", *options, *folders, "-Xcompiler=-fPIC", "-shared", KERNELS / f"{kernel}.cu"]
        partial = library.with_suffix(f".{os.getpid()}.partial.so")  # tests run in several processes
        done = subprocess.run([*command, "-o", partial], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        partial.replace(library)
    return ctypes.CDLL(str(library))


def launch(
    kernel: str,
    tensors: Sequence[tuple[Tensor, str]],
    values: Sequence[int] = (),
    *,
    device: str = "cpu",
    bug: str = "NONE",
    seed: int = 0,
    os_threads: int = 0,
    patience: float = 2.0,
    **defines: object,
) -> str:
    """Runs a kernel of this folder and returns its diagnosis. Tensors come with "in", "out" or "scratch"."""
    placed = [tensor.to(device) for tensor, _ in tensors]
    arguments = Arguments()
    arguments.tensors[: len(tensors)] = [tensor.data_ptr() for tensor in placed]
    arguments.values[: len(values)] = values
    if device == "cuda":
        code = gpu_library(kernel, defines).launch(ctypes.byref(arguments), None)
        assert code == 0, torch.cuda.CudaError(code)
        torch.cuda.synchronize()
        for (tensor, use), result in zip(tensors, placed, strict=True):
            if use != "in":
                tensor.copy_(result)
        return ""
    library = Library(cpu_build.build(KERNELS / f"{kernel}.cu", defines, include=(KERNELS,)))
    library.handle.plant(BUGS.index(bug))
    library.configure(seed=seed, os_threads=os_threads, patience=patience)
    library.forget()
    for number, (tensor, use) in enumerate(tensors):
        watch(library, f"tensor {number}", tensor, use)
    code = library.launch(ctypes.byref(arguments), None)
    assert bool(code) == bool(library.diagnosis())
    return library.diagnosis()
