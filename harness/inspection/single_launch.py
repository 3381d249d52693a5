"""One launch of one case in a process that does little else, for a tool that watches all that the process does.

    python -m harness.inspection.single_launch REQUEST [RESULT]

REQUEST is a pickled (case, architecture); RESULT gets {"status": ..., "reason": ...} as JSON. Without RESULT a CUDA
kernel is built, so that the next process finds it, and nothing is launched.

A CUDA kernel runs without torch: importing it costs more than all else, and its allocator would place tensors side by
side. Each tensor is an allocation of its exact size, and the outputs are left as the driver gives them: what the kernel
does not write was never written.
"""

import ctypes
import json
import math
import pickle
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy

from harness import build, operators
from harness.build import cuda_driver
from harness.catalog.cases import Case, declined
from harness.operators.protocol import TensorSpec

BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
SCRATCH = TensorSpec((1,), "fp32", 0)
"""Of a workspace only the address is asked."""


class Driver:
    """The CUDA driver and its primary context on the first GPU, which the kernel's own runtime shares. Raises
    build.LaunchError for an error of the driver's, OSError where there is no driver."""

    def __init__(self) -> None:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        cuda_driver.call("cuInit", 0)
        cuda_driver.call("cuDeviceGet", ctypes.byref(device), 0)
        cuda_driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        cuda_driver.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        cuda_driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def upload(self, data: bytes) -> int:
        pointer = self.allocate(len(data))
        cuda_driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), data, ctypes.c_size_t(len(data)))
        return pointer

    def download(self, pointer: int, size: int) -> bytes:
        """Waits for the GPU. Raises build.LaunchError for what a launch did."""
        data = ctypes.create_string_buffer(size)
        cuda_driver.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return data.raw


def normal(count: int, dtype: str, seed: int) -> bytes:
    """`count` numbers from N(0, 1) as fp16, bf16 or fp32."""
    numbers = numpy.random.default_rng(seed).standard_normal(count, dtype=numpy.float32)
    if dtype == "bf16":
        return (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()  # the upper half of each fp32
    return numbers.astype(numpy.float16 if dtype == "fp16" else numpy.float32).tobytes()


@dataclass(frozen=True)
class DeviceTensor:
    """As much of a tensor as a launch needs to know, without torch."""

    pointer: int
    spec: TensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * BYTES[self.spec.dtype]

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.spec.strides


def library_of(case: Case, arch: str) -> Path:
    """The library of a CUDA kernel, built without torch. Raises build.CompileError."""
    return build.build_cuda(case, arch, inline=False).library


def launch_cuda(case: Case, arch: str) -> None:
    """Raises build.CompileError, build.LaunchError."""
    operator, problem = operators.of(case.problem), case.problem
    library = ctypes.CDLL(str(library_of(case, arch)))
    driver = Driver()
    inputs = {
        name: DeviceTensor(driver.upload(normal(math.prod(spec.shape), spec.dtype, seed)), spec)
        for seed, (name, spec) in enumerate(operator.input_specs(problem).items())
    }
    outputs = {
        name: DeviceTensor(driver.allocate(math.prod(spec.shape) * BYTES[spec.dtype]), spec)
        for name, spec in operator.output_specs(problem).items()
    }
    scratch = b"\xff" * operator.scratch_bytes(problem) + bytes(build.workspace_bytes(library, problem))
    workspace = DeviceTensor(driver.upload(scratch), SCRATCH) if scratch else None
    args = operator.structure({**inputs, **outputs}, operator.scalars(problem), workspace)
    library.launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if code := library.launch(ctypes.byref(args), None):
        raise build.LaunchError(f"{case}: the launcher's CUDA error {code}", code)
    _check_written(case, [any(driver.download(out.pointer, out.bytes)) for out in outputs.values()])


def launch_triton(case: Case) -> None:
    """Raises build.Unsupported and what Triton raises."""
    import torch

    from harness.operators.memory import DTYPES

    variant, operator = build.load(case), operators.of(case.problem)
    sample = operator.inputs(case.problem, operator.distributions[0], 0, "cpu")
    tensors = {}
    for name, spec in operator.input_specs(case.problem).items():  # copies made without a kernel of torch's
        stored = torch.empty_strided(spec.shape, spec.strides, dtype=sample.tensors[name].dtype)
        tensors[name] = stored.copy_(sample.tensors[name]).cuda()
    outputs = {
        name: torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype], device="cuda")
        for name, spec in operator.output_specs(case.problem).items()
    }
    variant.launch({**tensors, **outputs}, sample.scalars)
    torch.cuda.synchronize()
    _check_written(case, [bool(out.cpu().any()) for out in outputs.values()])


def _check_written(case: Case, written: list[bool]) -> None:
    if not any(written):
        raise RuntimeError(f"{case}: the outputs hold nothing but zeros: the kernel did not run")


def outcome(case: Case, arch: str) -> dict[str, str]:
    """Launches the case: {"status": ..., "reason": ...}."""
    try:
        if reason := declined(case):
            raise build.Unsupported(reason)
        if case.backend == "cuda":
            launch_cuda(case, arch)
        else:
            launch_triton(case)
    except Exception as error:
        from harness.machine import environment
        from harness.measure import process  # these import torch

        traceback.print_exc()
        reason = environment.scrub(f"{type(error).__name__}: {error}").split("\n")[0]
        return {"status": process.status_of(error, "launch"), "reason": reason}
    return {"status": "passed"}


if __name__ == "__main__":
    case, arch = pickle.loads(Path(sys.argv[1]).read_bytes())
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(outcome(case, arch)))
    else:
        library_of(case, arch)
