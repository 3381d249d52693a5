"""Launches the small kernels of tests/kernels/cpu_kernels, on the CPU or on a GPU of compute capability 9.0."""

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from cuda_kernels import build
from cuda_kernels.cpu_library import Library
from tests.conftest import CHECKOUT
from tests.support import together
from tests.support.cpu_run import watch

KERNELS = CHECKOUT / "tests" / "kernels" / "cpu_kernels"
BUGS = re.findall(r"[A-Z_]+(?=,)", (KERNELS / "arguments.cuh").read_text().partition("enum Bug {")[2])


def product(
    type_name: str = "__half",
    columns: int = 64,
    swizzle: str = "bytes_128",
    transpose: int = 0,
    rs: int = 0,
    depth: int = 64,
    transpose_a: int = 0,
) -> dict[str, object]:
    return {
        "ELEMENT_TYPE": type_name,
        "COLUMNS": columns,
        "DEPTH": depth,
        "SWIZZLE": f"Swizzle::{swizzle}",
        "A_TRANSPOSED": transpose_a,
        "B_TRANSPOSED": transpose,
        "A_IN_REGISTERS": rs,
    }


PRODUCTS = (
    ("__half", 64, "bytes_128", 0, 0, 64, 0),
    ("__half", 128, "bytes_128", 1, 0, 64, 0),
    ("__nv_bfloat16", 256, "bytes_128", 1, 1, 64, 0),
    ("__nv_bfloat16", 80, "bytes_64", 0, 1, 64, 0),
    ("__half", 64, "bytes_64", 1, 0, 64, 0),
    ("__half", 96, "bytes_32", 0, 0, 64, 0),
    ("__half", 32, "bytes_32", 1, 0, 64, 0),
    ("__half", 64, "none", 0, 0, 64, 0),
    ("__half", 64, "none", 1, 0, 64, 0),
    ("__nv_fp8_e4m3", 64, "bytes_128", 0, 0, 128, 0),
    ("__nv_fp8_e4m3", 128, "bytes_64", 0, 0, 64, 0),
    ("__nv_fp8_e4m3", 64, "bytes_32", 0, 1, 64, 0),
    ("__half", 64, "bytes_128", 0, 0, 64, 1),
    ("__half", 128, "bytes_128", 1, 0, 64, 1),
    ("__nv_bfloat16", 64, "bytes_32", 1, 0, 64, 1),
    ("__half", 64, "none", 1, 0, 64, 1),
)
BOXES = (("none", 32), ("bytes_32", 8), ("bytes_64", 16), ("bytes_128", 32))
CONSTANTS: dict[str, list[dict[str, object]]] = {
    "wgmma_product": [*(product(*one) for one in PRODUCTS), product(rs=1), product(columns=128, transpose=1, rs=1)],
    "tma_boxes": [{"COLUMNS": columns, "SWIZZLE": f"Swizzle::{swizzle}"} for swizzle, columns in BOXES],
    "warp_product": [{"ELEMENT_TYPE": type_name} for type_name in ("__half", "__nv_bfloat16")],
    "warpgroup_roles": [{"BLOCKS": blocks} for blocks in (1, 2)],
}
"""What tests define for a kernel; those that are not named take no constants."""


@cache
def _libraries() -> dict[tuple[str, frozenset[tuple[str, object]]], Library]:
    """By kernel and constants: all of one build."""
    kernels = [(file.stem, one) for file in sorted(KERNELS.glob("*.cu")) for one in CONSTANTS.get(file.stem, [{}])]
    source = {f"{name}.cu": (KERNELS / f"{name}.cu").read_text() for name, _ in kernels}.get
    texts = [
        (together.whole(f"{name}.cu", source, f"copy_{number}"), constants)
        for number, (name, constants) in enumerate(kernels)
    ]
    keys = [(name, frozenset(constants.items())) for name, constants in kernels]
    return dict(zip(keys, together.of_texts(texts, KERNELS), strict=True))


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
    library = _libraries()[kernel, frozenset(defines.items())]
    library.handle.plant(BUGS.index(bug))
    library.configure(seed=seed, os_threads=os_threads, patience=patience)
    library.forget()
    for number, (tensor, use) in enumerate(tensors):
        watch(library, f"tensor {number}", tensor, use)
    code = library.launch(ctypes.byref(arguments), None)
    assert bool(code) == bool(library.diagnosis())
    return library.diagnosis()
