"""Kernels that measure limits of the hardware: built, held against what their code must contain, launched."""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.build import instruction_order, machine_code
from harness.build.cuda import build_alone, cuda_compiler, shared_memory_bytes
from harness.catalog.roofs import WARP, WARPGROUP, Roof
from harness.operators.errors import LaunchError


@dataclass(frozen=True)
class BuiltRoof:
    """`code` and `compiler` are the row's, `missing` the claims about the code that do not hold."""

    library: Path
    code: dict[str, Any]
    compiler: dict[str, Any]
    missing: list[str]
    seconds: float


class RoofArgs(ctypes.Structure):
    """roofs.cuh, field by field."""

    _fields_ = [
        ("samples", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("steps", ctypes.c_int32),
        ("seed", ctypes.c_float),
    ]


SEED = 0.75


def build_roof(roof: Roof, arch: str) -> BuiltRoof:
    """The library of a roof for `arch`. Raises CompileError."""
    built = build_alone(f"{roof.folder}/{roof.kernel}", roof.defines, arch)
    shared_memory = shared_memory_bytes(ctypes.CDLL(str(built.library)))
    code = machine_code.read(built.library, smem_bytes=shared_memory, log=built.log)
    missing = [*code.get("remarks", []), *unheld(roof, machine_code.listing(built.library, "-sass"))]
    if code["spill_bytes"]:
        missing.append(f"{code['spill_bytes']} bytes of local memory, expected none")
    return BuiltRoof(built.library, code, cuda_compiler(built), missing, built.seconds)


def unheld(roof: Roof, sass: str) -> list[str]:
    """The claims of `roof.loops` that the listing does not bear out, each with what its loops have instead."""
    found = [loop for code in instruction_order.functions(sass) for loop in instruction_order.loops(code)]
    missing = []
    for claim in roof.loops:
        counts = [{name: sum(one.is_a(name) for one in loop) for name in claim} for loop in found]
        if claim not in counts:
            missing.append(f"no loop with {claim}; its loops have {[one for one in counts if any(one.values())]}")
    return missing


def launches(library: Path, roof: Roof, samples: int, results: int, steps: Sequence[int]) -> Iterator[int]:
    """Launches the roof on the default stream once for each of `steps`, when it is asked for the next.

    `samples` and `results` are addresses on the device: (multiprocessors, warps, 5) int64 and (multiprocessors,
    threads) float32. Raises LaunchError.
    """
    handle = ctypes.CDLL(str(library))
    handle.launch.argtypes = [ctypes.POINTER(RoofArgs), ctypes.c_void_p]
    for number in steps:
        if code := handle.launch(ctypes.byref(RoofArgs(samples, results, number, SEED)), None):
            raise LaunchError(f"{roof.name}: CUDA error {code}", code)
        yield number


def samples_shape(roof: Roof, multiprocessors: int) -> tuple[int, int, int]:
    """Of what a launch writes: every multiprocessor, every warp, the fields of RoofSample in roofs.cuh."""
    return multiprocessors, threads(roof) // WARP, 5


def threads(roof: Roof) -> int:
    return (roof.product_groups + roof.vector_groups) * WARPGROUP
